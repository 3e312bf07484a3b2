"""What the slots are given to do."""

from __future__ import annotations

import os
import signal
import time


def room_of(variable: str) -> tuple[str, int]:
    return os.environ.get(variable, ""), os.getpid()


def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)
