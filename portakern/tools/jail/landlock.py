"""Landlock: which files may be read and written, and no signals or sockets to processes outside."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from portakern.tools.jail import system

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL

_CREATE_VERSION = 1
_RULE_PATH = 1
_KNOWN = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_NETWORK_SINCE, _IOCTL_SINCE, _SCOPES_SINCE = 4, 5, 6


def version() -> int:
    """Of the kernel's Landlock.  Raises :class:`OSError` where there is none."""
    return system.call("landlock_create_ruleset", 0, 0, _CREATE_VERSION)


def restrict(read: Iterable[str], write: Iterable[str], devices: Iterable[str]) -> None:
    """From now on, and for all that this process starts.  Needs no_new_privs.

    Args:
        read: files and folders that may be read and executed.
        write: folders in which everything may be done.
        devices: folders whose files may be read, written and controlled.
    """
    found = version()
    handled = _KNOWN.get(found, (1 << 16) - 1)
    network = 3 if found >= _NETWORK_SINCE else 0
    scopes = 3 if found >= _SCOPES_SINCE else 0
    asked = struct.pack("<QQQ", handled, network, scopes)
    size = 24 if scopes else 16 if network else 8
    rules = system.call("landlock_create_ruleset", ctypes.c_char_p(asked), size, 0)
    try:
        for paths, rights in ((read, READ), (write, handled), (devices, READ | WRITE_FILE | TRUNCATE | IOCTL)):
            for path in paths:
                _allow(rules, path, rights & handled)
        system.call("landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(place).st_mode):
                rights &= OF_FILES
            rule = struct.pack("<Qi", rights, place)
            system.call("landlock_add_rule", rules, _RULE_PATH, ctypes.c_char_p(rule), 0)
        finally:
            os.close(place)
