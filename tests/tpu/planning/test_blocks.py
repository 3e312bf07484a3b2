"""Blocks of one dim, columns over all lanes, limits of VMEM, and the order in which blocks of products are tried."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import portakern as pk
from portakern.backend import CompiledBinary, Source
from portakern.backends.tpu.compile import diagnose, worker
from portakern.backends.tpu.planning.blocks import _legal_flat
from portakern.backends.tpu.planning.kernel_plan import plan_kernel
from portakern.backends.tpu.schedule import products
from portakern.backends.tpu.schedule.families import block_elements, schedules
from portakern.errors import IRError, MissingRuleError
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.ir.size import Sym
from portakern.ir.tile import Axis, BufferType, Kernel, Load
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.work import Problem, works
from portakern.tuning.limits import refused
from tests.tpu.helpers import language, programs, samples, target

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("size", "extent", "dtype", "legal"),
    [(37, 37, "f32", True), (1024, 3000, "bf16", True), (3072, 4000, "f32", True), (128, 3000, "f32", True),
     (128, 3000, "bf16", False), (256, 3000, "bf16", True), (384, 3000, "f32", False), (64, 64, "i8", False),
     (1, 0, "f32", False)],
)  # fmt: skip
def test_blocks_of_one_dim(size: int, extent: int, dtype: str, legal: bool) -> None:
    assert _legal_flat(size, extent, dtype) is legal


@pytest.mark.parametrize(("device", "column"), [("v4", ".T[0]"), ("v5e", "[:, 0]"), ("tpu7x", "[:, 0]")])
def test_v4_has_no_gather_of_sublanes(device: str, column: str) -> None:
    operator = load_operator("row_sum")
    (work,) = works(Problem(operator, {"M": 3000, "N": 1000}, {}), [target(device)], ["bf16"], {"m": 1024})
    text = steps.emit(work)[0].text
    assert f"{column}.astype(jnp.bfloat16)" in text and "pl.BlockSpec((BM,)" in text


def test_columns_that_a_loop_carries_fill_the_lanes() -> None:
    text = language().emitter.emit(programs()["attention_blocks"], target()).text
    scratch = re.findall(r"pltpu\.VMEM\(\((\w+), (\w+)\)", text)
    assert ("BM", "128") in scratch and all(lanes != "1" for _, lanes in scratch)


def test_limits_of_vmem_are_asked_for_where_blocks_need_them() -> None:
    small = samples.matmul_bias(256, 256, 256, tile=(128, 128, 128))
    large = samples.matmul_bias(4096, 4096, 4096, tile=(1024, 1024, 1024))
    for device in ("v5e", "v6e", "tpu7x"):
        assert "vmem_limit_bytes" not in language().emitter.emit(small, target(device)).text
        found = re.search(r"vmem_limit_bytes=(\d+) << 20", language().emitter.emit(large, target(device)).text)
        assert found, device
        described = target(device).device
        assert described.value("vmem_default_bytes") < int(found[1]) << 20 < described.value("vmem_bytes")


def _product(m: int, n: int, k: int) -> Nest:
    axes = tuple(NestAxis(a, a, size) for a, size in (("m", m), ("n", n), ("k", k)))
    return Nest("contraction", axes, "bf16", "f32", 3, "bf16")


@pytest.mark.parametrize("device", ["v5e", "v5p", "v6e", "tpu7x"])
def test_large_products_take_large_blocks(device: str) -> None:
    nest, described = _product(8192, 8192, 8192), target(device).device
    first, *_ = products.blocks(nest, described)
    speed = products.rates(nest, described)
    assert products.cycles((8192, 8192, 8192), first, speed, 2) < 1.1 * 2 * 8192**3 / speed.flops
    assert products.cycles((8192, 8192, 8192), (256, 256, 256), speed, 2) > 1.3 * 2 * 8192**3 / speed.flops


def test_small_products_leave_steps_that_hide_copies() -> None:
    schedule = language().schedules(_product(1024, 1024, 1024), target("v5e").device)[0]
    assert schedule.tile("m") * schedule.tile("n") * schedule.tile("k") < 1024**3


def test_blocks_grow_with_the_root_of_the_array() -> None:
    def nest(rows: int, live: int = 3) -> Nest:
        return Nest("rows", (NestAxis("m", "parallel", rows), NestAxis("n", "reduced", 4096, True)), "bf16", "f32", live)

    roomy, tight = target("v5e").device, target("v4").device
    assert block_elements(nest(16 * 4096), roomy) == 4 * block_elements(nest(4096), roomy)
    assert block_elements(nest(16 * 4096), tight) < block_elements(nest(16 * 4096), roomy)
    assert block_elements(nest(4096, 2), roomy) > block_elements(nest(4096), roomy)  # only read: fewer bytes a step


def test_a_block_of_long_formulas_is_code_that_compiles_in_seconds() -> None:
    """Of random bits, say: a step is straight code, an instruction for each vector and operation."""
    axes = (NestAxis("m", "parallel", Sym.named("M")), NestAxis("n", "parallel", 4096, True))
    device = target("v6e").device
    short, long = (Nest("elementwise", axes, "f32", "f32", work=work) for work in (8, 600))
    assert block_elements(long, device) * 600 / 1024 <= 1 << 16
    assert block_elements(short, device) == block_elements(replace(short, work=0), device) > 4 * block_elements(long, device)


def test_a_block_of_running_values_is_code_that_compiles_in_seconds() -> None:
    line, rows = NestAxis("n", "scanned", 31, True), NestAxis("m", "parallel", Sym.named("M"))
    device = target("v6e").device
    first = schedules(Nest("scan", (rows, line), "f32", "f32"), device)[0]
    assert first.tile("m") * first.tile("n") <= 512 * 1024
    assert refused(Nest("scan", (rows, line), "f32", "f32"), Schedule((("m", 8192), ("n", 32))), device)
    assert not refused(Nest("scan", (rows, line), "f32", "f32"), first, device)


def test_positions_of_an_open_dim_are_few_in_a_block() -> None:
    """An array has to be as long as what the last block of windows reaches."""
    text = str(pk.emit(summed_windows, "pallas:v6e", K=pk.dynamic))
    (padding,) = (int(n) for n in re.findall(r"max\(-K \+ .*? \+ (\d+), 0\)", text))
    assert padding < 2100


@pk.operator
def summed_windows(x: pk.Tensor[8, 16, "K", 40], w: pk.Tensor[2, 2, 40, 1]):
    return pk.conv(x, w, stride=2, dilation=2)


def test_open_sizes_are_compiled_for_what_the_host_lays_out() -> None:
    """Elements picked one by one are each a tile of memory by themselves."""
    @pk.operator
    def op(x: pk.Tensor["M", "N"], index: pk.Tensor[28, "N", pk.i32]):
        return pk.take_along(x, index, axis=0, fill=2)

    work, = works(Problem(op, {"M": pk.dynamic, "N": pk.dynamic}, {}), [target("v6e")], ["f32"])
    sizes = dict(dict(steps.emission(work).source.options)["typical"])
    assert 10 <= sizes["M"] <= 300


def test_the_kernel_without_room_takes_its_next_schedule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As libtpu says it of the second of two kernels; what was asked for stays."""
    monkeypatch.setenv("PORTAKERN_CACHE", str(tmp_path))

    @pk.operator
    def op(x: pk.Tensor[64, 1024], y: pk.Tensor["M", 512]):
        return pk.softmax(x), pk.cumsum(y, axis=1)

    (work,) = works(Problem(op, {"M": pk.dynamic}, {}), [target("v6e")], ["f32"])
    words = ('Ran out of memory in memory space vmem: CompileTimeScopedVmemOom op_name="jit(op)/op_2/pallas_call" '
             "size 33.97M and limit 32.00M")  # fmt: skip
    tried: list[Source] = []

    def compile_(source: Source) -> CompiledBinary:
        tried.append(source)
        if len(tried) < 3:
            raise worker._blamed(diagnose.explain(words, "op", {}, "op.py"), source)
        return CompiledBinary("tpu-executable", b"code", "libtpu")

    monkeypatch.setattr(language().toolchain, "compile", compile_)
    made = steps.build(work)
    assert made.row.error is None and made.source is tried[2]
    first, second, third = ([str(x) for x in s.schedule] for s in tried)
    assert first[0] == second[0] == third[0] and len({first[1], second[1], third[1]}) == 3

    tried.clear()
    asked = replace(work, schedule={"m": 64})
    made = steps.build(asked)
    assert len(tried) == 1 and made.row.error is not None and made.row.error["kind"] == "schedule"


