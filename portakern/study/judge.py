"""A kernel from elsewhere against an operator: compiled, checked, and timed where its silicon is here; always a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from portakern.check.proof import PROOF_S
from portakern.errors import UsageError
from portakern.referee.process import MODES
from portakern.referee.secret import Secret
from portakern.registry import registry
from portakern.study.row import Row
from portakern.study.study import Runner
from portakern.study.work import Foreign, Work

CANDIDATE_MEMORY = 16 << 30
"""Bytes that a foreign kernel's process may hold."""

CANDIDATE_S = 60.0
"""What its process may take for compiling, and again for being checked and for being timed."""

MORE_S = 300.0
"""What the side that judges may take more for each: oracles, comparisons, processes that start."""


def judge(
    work: Work,
    source: str,
    entry: str | None = None,
    timeout_s: float = CANDIDATE_S,
    memory_bytes: int | None = CANDIDATE_MEMORY,
    timing: Mapping[str, Any] | None = None,
    sink: Callable[[Row], None] | None = None,
    jail: str = "auto",
    secret: str | None = None,
) -> Row:
    """The row of the kernel with this text in place of the one we would emit for ``work``.  The ``secret`` of an earlier row
    repeats its judgement.

    Raises :class:`UsageError` where the source is no text, the secret is none, or its language takes no kernels from elsewhere;
    nothing is raised for a bad kernel.
    """
    if not isinstance(source, str):
        raise UsageError(f"a kernel's source is text, not {type(source).__name__}", hint="pass the text of the file")
    if jail not in MODES:
        raise UsageError(f"no way to jail a kernel is called {jail!r}", hint=f"there are {', '.join(MODES)}")
    language = work.target.partition(":")[0]
    if registry().language(language).adopt is None:
        raise UsageError(f"{language} takes no kernels from elsewhere")
    foreign = Foreign(source, entry, jail, memory_bytes, Secret.read(secret) if secret else Secret.drawn(), bool(secret),
                      seconds=timeout_s)  # fmt: skip

    def told(row: Row) -> Row:
        return row.but(secret=foreign.secret.text)

    runner = Runner("compared", 1, memory_bytes=memory_bytes, build_limit_s=timeout_s + MORE_S,
                    check_limit_s=timeout_s + PROOF_S + MORE_S, timing=timing,
                    sink=sink and (lambda row: sink(told(row))))  # fmt: skip
    return told(runner.run([replace(work, foreign=foreign)]).rows[0])
