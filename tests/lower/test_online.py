"""What is found in the dataflow, and what only looks like it."""

from __future__ import annotations

import pytest

from portakern.ir.core import Arg
from portakern.ir.tensor import Expand, Fold, Iota, Literal, Map, TensorType
from portakern.lower.online import match_place

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("far", "found"), [(2**31 - 1, True), (-1, False), (5, False)])
def test_a_place_is_the_least_one_only_where_nothing_else_counts(far: int, found: bool) -> None:
    """A number that stands for elements that are no extreme is a result of its own, which a walk must not have before it has
    met such an element."""
    x = Arg("x", TensorType((4, 9), "i32"))
    largest = Fold("max", x, (1,))
    hit = Map("eq", (x, Expand(largest, (4, 9), (0,))))
    place = match_place(Fold("min", Map("select", (hit, Iota((4, 9), 1, "i32"), Literal(far, "i32"))), (1,)))
    assert (place is not None) == found and (place is None or place.extreme is largest)
