"""A control group (cgroup v2) for a process and all that it starts: memory and processes of all of them together, which limits
of single processes do not count.

It is made from outside, beside our own group or in it, where that was delegated to this user with both controllers: systemd
does so for users' services and scopes (``Delegate=yes``), container engines where they are told to.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONTROLLERS = ("memory", "pids")
_END_S = 2.0
_PAUSE_S = 0.005


@dataclass(frozen=True)
class Group:
    folder: Path

    def take(self, pid: int) -> None:
        """The process, and all that it will start.  Raises :class:`OSError`."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def ran_out(self) -> bool:
        """Whether one of its processes was ended for want of memory."""
        try:
            events = dict(line.split() for line in (self.folder / "memory.events").read_text().splitlines())
        except OSError:
            return False
        return int(events.get("oom_kill", 0)) > 0

    def end(self) -> None:
        """Ends what is left in it, and the group."""
        with contextlib.suppress(OSError):
            (self.folder / "cgroup.kill").write_text("1")
        until = time.monotonic() + _END_S
        while time.monotonic() < until:
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_PAUSE_S)
            else:
                return


def group_in(folder: Path, memory_bytes: int | None, processes: int) -> Group:
    """A new one with these limits.  Raises :class:`OSError` where that is not allowed or a controller is missing."""
    group = Group(folder / f"portakern-{os.getpid()}-{secrets.token_hex(6)}")
    group.folder.mkdir()
    try:
        _write(group.folder / "pids.max", str(processes))
        _write(group.folder / "memory.max", str(memory_bytes) if memory_bytes is not None else "max")
        _write(group.folder / "memory.oom.group", "1")
        with contextlib.suppress(OSError):  # not there without swapping
            _write(group.folder / "memory.swap.max", "0")
    except OSError:
        group.end()
        raise
    return group


def _write(path: Path, text: str) -> None:
    """What is no file of the system's cannot be made one."""
    with open(path, "r+") as stream:
        stream.write(text)


@functools.cache
def delegated() -> Path:
    """Where groups can be made, tried once.  Raises :class:`OSError` that says why they cannot."""
    own, mounts = Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    return usable(candidates(own, mounts))


def candidates(own: str, mounts: str) -> list[Path]:
    """The group that this process is in, and that around it, by ``/proc/self/cgroup`` and ``/proc/self/mountinfo``."""
    paths = [line.removeprefix("0::") for line in own.splitlines() if line.startswith("0::")]
    roots = [f for f in map(str.split, mounts.splitlines()) if "-" in f and f[f.index("-") + 1] == "cgroup2"]
    if not paths or not roots:
        raise OSError("cgroup v2 is not mounted")
    root, place = Path(roots[0][4]), roots[0][3]
    inside = os.path.relpath(paths[0], place)
    if inside.startswith(".."):
        raise OSError("the group of this process is not in what is mounted of cgroup v2")
    found = root / inside
    return [found, *([found.parent] if found != root else [])]


def usable(folders: list[Path]) -> Path:
    """The first in which a group has both controllers."""
    reasons = []
    for folder in folders:
        try:
            _controlled(folder)
            group_in(folder, None, 64).end()
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
        else:
            return folder
    raise OSError("no cgroup v2 was delegated: " + "; ".join(reasons))


def _controlled(folder: Path) -> None:
    """Groups in the folder have both controllers, which is refused where processes live in it and it was not asked for."""
    missing = list(_missing(folder / "cgroup.controllers"))
    if missing:
        raise OSError(f"it has no controller {', '.join(missing)}")
    wanted = " ".join(f"+{name}" for name in _missing(folder / "cgroup.subtree_control"))
    if wanted:
        _write(folder / "cgroup.subtree_control", wanted)


def _missing(path: Path) -> Iterator[str]:
    there = path.read_text().split()
    return (name for name in CONTROLLERS if name not in there)
