"""System calls that Python has no function for, by number on each processor."""

from __future__ import annotations

import ctypes
import os
import platform

LIBC = ctypes.CDLL(None, use_errno=True)

NUMBERS: dict[str, tuple[int, int]] = {
    # name: (x86-64, aarch64)
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "capset": (126, 91),
    "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioctl": (16, 29), "kcmp": (312, 272),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444), "landlock_restrict_self": (446, 446), "migrate_pages": (256, 238),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "memfd_secret": (447, 447), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "shmget": (29, 194), "ptrace": (101, 117), "quotactl": (179, 60), "reboot": (169, 142),
    "request_key": (249, 218), "seccomp": (317, 277), "sethostname": (170, 161), "setns": (308, 268),
    "settimeofday": (164, 170), "socket": (41, 198), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
}  # fmt: skip

PROCESSORS = ("x86_64", "aarch64")

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_DUMPABLE = 1, 38, 4
_PR_GET_PDEATHSIG = 2


def known_processor() -> bool:
    return platform.machine() in PROCESSORS


def number(name: str) -> int:
    """Raises :class:`OSError` on a processor whose numbers are not in the table."""
    if not known_processor():
        raise OSError(f"no table of system calls for {platform.machine()}")
    return NUMBERS[name][PROCESSORS.index(platform.machine())]


def call(name: str, *arguments: object) -> int:
    """Raises :class:`OSError` as the kernel says."""
    found = LIBC.syscall(ctypes.c_long(number(name)), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    return checked(found, name)


def checked(result: int, name: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    checked(LIBC.prctl(option, ctypes.c_ulong(value), zero, zero, zero), "prctl")


def death_signal() -> int:
    """The signal that this process gets when its parent ends, or 0."""
    found = ctypes.c_int(0)
    checked(LIBC.prctl(_PR_GET_PDEATHSIG, ctypes.byref(found)), "prctl")
    return found.value


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    found = LIBC.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    checked(found, f"mount {target}")
