"""The process in which a stranger's kernel is compiled, run or timed."""

from __future__ import annotations

from portakern.referee.process import KernelProcess
from portakern.study.work import Work


def kernel_process(work: Work, doing: str) -> KernelProcess:
    """A fresh one, for ``work``, which is one of a kernel from elsewhere.  Raises as :class:`KernelProcess` does."""
    assert work.foreign is not None
    return KernelProcess(work.foreign.jail, work.foreign.memory_bytes, f"{doing} {work.row.operator} for {work.target}")
