"""What a walk reduces and joins in every step, joined as tiles and reduced after it: IR, texts and values."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import portakern as pk
from portakern.emit.partials import CARRIED, reduced_once
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result, Yield
from portakern.ir.rewrite import canonicalise
from portakern.registry import registry
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick

THREADS = 256


@pk.operator
def column_statistics(x: pk.Tensor["M", "N"]):
    """Three sums of a column, one of them of something that is not f32."""
    return pk.sum(x, axis=0), pk.max(x * x, axis=0), pk.sum(pk.cast(x > 0.5, pk.i32), axis=0)


@pk.operator
def column_squares(x: pk.Tensor["M", "N"]):
    return pk.sum(x * x, axis=0)


@pk.operator
def total_beside_softmax(x: pk.Tensor["M", "N"]):
    """The sum of exponentials is scaled to a new maximum in every step."""
    return pk.logsumexp(x, axis=1) - pk.sum(x, axis=1)


@pk.operator
def sums_over_two(x: pk.Tensor["A", "M", "B", "N"]):
    """Two axes that do not merge: a walk inside a walk."""
    return pk.sum(x, axis=(0, 2))


def _kernel(operator: pk.Operator, target: str, **dims: int) -> t.Kernel:
    (kernel, *_) = lowered_for(registry().target(target), operator.program(dims, {}, "f32")).kernels
    return kernel


def _loops(kernel: t.Kernel) -> list[t.For]:
    return [op for op in kernel.body.walk() if isinstance(op, t.For)]


def _reduced_inside(kernel: t.Kernel) -> list[t.Reduce]:
    return [op for loop in _loops(kernel) for op in loop.body.walk() if isinstance(op, t.Reduce)]


def test_each_total_of_columns_is_a_tile_that_is_reduced_after_the_loop() -> None:
    before = _kernel(column_statistics, "cuda:sm_90a", M=5000, N=96)
    after = canonicalise(reduced_once(before, THREADS))
    assert len(_reduced_inside(before)) == 3 and not _reduced_inside(after)
    (loop,) = _loops(after)
    assert [t.tile_type(v).dims for v in loop.init] == [t.tile_type(op.x).dims for op in _reduced_inside(before)]
    assert [t.tile_type(a).dims for a in loop.combine.args] == 2 * [t.tile_type(v).dims for v in loop.init]
    behind = [op for op in after.body.ops if isinstance(op, t.Reduce)]
    assert [(op.fn, op.x.source) for op in behind if isinstance(op.x, Result)] == [(f, loop) for f in ("sum", "max", "sum")]
    assert [op.init[1].x.value for op in [loop] if isinstance(op.init[1], t.Broadcast)
            and isinstance(op.init[1].x, t.Const)] == [-math.inf]  # fmt: skip
    t.verify_kernel(after)


def test_a_walk_inside_a_walk_reduces_after_both() -> None:
    before = _kernel(sums_over_two, "cuda:sm_90a", A=3, M=5, B=300, N=96)
    after = canonicalise(reduced_once(before, THREADS))
    assert len(_loops(before)) == 2 and _reduced_inside(before)
    assert not _reduced_inside(after)
    t.verify_kernel(after)


def test_tiles_that_threads_have_no_registers_for_stay_reduced_in_every_step() -> None:
    before = _kernel(column_statistics, "cuda:sm_90a", M=5000, N=96)
    elements = sum(math.prod(n for _, n in t.tile_type(op.x).dims) for op in _reduced_inside(before))
    fits = elements // CARRIED
    assert not _reduced_inside(reduced_once(before, fits))
    assert len(_reduced_inside(reduced_once(before, fits - 1))) == 3


def test_totals_of_parts_that_are_not_joined_as_they_are_stay_reduced_in_every_step() -> None:
    """Two parts of this loop are joined by the square of one: that of a tile's elements is not that of their sum."""
    before = _kernel(column_squares, "cuda:sm_90a", M=5000, N=96)
    (loop,) = _loops(before)
    left, right = loop.combine.args
    square = t.Binary("mul", left, left)
    joined = t.Binary("add", square, right)
    combine = Block(loop.combine.args, (square, joined, Yield((joined,))))
    new: dict[Op, Op] = {loop: replace(loop, combine=combine)}
    for op in before.body.ops:
        new[op] = new.get(op) or op.remap(lambda o: new.get(o, o))
    odd = replace(before, body=Block(before.body.args, tuple(new[op] for op in before.body.ops)))
    assert not _reduced_inside(reduced_once(before, THREADS))
    assert len(_reduced_inside(reduced_once(odd, THREADS))) == 1


def test_a_total_beside_what_is_exchanged_in_every_step_stays_reduced() -> None:
    before = _kernel(total_beside_softmax, "triton:sm_90", M=2, N=70000)
    assert len(_reduced_inside(before)) > 1
    assert len(_reduced_inside(reduced_once(before, 1 << 20))) == len(_reduced_inside(before))


@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx942"])
def test_no_exchange_in_the_loop(target: str) -> None:
    at = registry().target(target)
    program = lowered_for(at, column_statistics.program({"M": 5000, "N": 96}, {}, "f32"))
    text = registry().language(at.language).emitter.emit(program, at).text
    loop = text[text.index("for ("):]
    loop = loop[:loop.index("\n    }\n")]
    assert "pk::load" in loop and "reduce_" not in loop


@pytest.mark.parametrize("target", ["triton:sm_90", "cuda:sm_90a", "hip:gfx942"])
@pytest.mark.parametrize("shape", [{"M": 1000, "N": 33}, {"M": 1, "N": 1}, {"M": 517, "N": 130}])
def test_values(target: str, shape: dict[str, int]) -> None:
    (row,) = pk.check(column_statistics, target, dtype="f32", shape=shape).rows
    assert row.correct, row.error
    assert np.isfinite(row.max_error_ratio or 0.0)
