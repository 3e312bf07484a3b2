"""Bounds of steps one after the other: float32 passes in any order of sums, wrong steps do not; long loops keep their teeth."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import portakern as pk
from portakern.check.bounds import propagate
from portakern.check.compare import error_ratio

pytestmark = pytest.mark.quick
f32 = np.float32


@pk.operator
def rnn(x: pk.Tensor["T", "B", "H"], u: pk.Tensor["H", "H"]):
    def step(h, x_t):
        h = pk.tanh(x_t + h @ u)
        return h, h

    return pk.scan(step, pk.zeros(x.shape[1:]), x)[1]


@pk.operator
def total(x: pk.Tensor["T", "N"]):
    return pk.scan(lambda h, x_t: (h + x_t, None), pk.zeros(x.shape[1:]), x)[0]


@pk.operator
def past_a_limit(x: pk.Tensor["T", "N"]):
    return pk.scan(lambda h, x_t: (pk.where(h > 1.0, 0.0, h + x_t), None), pk.zeros(x.shape[1:]), x)[0]


@pk.operator
def rounded(x: pk.Tensor["T", "B", "H"], u: pk.Tensor["H", "H"]):
    def step(h, x_t):
        h = pk.cast(pk.tanh(x_t + pk.matmul(h, u, dtype=pk.f32)), x.dtype)
        return h, h

    return pk.scan(step, pk.zeros(x.shape[1:], x.dtype), x)[1]


def stepped(x: np.ndarray, u: np.ndarray, pieces: int = 1) -> np.ndarray:
    """The states in f32, each product summed in so many pieces."""
    h, states = np.zeros(x.shape[1:], f32), []
    for x_t in x:
        parts = [h[:, i::pieces] @ u[i::pieces] for i in range(pieces)]
        h = np.tanh(x_t + np.add.reduce(parts)).astype(f32)
        states.append(h)
    return np.stack(states)


@pytest.mark.parametrize("scale", [0.2, 0.35])
def test_any_order_of_sums_passes_and_faults_do_not(scale: float) -> None:
    """Taken at its worst the error would have grown by a hundred orders of magnitude."""
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((100, 2, 24)).astype(f32), (rng.standard_normal((24, 24)) * scale).astype(f32)
    want = propagate(rnn.program(dict(T=100, B=2, H=24), {}, "f32"), {"x": x, "u": u})["out"]
    for pieces in (1, 3, 24):
        assert error_ratio(want, "f32", stepped(x, u, pieces)).max() <= 1
    assert want.bound().max() < 0.02
    late = x.copy()
    late[90] = x[89]
    for wrong in (stepped(late, u), np.roll(stepped(x, u), 1, 0), stepped(x, u.astype(np.float16).astype(f32))):
        assert error_ratio(want, "f32", wrong).max() > 1


def test_units_that_an_explicit_rounding_makes_of_an_error_are_anywhere() -> None:
    """A state rounded in every step hides most errors, and makes a whole unit of one in thousands: others than the probes'."""
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((60, 128, 64)), rng.standard_normal((64, 64)) * 0.1
    x, u = x.astype(ml_dtypes.bfloat16), u.astype(ml_dtypes.bfloat16)
    want = propagate(rounded.program(dict(T=60, B=128, H=64), {}, "bf16"), {"x": x, "u": u})["out"]

    def summed(products: np.ndarray, pieces: int) -> np.ndarray:
        """Over axis 1, one by one in each piece and over pieces: that is the order on any machine, as ``@``'s is not."""
        parts = [np.add.accumulate(products[:, i::pieces], 1)[:, -1] for i in range(pieces)]
        return np.add.accumulate(parts)[-1]

    def states(pieces: int, rounds: bool = True) -> np.ndarray:
        h, made, wide = np.zeros((128, 64), f32), [], u.astype(f32)
        for x_t in x.astype(f32):
            h = np.tanh(x_t + summed(h[:, :, None] * wide, pieces))
            made.append(h.astype(ml_dtypes.bfloat16))
            h = made[-1].astype(f32) if rounds else h
        return np.stack(made)

    off = [(states(pieces) != states(1)).sum() for pieces in (3, 8)]
    assert min(off) > 100  # or this says nothing
    for pieces in (1, 3, 8):
        assert error_ratio(want, "bf16", states(pieces)).max() <= 1
    assert error_ratio(want, "bf16", states(1, rounds=False)).max() > 1


def test_roundings_that_are_alike_add_up() -> None:
    """0.1 is no binary number, and every partial sum may be rounded the same way."""
    x = np.full((512, 3), 0.1, f32)
    want = propagate(total.program(dict(T=512, N=3), {}, "f32"), {"x": x})["out"]
    assert error_ratio(want, "f32", np.add.accumulate(x, 0, dtype=f32)[-1]).max() <= 1
    assert want.bound().max() < 1e-2


@pytest.mark.parametrize("steps", [11, 14])
def test_what_a_rounding_decides_may_go_either_way(steps: int) -> None:
    """Ten tenths are more than 1 or not; then the sum begins anew, one step earlier or later."""
    x = np.full((steps, 2), 0.1, f32)
    x[:, 1] = 0.25  # exact
    out = propagate(past_a_limit.program(dict(T=steps, N=2), {}, "f32"), {"x": x})["out"]
    assert (out.bound() > 0.09).tolist() == [True, False] and out.bound()[1] < 1e-6


def test_no_step_gives_what_it_began_with() -> None:
    out = propagate(total.program(dict(T=0, N=2), {}, "f32"), {"x": np.zeros((0, 2), f32)})["out"]
    assert out.exact and out.x.tolist() == [0, 0]
