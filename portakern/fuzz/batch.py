"""Making programs and making them smaller, both by hypothesis.

A batch is drawn with hypothesis' strategies, each program from a seed of its own: its own way of drawing likes to repeat
itself and to change what it had, where here every program is to be another one.  To shrink a program the choices that made
it are given to hypothesis as an example it has met.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portakern.errors import ToolMissing
from portakern.fuzz.drawing import choices_from
from portakern.fuzz.program import FuzzProgram
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
        seed: of the draws.
        count: programs drawn; fewer where some are drawn twice or come to nothing.
        weights: of the grammar's features.
        schedules: whether every program has a random schedule and no other variation.
    """

    seed: int
    count: int
    weights: Mapping[str, float] = field(default_factory=dict)
    schedules: bool = False

    def strategy(self) -> SearchStrategy[FuzzProgram]:
        from hypothesis import strategies as st

        from portakern.fuzz.grammar import cases
        from portakern.fuzz.grammar.draws import Draw

        @st.composite
        def drawn(draw: Draw) -> FuzzProgram:
            return FuzzProgram(draw(cases(dict(self.weights))), draw(variations(self.schedules)))

        return drawn()

    def programs(self) -> list[FuzzProgram]:
        """Those drawn, each once."""
        return [program for program, _ in self._drawn().values()]

    def _drawn(self) -> dict[str, tuple[FuzzProgram, tuple[Any, ...]]]:
        """Programs and the choices that make them, by digest."""
        from hypothesis.errors import StopTest

        found: dict[str, tuple[FuzzProgram, tuple[Any, ...]]] = {}
        strategy = self.strategy()
        for number in range(self.count):
            data = choices_from(f"{self.seed} {number}")
            with suppress(StopTest):
                program = data.draw(strategy)
                found.setdefault(program.digest, (program, data.choices))
        return found

    def shrink(self, wanted: FuzzProgram, still: Callable[[FuzzProgram], bool], database: Path,
               limit_s: float = SHRINK_S) -> FuzzProgram:
        """The smallest program found for which ``still`` holds, as it does for ``wanted``, a program of this batch.

        What was reached is kept in ``database``: where it holds an interrupted search for ``wanted``, that goes on.
        """
        from hypothesis import Phase, Verbosity, errors, find, settings
        from hypothesis.database import DirectoryBasedExampleDatabase, choices_to_bytes

        key, kept = wanted.digest.encode(), DirectoryBasedExampleDatabase(database)
        # What lies under the key itself counts as made small already.
        begin = [*kept.fetch(key)] or [choices_to_bytes(self._drawn()[wanted.digest][1])]
        for stored in begin:
            kept.move(key, key + b".secondary", stored)
        search = _Shrinking(wanted, still, time.monotonic() + limit_s)
        asked = settings(max_examples=max(self.count, 1), deadline=None, verbosity=Verbosity.quiet, database=kept,
                         phases=[Phase.reuse, Phase.shrink])  # fmt: skip
        with suppress(_Enough, errors.NoSuchExample, errors.Flaky, errors.Unsatisfiable):
            find(self.strategy(), search, settings=asked, database_key=key)
        return search.best


class _Enough(KeyboardInterrupt):
    """Ends a search of hypothesis, as Ctrl-C does: it keeps on searching for a while after any other exception."""


class _Shrinking:
    """The condition that hypothesis minimises.  Answers for a program do not change; raises when the time is over."""

    def __init__(self, wanted: FuzzProgram, still: Callable[[FuzzProgram], bool], deadline: float) -> None:
        self.still, self.deadline = still, deadline
        self.best = wanted
        self.known: dict[str, bool] = {wanted.digest: True}

    def __call__(self, program: FuzzProgram) -> bool:
        if time.monotonic() >= self.deadline:
            raise _Enough
        if program.digest not in self.known:
            self.known[program.digest] = self.still(program)
        if self.known[program.digest]:
            self.best = program
        return self.known[program.digest]
