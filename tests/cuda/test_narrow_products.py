"""Products of 8-bit numbers on the matrix unit: by which instructions, and right for every way in which operands lie."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.registry import registry
from portakern.spec.operator import Operator
from portakern.study import steps
from portakern.study.work import Problem, Work, works

CUDA = registry().language("cuda")
assert CUDA.toolchain is not None and CUDA.simulator is not None
needs_nvrtc = pytest.mark.skipif(not CUDA.toolchain.available(registry().target("cuda:sm_90a")), reason="needs NVRTC")
needs_host = pytest.mark.skipif(not CUDA.simulator.available(registry().target("cuda:sm_90a")), reason="needs a C++ compiler")


def product(turned: str, precision: str = "ieee") -> Operator:
    """``turned`` says of a and of b whether it lies the other way (t) or not (n)."""
    dims = {"a": ("K", "M") if turned[0] == "t" else ("M", "K"), "b": ("N", "K") if turned[1] == "t" else ("K", "N")}

    @pk.operator(shapes=lambda: dims, name=f"product_{turned}_{precision}", dtypes=("i8",))
    def made(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
        x = pk.transpose(a) if turned[0] == "t" else a
        y = pk.transpose(b) if turned[1] == "t" else b
        return pk.matmul(x, y, pk.f32 if x.dtype.is_float else pk.i32, precision=precision)

    return made


def work(op: Operator, target: str, dtype: str, **sizes: int) -> Work:
    (made,) = works(Problem(op, sizes, {}), [registry().target(target)], [dtype])
    return made


def products_by(target: str, dtype: str, turned: str = "nt", precision: str = "ieee", size: int = 1024) -> str:
    asked = work(product(turned, precision), target, dtype, M=size, N=size, K=size)
    return str(CUDA.emitter.plan(steps.emit(asked)[1], registry().target(target)))


@pytest.mark.parametrize(("target", "dtype", "turned", "precision", "word"), [
    ("cuda:sm_80", "i8", "nt", "ieee", "mma.sync.m16n8k32"), ("cuda:sm_80", "u8", "nn", "ieee", "mma.sync.m16n8k32"),
    ("cuda:sm_90a", "i8", "nt", "ieee", "wgmma.m64nNk32"), ("cuda:sm_90a", "f8e5m2", "nt", "fp8_fast", "wgmma.m64nNk32"),
    ("cuda:sm_90a", "f8e4m3", "nt", "ieee", "wgmma.m64nNk16"),  # in f16, whose sums are not cut
    ("cuda:sm_90a", "i8", "nn", "ieee", "mma.sync.m16n8k32"),  # wgmma takes 8 bits along k alone
    ("cuda:sm_120", "f8e4m3", "nt", "fp8_fast", "mma.sync.m16n8k32"),
])  # fmt: skip
def test_instructions(target: str, dtype: str, turned: str, precision: str, word: str) -> None:
    assert f"products by {word}" in products_by(target, dtype, turned, precision)


def test_operands_of_8_bits_are_fetched_by_the_engine() -> None:
    (launch,) = steps.emit(work(product("nt"), "cuda:sm_90a", "i8", M=1024, N=1024, K=1024))[0].launches
    assert [m.box[1] for m in launch.maps] == [128, 128]


RAGGED, WHOLE = {"M": 33, "N": 49, "K": 77}, {"M": 64, "N": 128, "K": 256}
RIGHT = [
    *(("i8", turned, "ieee", RAGGED) for turned in ("nt", "nn", "tn", "tt")), ("u8", "nt", "ieee", RAGGED),
    ("i8", "nt", "ieee", WHOLE), ("i8", "tn", "ieee", WHOLE), ("f8e4m3", "nt", "ieee", RAGGED), ("f8e5m2", "tn", "ieee", WHOLE),
    ("f8e4m3", "nt", "fp8_fast", WHOLE), ("f8e5m2", "nn", "fp8_fast", RAGGED),
]  # fmt: skip


@needs_host
@needs_nvrtc
@pytest.mark.parametrize(("dtype", "turned", "precision", "sizes"), RIGHT)
def test_right_on_hopper(dtype: str, turned: str, precision: str, sizes: dict[str, int]) -> None:
    asked = work(product(turned, precision), "cuda:sm_90a", dtype, **sizes)
    row = steps.check(asked, steps.build(asked), full=False)
    assert row.error is None and row.correct, row.error


@needs_nvrtc
@pytest.mark.parametrize("target", ["cuda:sm_100a", "cuda:sm_120"])
def test_8_bit_floats_compile(target: str) -> None:
    row = steps.build(work(product("nt", "fp8_fast"), target, "f8e4m3", **WHOLE)).row
    assert row.error is None, row.error


@pk.operator
def rounded(x: pk.Tensor["M", "N", pk.f32]):
    return pk.cast(x, pk.f8e4m3), pk.cast(x, pk.f8e5m2)


@needs_host
@needs_nvrtc
def test_8_bit_floats_are_rounded_as_their_formats_say() -> None:
    """What is beyond the largest number is NaN in one, and infinite in the other."""
    asked = work(rounded, "cuda:sm_90a", "f32", M=3, N=130)
    row = steps.check(asked, steps.build(asked))
    assert row.error is None and row.correct, row.error
