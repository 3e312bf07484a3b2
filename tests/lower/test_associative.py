"""Scans by functions of the operator's own: tile programs against the oracle, walked one by one, in tiles and at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.tensor import tensor_type
from portakern.lower import lower
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run

pytestmark = pytest.mark.quick
T = pk.Tensor


@pk.operator
def recurrence(a: T["M", "N"], b: T["M", "N"], reverse: bool = False, both: bool = False):
    def after(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    p, h = pk.associative_scan(after, (pk.tanh(a), b), axis=1, reverse=reverse)
    return (p, h * 2.0) if both else h


@pk.operator
def where_largest(x: T["M", "N"]):
    def larger(left, right):
        take = right[0] > left[0]
        return tuple(pk.where(take, b, a) for a, b in zip(left, right, strict=True))

    return pk.associative_scan(larger, (x, pk.iota(x.shape, 0)), axis=0)


@pk.operator
def of_a_scan(x: T["M", "N"]):
    """The second scan runs over what the first one gives, beside one over the input: all in one kernel."""
    sums = pk.associative_scan(lambda a, b: a + b, x, axis=-1)
    return pk.associative_scan(pk.maximum, sums, axis=-1), pk.associative_scan(pk.minimum, x, axis=-1)


@pk.operator
def softmax_of_scan(x: T["M", "N"]):
    def join(left, right):
        top = pk.maximum(left, right)
        return top + pk.log(pk.exp(left - top) + pk.exp(right - top))

    return pk.softmax(pk.associative_scan(join, x, axis=-1, reverse=True), axis=-1)


def chooser(line: int):
    def choose(nest: Nest) -> Schedule:
        def tile(a: Any) -> int:
            if a.role in ("scanned", "reduced"):
                return line if a.role == "scanned" or line > 1 else 4
            return 4 if a is nest.axes[0] else 1

        return Schedule(tuple((a.name, tile(a)) for a in nest.axes))

    return choose


CASES: list[tuple[Operator, dict[str, Any]]] = [
    (recurrence, {}), (recurrence, {"reverse": True}), (recurrence, {"both": True}), (where_largest, {}), (of_a_scan, {}),
    (softmax_of_scan, {}),
]  # fmt: skip


@pytest.mark.parametrize("line", [1, 4, 64])
@pytest.mark.parametrize(("operator", "params"), CASES, ids=[f"{o.name}{i}" for i, (o, _) in enumerate(CASES)])
def test_right(operator: Operator, params: dict[str, Any], line: int) -> None:
    rng = np.random.default_rng(0)
    for dims in ({"M": 5, "N": 37}, {"M": 1, "N": 13}, {"M": 7, "N": 1}, {"M": 3, "N": 0}):
        bound = operator.program(dims, params, "f32")
        inputs = {a.name: rng.standard_normal([int(str(s)) for s in tensor_type(a).shape]).astype("f4") for a in bound.args}
        want = evaluate(bound, inputs)
        for program, sizes in ((bound, {}), (operator.program({}, params, "f32"), dims)):
            got = run(lower(program, chooser(line)), inputs, sizes)
            for name in bound.outputs:
                np.testing.assert_allclose(got[name], want[name], rtol=2e-5, atol=2e-5)


def test_what_nobody_reads_is_not_carried() -> None:
    """Of the recurrence the product of all factors is needed within a tile alone; one kernel holds scans of scans."""
    def carried(line: int, **params: Any) -> list[int]:
        program = lower(recurrence.program({"M": 5, "N": 300}, params, "f32"), chooser(line))
        return [len(op.init) for op in program.kernels[0].body.walk() if isinstance(op, t.For)]

    assert carried(1) == carried(64) == [1]
    assert carried(1, both=True) == [2]
    scans = lower(of_a_scan.program({"M": 5, "N": 40}, {}, "f32"), chooser(64))
    assert len(scans.kernels) == 1
    assert sum(isinstance(op, t.ScanBy) for op in scans.kernels[0].body.walk()) == 3


def test_results_of_one_scan_are_computed_together() -> None:
    program = lower(where_largest.program({"M": 5, "N": 40}, {}, "f32"), chooser(1))
    (loop,) = (op for op in program.kernels[0].body.walk() if isinstance(op, t.For))
    assert [t.tile_type(v).dtype for v in loop.init] == ["f32", "i32"]


@pk.operator
def flagged(x: T["M", "N"], z: T["M", "N"]):
    """The join compares with a number that is in the kernel as well."""

    def later(left, right):
        return pk.where(right[1] > 0.0, right[0], left[0]), pk.maximum(left[1], right[1])

    return pk.associative_scan(later, (x, pk.cast(z > 0.0, x.dtype)), axis=0)[0]


def test_a_join_uses_nothing_from_outside_of_it() -> None:
    program = lower(flagged.program({"M": 9, "N": 20}, {}, "f32"), chooser(32))
    scans = [op for k in program.kernels for op in k.body.walk() if isinstance(op, t.ScanBy)]
    assert scans
    for scan in scans:
        assert {o for op in scan.join.ops for o in op.operands} <= {*scan.join.args, *scan.join.ops}
