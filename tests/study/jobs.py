"""What the slots are given to do."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass


def room_of(variable: str) -> tuple[str, int]:
    return os.environ.get(variable, ""), os.getpid()


def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@dataclass(frozen=True)
class Told:
    """A row that tells of an error, as far as the slots look."""

    error: dict[str, str] | None
    pid: int


def told(kind: str) -> Told:
    return Told({"kind": kind} if kind else None, os.getpid())


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)
