"""Products of operands of every dtype on every device: compiled, or refused with the operator's line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import portakern as pk
from portakern.backend import Source, Target
from portakern.backends.triton import triton_language
from portakern.errors import UnsupportedDtype
from portakern.registry import registry
from portakern.tools.workers import WorkerPool
from tests.lowering import lowered_for

DEVICES = ["sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950", "gfx1201"]
SUMS = {"f64": "f64", "f32": "f32", "bf16": "f32", "f16": "f32", "f8e4m3": "f32", "f8e5m2": "f32", "i8": "i32", "u8": "i32",
        "i16": "i32", "i32": "i32", "i64": "i64"}  # fmt: skip
EVERY = [(device, dtype) for device in DEVICES for dtype in SUMS]
SAMPLE = [("sm_80", "u8"), ("sm_90", "f64"), ("gfx942", "i32")]
SHAPES = ({"M": 1, "K": 1, "N": 1}, {"M": 100, "K": 70, "N": 33})


def product_of(dtype: str) -> pk.Operator:
    @pk.operator
    def product(x: pk.Tensor["M", "K"], y: pk.Tensor["K", "N"]):
        return pk.matmul(x, y, dtype=getattr(pk, SUMS[dtype]))

    return product


def emitted(device: str, dtype: str, shape: dict[str, int]) -> Source:
    target: Target = registry().target(f"triton:{device}")
    return triton_language.emitter.emit(lowered_for(target, product_of(dtype).program(shape, dtype=dtype)), target)


def compiles(pool: WorkerPool, device: str, dtype: str) -> None:
    for shape in SHAPES:
        try:
            source = emitted(device, dtype, shape)
        except UnsupportedDtype as error:
            assert dtype in str(error) and device in str(error)
            return
        assert pool.call("tests.triton.support:compiled", "triton", source).data


@pytest.fixture(scope="module")
def compiler() -> Iterator[WorkerPool]:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    with WorkerPool(1, env=dict(triton_language.environment), preload=("torch", "triton")) as pool:
        yield pool


@pytest.mark.parametrize(("device", "dtype"), SAMPLE)
def test_a_product_compiles(compiler: WorkerPool, device: str, dtype: str) -> None:
    compiles(compiler, device, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("device", "dtype"), EVERY)
def test_every_product_compiles_or_is_refused(compiler: WorkerPool, device: str, dtype: str) -> None:
    compiles(compiler, device, dtype)


@pytest.mark.parametrize(("device", "dtype"), EVERY)
def test_a_dot_meets_only_what_it_takes(device: str, dtype: str) -> None:
    try:
        text = emitted(device, dtype, SHAPES[1]).text
    except UnsupportedDtype:
        return
    by_hand = dtype in ("u8", "i16", "i32", "i64") or (dtype == "f64" and device.startswith("sm_"))
    assert ("tl.dot(" not in text) == by_hand


def test_hopper_multiplies_narrow_floats_as_f16() -> None:
    """Its 8-bit products are cut inside one instruction; every 8-bit float is one of f16."""
    assert emitted("sm_90", "f8e4m3", SHAPES[1]).text.count(".to(tl.float16)") == 2
    assert ".to(tl.float16)" not in emitted("sm_100", "f8e4m3", SHAPES[1]).text
