"""Making programs and making them smaller, both by hypothesis.

A batch is one seeded run of hypothesis that only collects.  To shrink one of its programs the same run is done again, in
which nothing but that program is wrong: what hypothesis meets after it comes from its shrinker, and is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from portakern.errors import ToolMissing
from portakern.fuzz.program import Program
from portakern.fuzz.variants import variations

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SHRINK_S = 60.0
"""Wall time of making one finding smaller."""


def require_hypothesis() -> None:
    """Raises :class:`ToolMissing` where hypothesis is not installed."""
    try:
        import hypothesis  # noqa: F401
    except ImportError:
        raise ToolMissing("programs are made by hypothesis, which is not installed",
                          hint="pip install 'portakern[fuzz]'") from None  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """How its programs are made: equal batches have equal programs.

    Args:
        seed: of hypothesis.
        count: programs asked for; fewer where some are drawn twice.
        weights: of the grammar's features.
        schedules: whether every program has a random schedule and no other variation.
    """

    seed: int
    count: int
    weights: Mapping[str, float] = field(default_factory=dict)
    schedules: bool = False

    def strategy(self) -> SearchStrategy[Program]:
        from hypothesis import strategies as st

        from portakern.fuzz.grammar import cases

        return st.builds(Program, cases(dict(self.weights)), variations(self.schedules))

    def programs(self) -> list[Program]:
        """What hypothesis makes of it, each once."""
        found: dict[str, Program] = {}

        def collect(program: Program) -> bool:
            found.setdefault(program.digest, program)
            return False

        self._find(collect, ("generate",), None, None)
        return list(found.values())

    def _find(self, condition: Callable[[Program], bool], phases: tuple[str, ...], database: Path | None,
              key: bytes | None) -> Program | None:  # fmt: skip
        from hypothesis import Phase, Verbosity, errors, find, settings
        from hypothesis.database import DirectoryBasedExampleDatabase

        options: dict[str, Any] = {"max_examples": self.count, "deadline": None, "verbosity": Verbosity.quiet}
        kept = DirectoryBasedExampleDatabase(database) if database is not None else None
        asked = settings(**options, phases=[Phase[p] for p in phases], database=kept)
        try:
            return find(self.strategy(), condition, settings=asked, random=Random(self.seed), database_key=key)
        except (errors.NoSuchExample, errors.Flaky, errors.Unsatisfiable):
            return None

    def shrink(self, wanted: Program, still: Callable[[Program], bool], database: Path, limit_s: float = SHRINK_S) -> Program:
        """The smallest program found for which ``still`` holds, as it does for ``wanted``, a program of this batch.

        What was reached is kept in ``database``: where it holds an interrupted search for ``wanted``, that goes on.
        """
        from hypothesis.database import DirectoryBasedExampleDatabase

        key = wanted.digest.encode()
        began = any(DirectoryBasedExampleDatabase(database).fetch(key))
        search = _Shrinking(wanted, still, time.monotonic() + limit_s, met=began)
        phases = ("reuse", "shrink") if began else ("generate", "shrink")
        with suppress(_Enough):
            self._find(search, phases, database, key)
        return search.best


class _Enough(KeyboardInterrupt):
    """Ends a search of hypothesis, as Ctrl-C does: it keeps on searching for a while after any other exception."""


class _Shrinking:
    """The condition that hypothesis minimises.  Answers for a program do not change; raises when the time is over."""

    def __init__(self, wanted: Program, still: Callable[[Program], bool], deadline: float, met: bool) -> None:
        self.wanted, self.still, self.deadline, self.met = wanted, still, deadline, met
        self.best = wanted
        self.known: dict[str, bool] = {wanted.digest: True}

    def __call__(self, program: Program) -> bool:
        self.met = self.met or program.digest == self.wanted.digest
        if not self.met:
            return False
        if time.monotonic() >= self.deadline:
            raise _Enough
        if program.digest not in self.known:
            self.known[program.digest] = self.still(program)
        if self.known[program.digest]:
            self.best = program
        return self.known[program.digest]