def test_a_load_that_no_block_is_planned_for_is_named() -> None:
    (kernel,) = programs()["add_bias"].kernels
    plan = plan_kernel(kernel, kernel.name, {}, lambda *said: pytest.fail(str(said)))
    load = next(op for op in plan.kernel.body.walk() if isinstance(op, Load))
    assert plan.read_number(load) == 0 and isinstance(load.buffer, Arg)
    with pytest.raises(IRError, match=r"no block of another at \[.*\] is planned in add_bias; planned are"):
        plan.read_number(replace(load, buffer=replace(load.buffer, name="another")))


@pytest.mark.parametrize("order", ["mn", "nm"])
def test_cores_do_not_share_an_axis_along_which_a_block_is_stored_again(order: str) -> None:
    axes = {"m": Axis("m", "grid", 256, 128), "n": Axis("n", "grid", 512, 128)}
    b = Builder(tuple(axes[a] for a in order))
    shape = tuple(axes[a].extent for a in order)
    x, rows = Arg("x", BufferType(shape, "f32")), Arg("rows", BufferType((256,), "f32"))
    out, kept = Arg("out", BufferType(shape, "f32")), Arg("kept", BufferType((256,), "f32"))
    row = b.load(rows, ["m"], pad=0.0)
    tile = b.load(x, [*order], pad=0.0)
    b.store(b.binary("add", tile, b.broadcast(row, b.dims(*order))), out, [*order])
    b.store(row, kept, ["m"])
    kernel = Kernel("repeats", Block((x, rows, out, kept), b.ops), "elementwise", tuple(axes[a] for a in order),
                    Schedule(tuple((a, 128) for a in order)))  # fmt: skip
    plan = plan_kernel(kernel, kernel.name, {}, lambda *said: pytest.fail(str(said)))
    assert {d.axes[0]: d.semantics for d in plan.grid} == {"m": "parallel", "n": "arbitrary"}


