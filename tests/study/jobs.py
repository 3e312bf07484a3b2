"""What the slots are given to do."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace


def room_of(variable: str) -> tuple[str, int]:
    return os.environ.get(variable, ""), os.getpid()


def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def told(kind: str) -> SimpleNamespace:
    """A row that tells of an error, as far as the slots look."""
    return SimpleNamespace(error={"kind": kind} if kind else None, pid=os.getpid())


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)
