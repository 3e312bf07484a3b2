"""Who may use a device now: many that check on it, or one that times there, and nobody beside."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from collections.abc import Iterator

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
            with _file(self.device):
                yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


@contextlib.contextmanager
def _file(device: str) -> Iterator[None]:
    """A lock on a file in the user's cache; none where that cannot be written."""
    path = default_directory() / "timing" / f"{re.sub('[^a-zA-Z0-9_-]', '-', device)}.lock"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = stack.enter_context(open(path, "a"))
            fcntl.flock(stream, fcntl.LOCK_EX)
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