def windows_behind_rows(taps: int) -> pk.Operator:
    @pk.operator
    def op(x: pk.Tensor["M", "N"]):
        return pk.transpose(pk.windows(x, taps) * 2.0, (1, 0, 2))

    return op


def test_windows_along_more_axes_than_a_tile_has_are_loaded_tap_by_tap() -> None:
    text = str(pk.emit(windows_behind_rows(3), "pallas:v6e", dtype="f32", M=37, N=16))
    assert text.count("jnp.where(") == 2
    assert all(f"lambda i_on: (i_on{tap}, 0, 0))" in text for tap in ("", " + 1", " + 2"))


def test_windows_of_many_taps_along_more_axes_than_a_tile_has_are_refused() -> None:
    with pytest.raises(MissingRuleError, match="cannot emit op") as caught:
        pk.emit(windows_behind_rows(80), "pallas:v6e", M=37, N=100)
    assert "windows of x along more than two axes of a tile" in str(caught.value)


def test_results_that_the_host_transposes_lie_in_high_bandwidth_memory() -> None:
    @pk.operator
    def op(s: pk.Tensor["M", "N", "K"]):
        return s.T

    text = str(pk.emit(op, "pallas:v6e", dtype="bf16", M=100, N=100, K=800))
    assert "out_shape=pltpu.HBM((100, 800, 100), jnp.bfloat16)" in text and ".transpose(1, 0, 2)\n" in text
    assert "pltpu.HBM" not in str(pk.emit(load_operator("softmax"), "pallas:v6e", M=100, N=100))
