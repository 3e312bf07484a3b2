"""Judges that tests share: one takes seconds to begin, and a tenth of one for a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import portakern as pk
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from portakern.study.judging import Judge
from portakern.study.plausible import DISTURBED
from portakern.study.row import Row
from portakern.study.task import Task

SMALL: Mapping[str, int | None] = {"M": 16, "N": 32}
TIMING = {"options": {"budget_s": 0.2, "warm_up_s": 0.02}}


def task_of(target: str, operator: str = "row_sum", dims: Mapping[str, int | None] | None = None) -> Task:
    """``None`` for a dim that is left open."""
    sizes: dict[str, Any] = {n: dynamic if s is None else s for n, s in (dims or SMALL).items()}
    return pk.task(load_operator(operator), target, dtype="f32", **sizes)


def judge_for(target: str, operator: str = "row_sum", dims: Mapping[str, int | None] | None = None, **more: Any) -> Judge:
    """One for a test of its own."""
    return pk.judge(task_of(target, operator, dims), memory_bytes=4 << 30, **{"workers": 2, **more})


def undisturbed(make: Callable[[], Row]) -> Row:
    """A row that says something of a kernel, which takes a processor that other work leaves alone for a fifth of a second."""
    for _ in range(5):
        row = make()
        if row.error is None or row.error["kind"] != DISTURBED:
            return row
    pytest.skip("needs a processor that other work leaves alone: none was in five tries")


PLANTED = "DATABASE_ADDRESS"
"""A variable of the user's that no kernel may see."""

MOST = 3
"""So many of them are kept, since each has processes that hold what its language needs."""


class Judges:
    """One judge of one worker for each target, whatever is asked of it; candidates of all of them have 15 s.

    Attributes:
        cache: the folder of their cache, which no kernel may reach.
    """

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self._judges: dict[str, Judge] = {}

    def __call__(self, target: str) -> Judge:
        found = self._judges.pop(target, None) or self._begun(target)
        self._judges[target] = found
        while len(self._judges) > MOST:
            self._judges.pop(next(iter(self._judges))).close()
        return found

    def _begun(self, target: str) -> Judge:
        """Its process has begun, with this cache."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PORTAKERN_CACHE", str(self.cache))
            patch.setenv(PLANTED, "postgres://me:planted@nowhere")
            judge = judge_for(target, workers=1, timeout_s=15.0, timing=TIMING)
            judge.judge("", level="compile")
        return judge

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for judge in self._judges.values():
            judge.close()
