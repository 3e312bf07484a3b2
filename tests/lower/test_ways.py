"""Values that are used twice again and again: what asks or remakes all that a value is made of does it once for each value, not
once for each of the 2^30 ways to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir.oracle import evaluate
from portakern.ir.schedule import Nest, Schedule
from portakern.lower import lower
from portakern.spec.inputs import make_inputs
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from portakern.tuning.space import WHOLE

pytestmark = pytest.mark.quick

T = pk.Tensor
DIMS = {"M": 4, "N": 8, "K": 8, "G": 2}


def chain(x: Any) -> Any:
    for _ in range(30):
        x = pk.where(x > 0.0, x * 0.5, x + 0.25) * (x - 0.25)
    return x


@pk.operator
def behind_a_join(x: T["M", 5, "N"], y: T["N"]):
    a = pk.reshape(pk.cumsum(x, axis=0), (x.shape[0] * 5, x.shape[2]))
    return a * chain(pk.broadcast_to(y, a.shape) + pk.cast(pk.iota(a.shape, 0), y.dtype))


@pk.operator
def before_a_split(x: T["M", "4*N"], y: T["4*N"]):
    a = pk.reshape(pk.cumsum(x, axis=1), (x.shape[0], 4, -1))
    return a * chain(pk.broadcast_to(pk.reshape(y, (4, -1)), a.shape))


@pk.operator
def weights_in_groups(x: T["M", "16*G"], w: T["N", "16*G", pk.i8], scale: T["N", "G"]):
    return x @ chain(pk.cast(w, x.dtype) * pk.repeat(scale, 16, axis=1)).T


@pk.operator
def weights_of_no_groups(x: T["M", "K"], w: T["N", "K", pk.i8]):
    return x @ chain(pk.cast(w, x.dtype)).T


@pk.operator
def halves_of_a_product(x: T["M", "K"], w: T["K", "2*N"]):
    y = chain(x @ w)
    return pk.sigmoid(y[:, : y.shape[1] // 2]) * y[:, y.shape[1] // 2 :]


@pk.operator
def segments(x: T["M", "N"], offsets: T["G+1", pk.i32]):
    return pk.segment_sum(chain(x), offsets)


@pk.operator
def scores(q: T["M", "K"], k: T["N", "K"], v: T["N", "K"]):
    return pk.softmax(chain(q @ k.T)) @ v


ALL = [behind_a_join, before_a_split, weights_in_groups, weights_of_no_groups, halves_of_a_product, segments, scores]


def choose(nest: Nest) -> Schedule:
    def tile(role: str) -> int:
        return 8 if role in WHOLE.get(nest.family, ()) else 4 if role in "mnk" or role == "scanned" else 1

    return Schedule(tuple((a.name, tile(a.role)) for a in nest.axes))


@pytest.mark.parametrize("op", ALL, ids=lambda o: o.name)
def test_lowering_ends(op: Operator) -> None:
    asked = {n for a in op.trace({}, "f32").args for s in getattr(a.type, "shape", ()) for n in getattr(s, "names", ())}
    program = op.program({n: size for n, size in DIMS.items() if n in asked}, {}, "f32")
    inputs = make_inputs(program)
    wanted, got = evaluate(program, inputs), run(lower(program, choose), inputs, {})
    np.testing.assert_allclose(got["out"], wanted["out"], rtol=1e-4, atol=1e-4)
