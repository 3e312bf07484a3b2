"""Entering the jail: name spaces, mounts, limits, another user, Landlock and seccomp, in the order in which they must come.

A process calls :func:`enter` before it imports anything that starts threads.  It comes back in a grandchild; the process itself
waits for it and ends as it does, and between them stands an init whose end is the end of all that was started inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import resource
import secrets
import select
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from portakern.tools.jail import filter, landlock, mounts, system

PARTS = ("user", "pid", "mount", "net", "ipc", "uid", "limits", "no_new_privs", "landlock", "seccomp")
"""What a jail is made of.  ``user`` is a name space of users, which only who is not root needs; ``uid`` another user, which
only root can become."""

_SPACES = {"mount": 0x00020000, "ipc": 0x08000000, "net": 0x40000000, "pid": 0x20000000}
_NEW_USER = 0x10000000
_CAPABILITIES = 0x20080522  # version 3 of the structure


@dataclass(frozen=True)
class Spec:
    """What a jail holds.

    Args:
        read: files and folders that may be read.
        private: folders in whose place an empty one is seen.
        hidden: folders that are empty even where they lie in one that may be read.
        scratch: a folder that may be written where folders cannot be made private.
        devices: files and folders of devices that may be read, written and controlled.
        memory_bytes: limit on the data of each process.
        disk_bytes: limit on each file, and on what is written to the first of the private folders, all together.
        processes: limit on processes and threads.
        seconds: limit on the time of processors.
    """

    read: tuple[str, ...]
    private: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    scratch: str = ""
    devices: tuple[str, ...] = ("/dev", "/proc/self")
    memory_bytes: int | None = None
    disk_bytes: int = 1 << 30
    processes: int = 1024
    seconds: int = 3600


@dataclass
class Entered:
    """The parts that hold, and why the others do not."""

    parts: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def tried(self, part: str, step: Callable[[], object]) -> bool:
        try:
            step()
        except (OSError, ValueError) as error:
            self.missing[part] = str(error)
            return False
        self.parts.append(part)
        return True


def enter(spec: Spec) -> Entered:
    """Returns inside, once."""
    found = Entered()
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", "1000")  # who runs out of memory is this one, and not who judges
    root = os.geteuid() == 0
    if root and not _may_unshare():
        root = False
    if root:
        found.missing["user"] = "not needed by root, who becomes another user"
    else:
        signal_wanted = system.death_signal()
        found.tried("user", _become_root_of_nothing)
        system.prctl(system.PR_SET_PDEATHSIG, signal_wanted)  # which new rights undid
    for part, flag in _SPACES.items():
        found.tried(part, lambda flag=flag: system.call("unshare", flag))
    _wait_outside(found)
    if "mount" in found.parts:
        _see_little(spec, found)
    _wait_as_init(found)
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    found.tried("limits", lambda: _limit(spec, "user" in found.parts or root))
    if not root:
        found.missing["uid"] = "only root can become another user"
    if not (root and found.tried("uid", _become_another)):
        with contextlib.suppress(OSError):
            _drop_capabilities()
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)  # which becoming another user undid
    if found.tried("no_new_privs", lambda: system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)):
        write = [p for p in (*spec.private, spec.scratch) if p] if "mount" in found.parts else [spec.scratch]
        found.tried("landlock", lambda: landlock.restrict(spec.read, write, spec.devices))
        found.tried("seccomp", filter.restrict)
    return found


@functools.cache
def _may_unshare() -> bool:
    """Whether this root may make name spaces without one of users: tried in a child, once for all processes that are forked of
    this one later."""
    child = os.fork()
    if child == 0:
        try:
            system.call("unshare", _SPACES["mount"])
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _become_root_of_nothing() -> None:
    """A name space of users, whose root (this process) may make the other ones and owns nothing outside."""
    user, group = os.geteuid(), os.getegid()
    system.call("unshare", _NEW_USER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as stream:
        stream.write(text)


def _wait_outside(found: Entered) -> None:
    """The first fork: its child is the init of the new processes."""
    if "pid" not in found.parts:
        return
    if child := os.fork():
        _end_as(child)
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_as_init(found: Entered) -> None:
    """The second: the init collects who has ended, until its own child has."""
    if "pid" not in found.parts:
        return
    if child := os.fork():
        _close_all()
        while True:
            pid, status = os.wait()
            if pid == child:
                os._exit(_as_exit(status))


def _end_as(child: int) -> NoReturn:
    """Waits for the child and ends as what it stands for did; or with the process that judges, however that ends."""
    _close_all()
    judge, inside = os.pidfd_open(os.getppid()), os.pidfd_open(child)
    ended, _, _ = select.select([judge, inside], [], [])
    if inside not in ended:
        os._exit(1)  # and the child dies with its parent
    _, status = os.waitpid(child, 0)
    code = _as_exit(status)
    if code >= 128:
        with contextlib.suppress(OSError):
            signal.signal(code - 128, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), code - 128)
    os._exit(code)


def _as_exit(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _close_all() -> None:
    """Who waits holds nothing open, so that the other side sees when the process within has ended."""
    os.closerange(0, 1024)


def _see_little(spec: Spec, found: Entered) -> None:
    def step() -> None:
        mounts.alone()
        mounts.read_only()
        mounts.emptied(spec.private, spec.read, max(spec.disk_bytes >> 20, 1))
        mounts.emptied(spec.hidden, (), 1)

    found.parts.remove("mount")
    found.tried("mount", step)
    if "pid" in found.parts:
        try:
            mounts.processes()
        except OSError as error:
            found.missing["proc"] = str(error)


def _limit(spec: Spec, own_count: bool) -> None:
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: spec.disk_bytes, resource.RLIMIT_NOFILE: 4096,
              resource.RLIMIT_CPU: spec.seconds, resource.RLIMIT_MSGQUEUE: 0}  # fmt: skip
    if spec.memory_bytes is not None:
        limits[resource.RLIMIT_DATA] = spec.memory_bytes
    if own_count:  # else it would count what this user runs elsewhere
        limits[resource.RLIMIT_NPROC] = spec.processes
    for name, value in limits.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def _become_another() -> None:
    """A user that nobody else is."""
    user = 1_000_000_000 + secrets.randbelow(1 << 29)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _drop_capabilities() -> None:
    header = struct.pack("<Ii", _CAPABILITIES, 0)
    system.call("capset", ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))
