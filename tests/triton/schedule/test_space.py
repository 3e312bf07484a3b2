"""What tuning may draw for Triton is what Triton compiles: no matrix operand below what ``tl.dot`` takes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import portakern as pk
from portakern.backends.triton import triton_language
from portakern.backends.triton.prepare.dots import WIDTH, shortest, takes
from portakern.backends.triton.schedule.families import schedules
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.lower import lower_for
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.tools.workers import WorkerPool
from portakern.tuning.limits import refused
from portakern.tuning.space import nest_space

TARGETS = ["triton:sm_80", "triton:sm_90", "triton:h200", "triton:gfx942", "triton:gfx1201"]
DTYPES = ["f32", "bf16", "f16", "f8e4m3", "i8", "f64", "u8", "i32"]
sizes = st.one_of(st.integers(1, 40), st.just(4096))


def drawn(nest: Nest, target: str, seed: int) -> Schedule:
    device = registry().target(target).device
    assert triton_language.choices is not None
    space, rng = nest_space(nest, schedules(nest, device), triton_language.choices(nest, device), device), random.Random(seed)
    points = (space.schedule({name: rng.choice(values) for name, values in space.choices.items()}) for _ in range(100))
    return next(s for s in points if not refused(nest, s, device))


@given(st.sampled_from(TARGETS), st.sampled_from(DTYPES), st.tuples(sizes, sizes, sizes), st.integers(0, 1 << 20))
@settings(max_examples=200, deadline=None)
def test_tiles_of_products_are_powers_of_two_that_a_dot_takes(target: str, dtype: str, mnk: tuple[int, int, int], seed: int):
    axes = tuple(NestAxis(n, n, size, n != "m") for n, size in zip("mnk", mnk, strict=True))
    tiles = dict(drawn(Nest("contraction", axes, dtype, "f32", dots=dtype), target, seed).tiles)
    assert all(t & (t - 1) == 0 for t in tiles.values())
    device = registry().target(target).device
    assert tiles["k"] >= shortest(device, dtype)
    if takes(device, dtype):
        assert min(tiles["m"], tiles["n"]) >= WIDTH
    else:
        assert tiles["k"] * tiles["m"] * tiles["n"] <= 1 << 15, "every product is held at once"


@pytest.mark.quick
@pytest.mark.parametrize(("sizes", "causal", "tiles", "warps", "ahead", "heads"), [
    ((1024, 1024, 64), True, [64, 64, 64, 64], 4, 1, 64),
    ((1024, 1024, 64), False, [64, 128, 64, 64], 4, 1, 64),
    ((777, 777, 64), False, [64, 64, 64, 64], 4, 1, 64),
    ((8192, 8192, 128), True, [128, 64, 128, 128], 4, 1, 8),
    ((2048, 2048, 256), True, [128, 64, 256, 256], 8, 2, 8),
    ((128, 128, 256), True, [64, 32, 256, 256], 4, 0, 8),
    ((1, 8192, 128), False, [16, 128, 128, 128], 4, 0, 8),
    ((1, 8192, 64), False, [16, 256, 64, 64], 4, 0, 8),
])  # fmt: skip
def test_attention_on_hopper(sizes: tuple[int, int, int], causal: bool, tiles: list[int], warps: int, ahead: int,
                             heads: int) -> None:  # fmt: skip
    """What was the fastest of some twenty schedules each on an H200 (docs/nvidia.md)."""
    dims = {"B": 64, "H": 16, "G": 1, **dict(zip(("SQ", "SK", "D"), sizes, strict=True))}
    program = load_operator("attention").program(dims, {"causal": causal}, "bf16")
    found = lower_for(program, registry().target("triton:h200"), triton_language).kernels[0].schedule
    assert [tile for _, tile in found.tiles if tile > 1] == tiles
    assert (found.warps, found.stages, found.option("ahead", 0), found.option("heads", 0)) == (warps, 2, ahead, heads)


@pk.operator
def thin(x: pk.Tensor["M", "K"], w: pk.Tensor["K", "N"]):
    return pk.matmul(x, w)


def test_a_product_too_short_for_a_dot_is_refused_with_the_line():
    target = registry().target("triton:sm_90")
    program = lower_for(thin.program({"M": 64, "N": 64, "K": 64}), target, triton_language, {"k": 8})
    (missing,) = triton_language.emitter.missing(program, target)
    assert "over 8" in missing.what and "test_space.py:" in missing.where


@pytest.mark.parametrize(("target", "dtype"), [("triton:sm_90", "f32"), ("triton:sm_80", "bf16"), ("triton:gfx942", "f16")])
def test_drawn_schedules_compile(target: str, dtype: str):
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    found, rng = registry().target(target), random.Random(5)
    with WorkerPool(1, env=dict(triton_language.environment), preload=("torch", "triton")) as pool:
        for _ in range(2):
            dims = {n: rng.randint(1, 40) for n in "MNK"}
            program = lower_for(thin.program(dims, dtype=dtype), found, triton_language,
                                pick=lambda nest, _: drawn(nest, target, rng.randrange(1 << 20)))  # fmt: skip
            source = triton_language.emitter.emit(program, found)
            assert pool.call("tests.triton.schedule.test_space:compiled", source), (dims, program.kernels[0].schedule)


def compiled(source) -> bool:
    """Whether the toolchain makes a binary; called inside a worker."""
    assert triton_language.toolchain is not None
    return bool(triton_language.toolchain.compile(source).data)
