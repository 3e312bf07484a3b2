"""Who may use a device now: many that check on it, or one that times there, and nobody beside."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from portakern.tools.cache import default_directory


class Turns:
    """Of one device, among the threads of this process; who times keeps those of other processes from timing, too.

    Who times goes first: while one waits, nobody begins to check.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._changed = threading.Condition()
        self._together = 0
        self._alone = False
        self._waiting = 0

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Beside others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._together += 1
        try:
            yield
        finally:
            with self._changed:
                self._together -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._alone and not self._together)
                self._alone = True
            finally:
                self._waiting -= 1
        try:
            with _file(self.device, fcntl.LOCK_EX):
                yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


class Room:
    """Memory of this machine for tasks that say how much they need, among the threads of this process."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._changed = threading.Condition()
        self._taken = 0
        self._queue: deque[object] = deque()  # who asks for much is not overtaken for ever by those who ask for little

    @contextlib.contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """``size`` bytes, as soon as they are free; more than there are, as soon as nobody else has any."""
        if not size:
            yield
            return
        size, me = min(size, self.capacity), object()
        with self._changed:
            self._queue.append(me)
            self._changed.wait_for(lambda: self._queue[0] is me and self._taken + size <= self.capacity)
            self._queue.popleft()
            self._taken += size
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()


SHARE = 0.75
"""Of the machine's memory, for tasks that say what they need; the rest is for those that do not."""


@functools.cache
def memory() -> Room:
    """That of this machine, or of the container that this process is in."""
    return Room(int(SHARE * machine_memory()))


def machine_memory() -> int:
    """Bytes; less where the control group of this process has a limit."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_text()))
    return found


@dataclass(frozen=True)
class Turn:
    """What a task needs of a device while it is done: that nobody times there, or that nobody does anything beside it."""

    device: str
    alone: bool = False

    def taken(self) -> contextlib.AbstractContextManager[None]:
        turns = turns_of(self.device)
        return turns.alone() if self.alone else turns.together()


def between_processes(device: str) -> contextlib.AbstractContextManager[None]:
    """Beside others and while nobody times, for processes that use a device now and then: at any time, not just by turns."""
    return _file(device, fcntl.LOCK_SH)


def here(device: str) -> str:
    """The name for turns of a device that this process sees, where its environment hides those of others."""
    shown = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.endswith("_VISIBLE_DEVICES")]
    return " ".join([device, *shown])


@contextlib.contextmanager
def _file(device: str, how: int) -> Iterator[None]:
    """A lock on a file in the user's cache; none where that cannot be written."""
    path = default_directory() / "timing" / f"{re.sub('[^a-zA-Z0-9_-]', '-', device)}.lock"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = stack.enter_context(open(path, "a"))
            fcntl.flock(stream, how)
        yield


_turns: dict[str, Turns] = {}
_lock = threading.Lock()


DEVICE = "PORTAKERN_DEVICE"
"""Which of several devices like it a process works on, where it was given one of them: each has turns of its own."""

HOST = "host"


def turns_of(device: str) -> Turns:
    """Those of a device by its name, the same in the whole process."""
    name = device if device == HOST else f"{device} {os.environ.get(DEVICE, '0')}"
    with _lock:
        return _turns.setdefault(name, Turns(name))
