"""What the slots are given to do."""

from __future__ import annotations

import os
import signal
import time

from portakern.study.row import Row


def room_of(variable: str) -> tuple[str, int]:
    return os.environ.get(variable, ""), os.getpid()


def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def told(kind: str) -> Row:
    """A row that tells of an error; its method is the process it was made in."""
    return Row("softmax", "numba:cpu", error={"kind": kind} if kind else None, method=str(os.getpid()))


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)
