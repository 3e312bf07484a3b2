"""The process in which a stranger's kernel is compiled, run or timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from portakern.check.pool import Pool
from portakern.referee.process import Allowance, Fresh, KernelProcess, Start
from portakern.referee.surroundings import variables
from portakern.registry import registry
from portakern.study.work import Work

Lend = Callable[[Work, str, Mapping[str, str] | None], AbstractContextManager[KernelProcess]]

lent: Lend | None = None
"""Where processes come from in a process that judges many kernels (:mod:`portakern.study.seat`)."""

pool: Pool | None = None
"""Where such a process has inputs from whose expected values take long."""


def kernel_process(work: Work, doing: str, environment: Mapping[str, str] | None = None
                   ) -> AbstractContextManager[KernelProcess]:  # fmt: skip
    """One for ``work``, which is one of a kernel from elsewhere, that has held no other kernel.  ``environment`` is what its
    language needs for what is done, ours where not given.  Raises as :class:`KernelProcess` does."""
    if lent is not None:
        return lent(work, doing, environment)
    assert work.foreign is not None
    process = KernelProcess(work.foreign.jail, work.foreign.memory_bytes, doing_text(work, doing),
                            interpreter(work, environment))  # fmt: skip
    process.allowance = Allowance(work.foreign.seconds) if work.foreign.seconds is not None else None
    return process


def interpreter(work: Work, environment: Mapping[str, str] | None) -> Start:
    """A new one that loads what ``work`` needs."""
    found = variables({**(environment or {}), **registry().environment_for(work.target.partition(":")[0])})
    return lambda theirs: Fresh(theirs, found)


def doing_text(work: Work, doing: str) -> str:
    return f"{doing} {work.row.operator} for {work.target}"
