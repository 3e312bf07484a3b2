"""Every hand-made program on every AMD architecture: text, machine code, and results on host lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import portakern as pk
from portakern.backend import Source
from portakern.backends.rocm.amdgcn.execution.simulator import AmdMachine
from portakern.backends.rocm.emitter import HipEmitter
from portakern.backends.rocm.schedules import schedules
from portakern.backends.rocm.toolchain import HipToolchain
from portakern.dtypes import numpy_dtype
from portakern.errors import MissingRuleError, ScheduleError
from portakern.ir.core import Arg
from portakern.ir.schedule import Nest, NestAxis
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from tests import samples
from tests.rocm.helpers import ISAS, kernel, needs_clang, run, target

SAMPLES = samples.all_samples()
QUICK = (
    "add_bias_open",
    "transpose",
    "softmax",
    "softmax_long_open",
    "matmul_bias",
    "matmul_bias_f32",
    "attention",
    "attention_f32",
    "column_sums",
)
BIG = {
    "attention_waves": samples.attention(queries=50, keys=70, tile=(64, 32)),  # every wave holds whole rows
    "attention_waves_f16": samples.attention(dtype="f16", width=80, causal=False, tile=(64, 32)),
}
ALL = {**SAMPLES, **BIG}
SIZES = {"M": 37, "N": 2500}


def pairs() -> list[object]:
    found: list[object] = []
    for isa in ISAS:
        quick = (*QUICK, *BIG) if isa in ("gfx942", "gfx1100") else ("softmax", "matmul_bias", "attention_waves")
        found += [pytest.param(name, isa, marks=() if name in quick else (pytest.mark.slow,)) for name in ALL]
    return found


def emitted(name: str, isa: str) -> Source:
    return HipEmitter().emit(ALL[name], target(isa))


def reference(name: str, x: dict[str, np.ndarray]) -> np.ndarray:
    """What a sample computes, in float64."""
    if name.startswith("add_bias"):
        return np.maximum(x["x"] + x["b"], 0)
    if name.startswith("transpose"):
        return x["x"].T
    if name.startswith("softmax"):
        e = np.exp(x["x"] - x["x"].max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    if name.startswith("matmul"):
        y = x["a"] @ x["w"] + x["bias"]
        return 0.5 * y * (1 + np.tanh(0.7978845608028654 * (y + 0.044715 * y**3)))
    if name.startswith("column"):
        return x["x"].sum(0)
    s = np.einsum("bhgmk,bhnk->bhgmn", x["q"], x["k"]) * x["q"].shape[-1] ** -0.5
    if name not in ("attention_full", "attention_waves_f16"):
        m, n = s.shape[-2:]
        s = np.where(np.arange(n)[None, :] <= np.arange(m)[:, None] + n - m, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhgmn,bhnd->bhgmd", p / p.sum(-1, keepdims=True), x["v"])


@pytest.mark.parametrize(("name", "isa"), pairs())
def test_a_kernel_computes_what_it_should_on_the_machine(name: str, isa: str) -> None:
    needs_clang(isa)
    source = emitted(name, isa)
    sizes = {s: SIZES[s] for s in source.sizes}
    rng = np.random.default_rng(0)
    inputs = {
        a.name: rng.standard_normal([evaluate(n, sizes) for n in a.type.shape]).astype(numpy_dtype(a.dtype))  # type: ignore[union-attr]
        for a in source.by_role("input")
    }
    got = run(source, *inputs.values(), **sizes)
    want = reference(name, {k: v.astype(np.float64) for k, v in inputs.items()})
    tolerance = {"bf16": 8e-3, "f16": 1e-3, "f32": 2e-6}[source.by_role("output")[0].dtype]
    assert np.abs(got.astype(np.float64) - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize(("name", "isa"), pairs())
def test_a_kernel_compiles_without_spills_and_uses_the_matrix_cores(name: str, isa: str) -> None:
    needs_clang(isa)
    binary = HipToolchain().compile(emitted(name, isa))
    for r in binary.resources:
        assert (r.spills, r.scratch_bytes) == (0, 0)
        assert (r.shared_bytes or 0) <= target(isa).device.count("shared_bytes_per_block")
        assert 0 < (r.occupancy or 0) <= 1
    if name.startswith(("matmul", "attention")):
        cdna, f32 = isa.startswith("gfx9"), name.endswith("f32")
        count = (binary.assembly or "").count("v_mfma_f32_16x16x" if cdna else "v_wmma_f32_16x16x16")
        assert (count > 0) == (cdna or not f32)  # RDNA has no matrix instruction for f32


GOLDEN = [
    ("add_bias", "gfx1100"),
    ("softmax", "gfx942"),
    ("transpose", "gfx942"),
    ("matmul_bias", "gfx942"),
    ("attention_waves", "gfx950"),
    ("softmax_long_open", "gfx1201"),
]


@pytest.mark.quick
@pytest.mark.parametrize(("name", "isa"), GOLDEN)
def test_the_text_of_a_kernel(name: str, isa: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}_{isa}.hip", emitted(name, isa).text)


def test_one_file_compiles_by_itself() -> None:
    needs_clang()
    source = emitted("attention_waves", "gfx942")
    alone = HipEmitter().standalone(source)
    assert '#include "' not in alone
    assert HipToolchain().compile(kernel_of(source, alone)).resources[0].spills == 0


def kernel_of(source: Source, text: str) -> Source:
    from dataclasses import replace

    return replace(source, text=text, headers=())


def test_the_probabilities_of_attention_stay_in_registers() -> None:
    assert "put(" not in emitted("attention_waves", "gfx942").text
    assert "LeftOperand" in emitted("attention_waves", "gfx942").text


def test_more_stages_than_there_are_buffers_is_an_error() -> None:
    from dataclasses import replace

    program = SAMPLES["matmul_bias"]
    (k,) = program.kernels
    with pytest.raises(ScheduleError, match="stages=3"):
        HipEmitter().plan(replace(program, kernels=(replace(k, schedule=replace(k.schedule, stages=3)),)), target("gfx942"))


def test_tiles_below_the_matrix_instructions_are_refused_with_the_reason() -> None:
    with pytest.raises(MissingRuleError, match="multiples of 16"):
        HipEmitter().emit(samples.matmul_bias(tile=(8, 64, 32)), target("gfx942"))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("operator", "sizes", "tiles"),
    [
        ("matmul", dict(M=64, N=64, K=64), dict(m=32, n=32, k=16)),
        ("attention", dict(B=2, H=1, G=1, SQ=64, SK=64, D=64), dict(m=32, n=32)),
    ],
)
def test_waves_without_equal_parts_of_a_product_are_refused_with_the_line(operator, sizes, tiles) -> None:
    with pytest.raises(MissingRuleError, match=rf"32 x \d+ elements shared by 16 waves \(\S+{operator}.py:\d+"):
        pk.build(operator, target="hip:gfx1201", dtype="f32", schedule={**tiles, "warps": 16}, **sizes)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_every_schedule_of_a_product_has_room_and_equal_parts(isa: str, dtype: str) -> None:
    nest = Nest("contraction", tuple(NestAxis(x, x, 512) for x in "mnk"), dtype, "f32", dots=dtype)
    for chosen in schedules(nest, target(isa).device):
        m, n, k = (chosen.tile(x) for x in "mnk")
        program = samples.matmul_bias(512, 512, 512, dtype, (m, n, k))
        kernels = tuple(replace(k, schedule=chosen) for k in program.kernels)
        assert HipEmitter().emit(replace(program, kernels=kernels), target(isa)).launches


def test_operands_beyond_the_memory_of_a_block_are_refused_with_the_line() -> None:
    with pytest.raises(ScheduleError, match=r"matmul.py:\d+: matmul takes 131072 bytes of shared memory .* gfx942 has 65536"):
        pk.build("matmul", target="hip:gfx942", dtype="f16", M=256, N=256, K=256,
                 schedule={"m": 128, "n": 128, "k": 256, "warps": 4, "stages": 1, "waves": "plain"})  # fmt: skip


def test_products_of_doubles_summed_in_floats_are_refused_with_the_alternative() -> None:
    missing = HipEmitter().missing(samples.matmul_bias(dtype="f64"), target("gfx942"))
    assert any("products of f64 in f64, not f32" in m.what and m.alternative == "f64" for m in missing)


@pytest.mark.parametrize(("isa", "instruction"), [("gfx90a", "v_mfma_f64"), ("gfx942", "v_mfma_f64"), ("gfx1201", "v_fma_f64")])
def test_products_of_doubles_take_the_matrix_cores_where_there_are_such(isa: str, instruction: str) -> None:
    needs_clang(isa)
    built = pk.build("matmul", target=f"hip:{isa}", dtype="f64", M=64, N=64, K=64)
    assert instruction in built.asm


@pytest.mark.parametrize("isa", ["gfx1100", "gfx1201"])
def test_an_operand_that_few_threads_fetch_stays_in_registers(isa: str) -> None:
    """32 of 64 threads have a share of it: what the others keep was read from private memory, by a flat load."""
    needs_clang(isa)

    @pk.operator
    def product(x: pk.Tensor["M", "K"], w: pk.Tensor["K", "N"]):
        return x @ w

    schedule = "m=128,n=16,k=16,stages=2,warps=2"
    text = str(pk.emit(product, f"hip:{isa}", "bf16", schedule, form="asm", M=30, K=45, N=32))
    assert "global_load_b128" in text
    assert not [line for line in text.splitlines() if "flat_load" in line or "scratch_" in line.split(";")[0]]



def test_arguments_are_in_the_order_of_the_launch() -> None:
    source = emitted("softmax_long_open", "gfx942")
    assert source.launches[0].args == ("x", "y", "M", "N")
    assert all(isinstance(a, Arg) and isinstance(a.type, BufferType) for a in ALL["softmax_long_open"].kernels[0].args)


def test_a_kernel_that_computes_nothing_is_an_empty_binary() -> None:
    needs_clang()
    from dataclasses import replace

    source = replace(kernel("gfx942", "", {}, {"y": ((0,), "f32")}), launches=())
    binary = HipToolchain().compile(source)
    assert binary.format == "none"
    AmdMachine().load(source, binary).run({}, {})
