"""What the default run leaves out is left to another test of it."""

from __future__ import annotations

import pytest

from tests.conftest import UNGUARDED
from tests.thinned import LONG, function, thin, unguarded


class Item:
    """As much of a collected test as is looked at."""

    def __init__(self, name: str, slow: bool = False) -> None:
        self.nodeid, self.marks = f"tests/{name}", {"slow"} if slow else set()

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.add(mark.name)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def test_what_takes_long_is_guarded(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash[UNGUARDED] == []


def test_a_test_that_is_gone_and_a_guard_that_is_slow_are_named() -> None:
    name, guard = next((n, g) for n, g in LONG.items() if g)
    for tests, says in [
        ([Item(name), Item(guard)], ""),
        ([Item(name), Item(guard, slow=True)], f"{name}: {function(guard)} is not in the default run"),
        ([Item(guard), Item(f"{name.partition('::')[0]}::test_another")], f"{name}: no such test"),
    ]:
        thin(tests)  # type: ignore[arg-type]
        about = [line for line in unguarded(tests) if line.startswith(name)]  # type: ignore[arg-type]
        assert about == ([says] if says else [])
