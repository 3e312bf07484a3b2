"""A view of the file system that is read-only, with empty folders of its own where others keep what is theirs."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Sequence

from portakern.tools.jail import system

NOSUID, NODEV, BIND, RECURSIVE, PRIVATE = 2, 4, 4096, 16384, 1 << 18
_READ_ONLY, _NO_SUID = 1, 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000


def alone() -> None:
    """What is mounted from here on is seen here only."""
    system.mount("none", "/", flags=RECURSIVE | PRIVATE)


def read_only() -> None:
    """Every mount there is, at once."""
    wanted = struct.pack("<QQQQ", _READ_ONLY | _NO_SUID, 0, 0, 0)
    system.call("mount_setattr", _AT_FDCWD, ctypes.c_char_p(b"/"), _AT_RECURSIVE, ctypes.c_char_p(wanted), len(wanted))


_SMALL_MEGABYTES = 16
"""For semaphores and the like."""


def emptied(private: Sequence[str], kept: Sequence[str], megabytes: int) -> None:
    """Puts an empty file system over each folder of ``private``; what is ``kept`` of their contents is seen in it again.  The
    first takes so many megabytes, which are the machine's memory; the others take few."""
    folders = [p for p in private if os.path.isdir(p)]
    inside = [p for p in kept if _inside(p, folders) and os.path.exists(p)]
    held = {p: os.open(p, os.O_PATH | os.O_CLOEXEC) for p in _outermost(inside)}
    for number, folder in enumerate(_outermost(folders)):
        size = min(megabytes, _SMALL_MEGABYTES) if number else megabytes
        system.mount("none", folder, "tmpfs", NOSUID | NODEV, f"size={size}m,mode=1777,nr_inodes={64 * size}")
    for path, place in held.items():
        _put_back(path, place)


def _put_back(path: str, place: int) -> None:
    if stat.S_ISDIR(os.fstat(place).st_mode):
        os.makedirs(path, 0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    system.mount(f"/proc/self/fd/{place}", path, flags=BIND | RECURSIVE)
    os.close(place)


def _inside(path: str, folders: Sequence[str]) -> bool:
    return any(path == f or path.startswith(f.rstrip("/") + "/") for f in folders)


def _outermost(paths: Sequence[str]) -> list[str]:
    """Without those that lie in another one."""
    return [p for p in dict.fromkeys(paths) if not _inside(p, [q for q in paths if q != p])]


def processes() -> None:
    """A /proc of the processes in here."""
    system.mount("proc", "/proc", "proc", NOSUID | NODEV)
