"""Loop plans: which axis is innermost where reductions and loops join rows of columns, and what goes into arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import portakern as pk
from portakern.emit.loops import array_sums, planner
from portakern.emit.loops.arrays import LocalArrays
from portakern.emit.loops.plan import Join, KernelLoopPlan, Node, Repeat, Walk, Write
from portakern.emit.running import without_scans
from portakern.ir.rewrite import canonicalise
from portakern.ir.tile import Kernel
from portakern.registry import registry
from tests.lowering import lowered_for
from tests.sycl.targets import needs_opencl

pytestmark = pytest.mark.quick

ROWS, COLUMNS = 2048, 1024


def kernel(function: Callable[[Any], Any], dtype: str = "f32") -> Kernel:
    """The only kernel of a function of an array with more rows than columns."""

    @pk.operator
    def op(x: pk.Tensor["M", "N"]):
        return function(x)

    (found,) = lowered_for(registry().target("numba:cpu"), op.program({"M": ROWS, "N": COLUMNS}, {}, dtype)).kernels
    return without_scans(canonicalise(found))


def loops(plan: KernelLoopPlan) -> list[str]:
    """Every innermost loop with those around it, outermost first: ``rows columns``."""

    def found(nodes: Sequence[Node]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, Walk | Repeat):
                axis = plan.kernel.axis[node.axis if isinstance(node, Walk) else node.loop.axis]
                name = ("rows" if axis.extent == ROWS else "columns") if isinstance(node, Walk) else "tiles"
                yield from [f"{name} {inner}" for inner in found(node.body)] or [name]

    return list(found(plan.body))


def joins(nodes: Sequence[Node]) -> list[Join]:
    found = [n.what for n in nodes if isinstance(n, Write) and isinstance(n.what, Join)]
    return found + [j for n in nodes if isinstance(n, Walk | Repeat) for j in joins(n.body)]


def sums(k: Kernel) -> KernelLoopPlan:
    return array_sums.plan_with_array_sums(k, {"bf16": "f32"})


def test_a_sum_of_columns_goes_into_an_array_only_where_asked() -> None:
    k = kernel(lambda x: pk.sum(x, axis=0))
    inside = sums(k)
    assert "tiles rows columns" in loops(inside) and [j.fn for j in joins(inside.body)] == ["sum"]
    vectors = planner.plan_kernel_loops(k, {})
    assert not joins(vectors.body) and "columns tiles rows" in loops(vectors)


def test_a_sum_along_the_contiguous_axis_stays_in_a_variable() -> None:
    plan = sums(kernel(lambda x: pk.sum(x, axis=1)))
    assert not joins(plan.body) and not plan.storages


def test_running_values_of_columns_go_down_together() -> None:
    """The loop over rows stays outside of the columns, whose totals lie in an array."""
    assert loops(sums(kernel(lambda x: pk.cumsum(x, axis=0)))) == ["columns", "tiles columns"]


def test_a_maximum_of_narrow_floats_is_joined_in_what_they_are_held_in() -> None:
    """The cast before the reduction changes nothing in registers, but the join is of its dtype: it hands on NaN."""
    (join,) = joins(sums(kernel(lambda x: pk.max(x, axis=0), "bf16")).body)
    assert (join.fn, join.dtype) == ("max", "f32")


def test_few_arrays_take_values_past_a_loop() -> None:
    """What only the new total needs is computed beside it, from the old maximum, which is overwritten behind it."""
    plan = sums(kernel(lambda x: pk.softmax(x, axis=0)))
    assert len(plan.storages) == 5, str(plan)


@pytest.mark.parametrize(("size", "held"), [(1, 1), (3, 4), (8, 8), (16, 16), (22, 32), (25, 32), (64, 64)])
def test_arrays_hold_whole_vectors_along_every_axis(size: int, held: int) -> None:
    """A vector along the rows of a packed operand reaches past a tile that it does not divide."""
    made = LocalArrays(16, 2, {}).make("pack", [("m", size), ("n", 32)], "f32", "an operand")
    assert made.shape == (held, 32)


# ---- states that become one another ---------------------------------------------------------------------------------------


@pk.operator
def delayed(x: pk.Tensor["B", "S"]):
    z = pk.zeros((x.shape[0],))
    return pk.scan(lambda s, v: ((v + s[2], s[0], s[1]), s[0] + s[1] * 2.0), (z, z + 1.0, z), x, axis=1)[1]


@pk.operator
def exchanged(x: pk.Tensor["B", "S"]):
    return pk.scan(lambda s, v: ((s[1], s[0]), s[0] * v + s[1]), (x[:, 0], x[:, 1]), x, axis=1)[1]


@pk.operator
def rows_exchanged(x: pk.Tensor["B", "S", "D"]):
    return pk.scan(lambda s, v: ((s[1], s[0], pk.roll(s[0], 1, 1)), pk.softmax(s[0] + s[2]) * v),
                   (x[:, 0], x[:, 1], x[:, 2]), x, axis=1)[1]  # fmt: skip


@pytest.mark.parametrize("target", ["numba:cpu", pytest.param("opencl:cpu", marks=needs_opencl)])
@pytest.mark.parametrize("op", [delayed, exchanged, rows_exchanged])
def test_states_that_become_one_another_are_right(op: pk.Operator, target: str) -> None:
    sizes = {"B": 7, "S": 9} | ({"D": 5} if op is rows_exchanged else {})
    (row,) = pk.check(op, [target], "f32", shape=sizes).rows
    assert row.correct, row.error
