"""What waves that take turns wait for follows from the order of their reads, copies and products."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portakern.backends.rocm.pingpong.interleave import quarters
from portakern.backends.rocm.pingpong.operand import StagedOperand
from portakern.backends.rocm.pingpong.order import quarters_in_order, turns_in_order
from portakern.backends.rocm.pingpong.plan import Turn
from portakern.emit.clike.terms import ZERO, whole
from portakern.errors import IRError

pytestmark = pytest.mark.quick

A, B = (StagedOperand(name, side, "bf16", 256, 64, True, ZERO, whole(64), whole(256), 2, copies, f"{name}_feed",
                      f"{name}_reader")
        for name, side, copies in (("a", "rows", 3), ("b", "cols", 5)))  # fmt: skip


def turns() -> list[Turn]:
    """The usual order: upper rows by left and right columns, then lower rows by right and left ones."""
    return [
        Turn(A, 0, 0, "rows", (A, 1, 1), (0, 0), "left", direct=True),
        Turn(B, 1, 0, "right", (B, 0, 2), (0, 1), "right", direct=True),
        Turn(A, 1, 0, "rows", (A, 0, 2), (1, 0), "left", direct=True),
        Turn(B, 0, 1, "left", (B, 1, 2), (1, 1), "right", direct=True),
    ]


def test_behind_what_is_read_next_only_newer_copies_are_under_way():
    made = turns_in_order(turns())
    assert [x.needs for x in made] == [("left", "rows"), ("right",), ("rows",), ()]
    assert [x.wait for x in made] == [3 * 3 + 2 * 5, 2 * 3 + 3 * 5] * 2


def test_a_half_that_sets_out_later_is_waited_for_at_once():
    late = turns()
    late[1], late[3] = replace(late[1], sends=(B, 1, 1)), replace(late[3], sends=(B, 0, 2))
    made = turns_in_order(late)
    assert made[0].wait == made[2].wait == 3 + 5 + 3  # both halves of b are sent a step before they are read, not more
    assert made[1].wait == made[3].wait == 5 + 3 + 5 + 3 + 5


@pytest.mark.parametrize(("at", "sends", "problem"), [
    (0, (A, 1, 2), "overwrites half 1 of a before"),  # it is read two turns later
    (2, (A, 1, 2), "overwrites half 1 of a before"),  # in this very turn
    (0, (B, 1, 1), "turn 2 reads half 1 of a, which nothing has sent"),
])  # fmt: skip
def test_what_no_wait_would_make_right_is_refused(at: int, sends: tuple[StagedOperand, int, int], problem: str):
    wrong = turns()
    wrong[at] = replace(wrong[at], sends=sends)
    with pytest.raises(IRError, match=problem):
        turns_in_order(wrong)


def test_quarters_have_a_barrier_where_a_slot_changes_hands():
    made = quarters_in_order(quarters(A, B))
    assert [x.barrier for x in made] == [False, True, False, False] * 2
    assert [set(x.needs) for x in made] == [{"upper", "left"}, {"lower", "right"}, set(), set(),
                                            {"lower", "left"}, {"upper", "right"}, set(), set()]  # fmt: skip


def test_a_step_ends_with_the_slot_that_it_begins_with():
    with pytest.raises(IRError, match="another slot"):
        quarters_in_order(quarters(A, B)[:4])  # one slice of the two
