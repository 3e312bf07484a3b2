"""Emitted Pallas: golden texts, what is refused and why, and that emitting needs no jax."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import portakern as pk
from portakern.errors import MissingRuleError, ScheduleError
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, NestAxis
from portakern.ir.tile import BufferType
from portakern.study import steps
from portakern.study.work import Problem, works
from tests.lower import user_operators
from tests.tpu.helpers import language, programs, samples, target
from tests.tpu.programs import all_programs

pytestmark = pytest.mark.quick

GOLDEN = ("add_bias_open", "softmax", "softmax_long_open", "matmul_bias_f32", "attention_blocks", "column_sums_blocks")


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, golden) -> None:
    source = language().emitter.emit(programs()[name], target())
    golden(f"{name}.py", source.text)


def test_golden_plan(golden) -> None:
    golden("attention_blocks.plan", str(language().emitter.plan(programs()["attention_blocks"], target())))


@pytest.mark.parametrize("name", ["middle_sum", "shuffled", "scaled_and_turned", "booleans", "normalised_product"])
def test_golden_of_views(name: str, golden) -> None:
    golden(f"{name}.py", language().emitter.emit(all_programs()[name][0], target()).text)


def test_sources_are_python_and_say_nothing_of_interpreters() -> None:
    for name, program in programs().items():
        text = language().emitter.emit(program, target()).text
        compile(text, name, "exec")
        assert "interpret" not in text
        assert max(map(len, text.splitlines())) <= 120, name


def test_emitting_imports_no_framework() -> None:
    script = ("import sys; sys.path.insert(0, '.'); from tests.tpu.helpers import *; "
              "language().emitter.emit(programs()['attention'], target()); "
              "print([m for m in ('jax', 'libtpu', 'torch', 'triton', 'numba') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_blocks_that_mosaic_refuses_are_known_before() -> None:
    program = samples.column_sums(330, 700, tile=(63, 250))
    found = language().emitter.missing(program, target())
    assert {m.what.split(" along ")[0] for m in found} == {"blocks of 63", "blocks of 250"}
    assert all("multiple of" in m.alternative for m in found)
    with pytest.raises(MissingRuleError, match="blocks of 63 along m"):
        language().emitter.emit(program, target())


@pytest.mark.parametrize(("dtype", "instead"), [("f16", "bf16"), ("f64", "f32")])
def test_dtypes_a_tpu_lacks_are_refused_with_the_alternative(dtype: str, instead: str) -> None:
    program = samples.transpose(dtype=dtype, tile=(128, 128))
    found = language().emitter.missing(program, target())
    assert found and all(f"the dtype {dtype}" in m.what and m.alternative.startswith(instead) for m in found)


def test_everything_missing_is_listed_at_once() -> None:
    program: Program = samples.transpose(dtype="f16", tile=(128, 128))
    x = program.arrays[0]
    wide = replace(x, type=BufferType((70, 45), "f64"))
    found = language().emitter.missing(replace(program, arrays=(wide, *program.arrays[1:])), target())
    assert any("f64" in m.what for m in found) and any("f16" in m.what for m in found)


def test_parts_of_an_array_are_taken_by_a_kernel_with_a_grid() -> None:
    """Pallas takes a block that is not the whole array from a kernel with a grid only."""
    (work,) = works(Problem(user_operators.taps, user_operators.CASES["taps"], {}), [target()], ["f32"])
    text = steps.emit(work)[0].text
    assert "grid=(1,)" in text and "lambda _: (1, 0, 0)" in text


def test_integer_products_are_sums_of_rows_on_v4() -> None:
    program = all_programs()["transposed_product"][0]
    assert not language().emitter.missing(program, target("v4"))
    assert not target("v4").device.matrix_for("i8")
    assert target("v5e").device.matrix_for("i8")
    sizes = {"M": 64, "N": 200, "K": 160}
    for device, multiplied in (("v4", False), ("v5e", True)):
        (work,) = works(Problem(user_operators.bytes_product, sizes, {}), [target(device)], ["f32"])
        text = steps.emit(work)[0].text
        assert ("preferred_element_type=jnp.int32" in text) == multiplied and ("jnp.sum(" in text) != multiplied


def test_products_of_floats_that_the_matrix_unit_does_not_take_are_refused() -> None:
    @pk.operator
    def op(x: pk.Tensor["M", "K", pk.f8e5m2], y: pk.Tensor["K", "N", pk.f8e5m2]):
        return pk.matmul(x, y, dtype=pk.f32)

    (work,) = works(Problem(op, {"M": 64, "N": 200, "K": 160}, {}), [target("v5e")], ["f32"])
    with pytest.raises(MissingRuleError, match="product of f8e5m2") as caught:
        steps.emit(work)
    assert "pk.cast both operands to" in caught.value.hint and "bf16" in caught.value.hint


@pytest.mark.parametrize("device", ["v4", "v5e", "v5p", "v6e", "tpu7x", "v6e-chip"])
def test_schedules_are_legal_and_fit(device: str) -> None:
    from portakern.backends.tpu.schedule.families import vmem_bytes

    m, n, k = NestAxis("m", "m", 4096), NestAxis("n", "n", 4100), NestAxis("k", "k", 1000)
    matmul = Nest("contraction", (m, n, k), "bf16", "f32", dots="bf16")
    rows = Nest("rows", (NestAxis("m", "parallel", 8192), NestAxis("n", "reduced", 70_000, True)), "f32", "f32", 3)
    device_ = target(device).device
    for nest in (matmul, rows):
        for schedule in language().schedules(nest, device_):
            assert all(tile % 8 == 0 for _, tile in schedule.tiles)
            assert schedule.tile("n") % 128 == 0
            assert vmem_bytes(nest, schedule) < 0.75 * device_.value("vmem_bytes")


def test_the_first_elements_of_columns_fit_beside_the_columns() -> None:
    """Lines and their first elements are two tiles, and not one with the dims of both."""
    lines, first = NestAxis("d1", "sorted", 10), NestAxis("i", "first", 3)
    axes = (NestAxis("d0", "parallel", 5), NestAxis("d2", "parallel", 5, True), lines, first)
    assert language().schedules(Nest("sort", axes, "f32", "f32", live=8, stored="i32"), target().device)


@pk.operator
def columns_in_order(x: pk.Tensor["M", "N"]):
    return pk.sort(x, axis=0), pk.topk(x, 2, axis=0)[0]


@pytest.mark.parametrize("dims", [{}, {"M": 5000}, {"N": 1000}])
def test_columns_of_open_sizes_are_ordered(dims: dict[str, int]) -> None:
    (work,) = works(Problem(columns_in_order, dims, {}), [target("v6e")], ["f32"])
    assert "def columns_in_order(x):" in steps.emit(work)[0].text


def test_a_head_that_cannot_fit_has_no_schedule() -> None:
    axes = tuple(NestAxis(a, a, size) for a, size in (("m", 512), ("n", 512), ("k", 100_000), ("d", 100_000)))
    with pytest.raises(ScheduleError, match="no block of this attention kernel fits"):
        language().schedules(Nest("attention", axes, "f32", "f32", dots="f32"), target().device)
