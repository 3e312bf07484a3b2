"""What a schedule that a user asks for changes: axes by their names, or by their roles."""

from __future__ import annotations

import pytest

from portakern.errors import ScheduleError
from portakern.ir.schedule import Nest, NestAxis, Schedule, override

pytestmark = pytest.mark.quick


def tiles(family: str, roles: dict[str, str], **asked: int) -> dict[str, int]:
    """The tiles of axes with these roles, 1 before anything was asked."""
    nest = Nest(family, tuple(NestAxis(name, role, 100) for name, role in roles.items()), "f32", "f32")
    return dict(override(Schedule(tuple((name, 1) for name in roles)), nest, asked, ()).tiles)


CROSSED = {"i": "m", "k": "n", "j": "k"}
"""A product whose columns are called as the role of the summed axis is."""


def test_roles_come_before_names() -> None:
    assert tiles("contraction", CROSSED, m=2, n=3, k=4) == {"i": 2, "k": 3, "j": 4}
    assert tiles("contraction", {"b": "batch", **CROSSED}, m=2, k=4) == {"b": 1, "i": 2, "k": 1, "j": 4}


def test_a_schedule_spelled_in_names_is_read_so() -> None:
    assert tiles("contraction", CROSSED, i=2, k=3, j=4) == {"i": 2, "k": 3, "j": 4}
    swapped = {"k": "batch", "m": "n", "n": "m", "s": "k"}
    assert tiles("contraction", swapped, k=1, m=3, n=2, s=4) == {"k": 1, "m": 3, "n": 2, "s": 4}
    assert tiles("contraction", {"m": "batch", "i": "m", "n": "n", "k": "k"}, m=2) == {"m": 1, "i": 2, "n": 1, "k": 1}


def test_a_name_that_is_neither_is_refused_with_what_there_is() -> None:
    with pytest.raises(ScheduleError, match="has no 'q'") as refused:
        tiles("contraction", CROSSED, q=2)
    assert "it has i, m, k, n, j, stages, warps" in refused.value.hint
