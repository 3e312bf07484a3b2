"""The seccomp filter: system calls that no kernel of numbers needs, refused by the operating system.

A list of what is refused and not of what is allowed, since compilers, simulators and array libraries run under it too.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

from portakern.tools.jail import system

REFUSED = (
    # other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_open",
    "pidfd_getfd", "pidfd_send_signal", "migrate_pages", "move_pages",
    # name spaces and mounts
    "mount", "umount2", "pivot_root", "chroot", "setns", "unshare", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
    "fspick", "mount_setattr", "open_by_handle_at", "name_to_handle_at", "fanotify_init",
    # memory that belongs to no process
    "shmget", "memfd_secret",
    # large surfaces of the kernel
    "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "keyctl", "add_key",
    "request_key",
    # the machine
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct",
    "quotactl", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "syslog",
)  # fmt: skip

NEW_NAMESPACES = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
"""Flags of clone that make name spaces."""

SOCKETS = (1, 2, 10, 16)
"""Families of sockets that may be made: unix, IPv4 and IPv6 (of a network with nobody in it), netlink."""

TIOCSTI = 0x5412

_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_LOAD, _EQUAL, _SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in the data that a filter sees: the call's number, the processor, the low halves of two arguments."""

_MODE_FILTER, _ALL_THREADS = 1, 1

Step = tuple[int, int, int, int]
"""code, jump if true, jump if false, operand"""


def program() -> bytes:
    """The filter in the form of Berkeley packet filters."""
    return b"".join(struct.pack("<HBBI", *step) for step in steps())


def steps() -> list[Step]:
    refuse = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    allow = (_RETURN, 0, 0, _ALLOW)
    load: Step = (_LOAD, 0, 0, _NUMBER)
    made: list[Step] = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _ARCHES[platform.machine()]), refuse, load]
    if platform.machine() == "x86_64":  # the other numbering of the same calls
        made += [(_SET, 0, 1, _X32), refuse]
    for name in REFUSED:
        made += [(_EQUAL, 0, 1, system.number(name)), refuse]
    # glibc goes back to clone, whose flags a filter can read.
    made += [(_EQUAL, 0, 1, system.number("clone3")), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    made += [(_EQUAL, 0, 4, system.number("clone")), (_LOAD, 0, 0, _FIRST), (_SET, 0, 1, NEW_NAMESPACES), refuse, allow]
    made += [(_EQUAL, 0, len(SOCKETS) + 3, system.number("socket")), (_LOAD, 0, 0, _FIRST)]
    made += [(_EQUAL, len(SOCKETS) - i, 0, family) for i, family in enumerate(SOCKETS)]
    made += [refuse, allow]
    made += [(_EQUAL, 0, 4, system.number("ioctl")), (_LOAD, 0, 0, _SECOND), (_EQUAL, 0, 1, TIOCSTI), refuse, allow]
    return [*made, allow]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def restrict() -> None:
    """From now on, for this process and all that it starts.  Needs no_new_privs."""
    text = program()
    held = ctypes.create_string_buffer(text, len(text))
    asked = _Program(len(text) // 8, ctypes.addressof(held))
    system.call("seccomp", _MODE_FILTER, _ALL_THREADS, ctypes.byref(asked))
