"""What a server allows."""

from __future__ import annotations

from dataclasses import dataclass, field

from portakern.jobs.tracing import Allowed


@dataclass(frozen=True)
class Settings:
    """
    Args:
        workers: candidates that are judged at once.
        queue: jobs that may wait, over all batches.
        batch: candidates of one batch.
        body_bytes: of one request.
        source_characters: of one candidate.
        waiting: requests that may wait for an answer at once.
        preparing: tasks, inspections and comparisons that are worked on at once.
        tasks: tasks that are remembered, those used last.
        keep: jobs that are remembered after they are done.
        limit_s: the most that a candidate may be given, and what it is given unless it says less.
        deadline_s: the most that a job may wait and be judged in all.
        allowed: of the text of a task.
    """

    workers: int = 2
    queue: int = 10_000
    batch: int = 1_000
    body_bytes: int = 16 << 20
    source_characters: int = 1 << 20
    waiting: int = 256
    preparing: int = 2
    tasks: int = 64
    keep: int = 20_000
    limit_s: float = 300.0
    deadline_s: float = 3600.0
    allowed: Allowed = field(default_factory=Allowed)
