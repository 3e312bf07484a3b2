"""A kernel to judge for a task that is data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from portakern.errors import UsageError
from portakern.jobs.spec import TaskSpec
from portakern.study.candidate import Candidate, level_of
from portakern.tools.cache import digest

LIMIT_S = 60.0


@dataclass(frozen=True)
class Job:
    """One candidate of a task, to be judged up to a level.

    Args:
        limit_s: wall time for compiling and being checked, and again for being timed.
        against: peers to time against: ``numpy``, ``torch.eager``, ``torch.compile``.
        again: what tells this from another judgement of the same; empty for the first.
    """

    task: TaskSpec
    candidate: Candidate
    level: str = "full"
    limit_s: float = LIMIT_S
    against: tuple[str, ...] = ()
    again: str = ""

    def __post_init__(self) -> None:
        level_of(self.level)
        check_peers(self.against)

    @cached_property
    def digest(self) -> str:
        """32 digits in hex: the same task, text, entry, level and options have the same, wherever they are asked for."""
        return digest("job", self.task.id, self.candidate.id, self.level, json.dumps(self.options, sort_keys=True))[:32]

    @property
    def options(self) -> Mapping[str, Any]:
        return {"limit_s": self.limit_s, "against": list(self.against), **({"again": self.again} if self.again else {})}

    @staticmethod
    def of(task: TaskSpec, candidate: Candidate, level: str, options: Mapping[str, Any]) -> Job:
        return Job(task, candidate, level, options["limit_s"], tuple(options["against"]), options.get("again", ""))


PEERS = ("numpy", "torch.eager", "torch.compile")


def check_peers(against: tuple[str, ...]) -> None:
    """Raises :class:`UsageError` for a peer that is a file: whoever asks may be a stranger."""
    for peer in against:
        if peer not in PEERS:
            raise UsageError(f"no peer is called {peer!r}", hint=f"there are {', '.join(PEERS)}")
