"""What a suite is: tasks that an adapter finds in a checkout and loads.  Nothing of a benchmark is shipped.

A package adds one with an entry point of the group ``portakern.suites`` that names a :class:`Suite`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from portakern.errors import UsageError

GROUP = "portakern.suites"
SIZES = ("reduced", "asked")
"""The sizes a task is run at: small ones of the same structure, for simulators and interpreters, or its own."""


@dataclass(frozen=True)
class TaskRef:
    """A task of a suite: its name, the level or category it is counted in, and where it is written."""

    name: str
    level: str
    place: str = ""


@dataclass(frozen=True)
class LoadedTask:
    """A task ready to be imported.

    Args:
        module: a ``torch.nn.Module`` or a function of tensors.
        args, kwargs: what it is called with.
        size: which size this is, and what was made smaller where it is reduced.
        note: what a reader of the row should know.
    """

    module: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    size: str = "asked"
    note: str = ""


@runtime_checkable
class Suite(Protocol):
    """An adapter.  ``name`` is what commands call it; ``needs_path`` whether it reads a checkout."""

    name: str
    needs_path: bool

    def tasks(self, path: Path | None) -> Sequence[TaskRef]:
        """All tasks, in their order.  Raises :class:`UsageError` where ``path`` is no checkout of the suite."""
        ...

    def load(self, path: Path | None, task: TaskRef, size: str, seed: int) -> Sequence[LoadedTask]:
        """The task, once or at several samples; runs the suite's code, in a child process with limits."""
        ...


@cache
def suites() -> Mapping[str, Suite]:
    """Every suite that is installed, by name."""
    return {e.name: e.load() for e in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


def suite(name: str) -> Suite:
    found = suites()
    if name not in found:
        near = difflib.get_close_matches(name, found, 1)
        raise UsageError(f"there is no suite {name!r}",
                         hint=f"did you mean {near[0]}?" if near else f"suites are {', '.join(found) or 'none'}")
    return found[name]


def selected(tasks: Sequence[TaskRef], level: str | None, only: Sequence[str], every: int) -> list[TaskRef]:
    """The tasks of a level, those whose names begin with one of ``only``, and of these every so many.

    Raises :class:`UsageError` where that leaves none."""
    found = [t for t in tasks if level is None or t.level in level.split(",")]
    found = [t for t in found if not only or any(t.name.startswith(o) or o == t.name.rpartition("/")[2] for o in only)]
    if not found:
        levels = ", ".join(dict.fromkeys(t.level for t in tasks))
        raise UsageError("no task is selected", hint=f"levels are {levels}; see portakern suite list")
    return found[::every]


def root_with(folder: str, path: Path | None, inner: str, repository: str) -> Path:
    """The directory that holds ``folder``: the path of a checkout, or ``inner`` in it.

    Raises :class:`UsageError` where neither does."""
    for root in ([path, path / inner] if path is not None else []):
        if (root / folder).is_dir():
            return root
    raise UsageError(f"{path} holds no tasks of {repository.rpartition('/')[2]}", hint=f"--path is a checkout of {repository}")
