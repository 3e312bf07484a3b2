"""Processes by their ids and the moment they began, so that an id that was given again is not taken for the old one."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """``began`` is in clock ticks since the machine started."""

    pid: int
    began: int


def process(pid: int) -> Process | None:
    """The process that has this id now, unless it is only waiting to be reaped."""
    found = _stat(pid)
    return None if found is None or found[0] in "ZX" else Process(pid, found[2])


def alive(known: Process) -> bool:
    return process(known.pid) == known


def descendants(pid: int) -> list[Process]:
    """All processes below ``pid``, parents before their children."""
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := _stat(int(entry.name))) is not None and found[0] not in "ZX":
            children.setdefault(found[1], []).append(Process(int(entry.name), found[2]))
    below, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            below.append(child)
            waiting.append(child.pid)
    return below


def end(found: Iterable[Process], grace_s: float = 3.0) -> int:
    """Ends processes: asks them first, makes them after a while; those that are others by now are left alone.  Gives how many
    there were."""
    mine = [p for p in found if alive(p)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for p in mine:
            if alive(p):
                _signal(p.pid, number)
        until = time.monotonic() + grace_s
        while any(map(alive, mine)) and time.monotonic() < until:
            time.sleep(0.02)
    return len(mine)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _stat(pid: int) -> tuple[str, int, int] | None:
    """(state, parent, began)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1]), int(fields[19])
