"""A content-addressed cache on disk, safe under concurrent writers and under a kill at any moment.

An entry is one file that carries the checksum of its content. It is written beside its place and moved there in one
step, so a reader sees the old entry, the new one or none. What does not match its checksum counts as absent.

The time of a file is that of its last use, by which :mod:`portakern.tools.limits` removes what is too much or too old.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import struct
import time
import warnings
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path, PurePath

from portakern.errors import CacheError
from portakern.tools import limits

_MAGIC = b"portakern-cache-1\n"
_CHECKSUM_BYTES = 32
_ABANDONED_AFTER_S = 24 * 3600
_USED_AGAIN_S = 600
"""A use is noted where the last one is longer ago."""

_WRITES = 500
"""How many writes of one process are between two looks at the limits."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def digest(*parts: object) -> str:
    """A stable key for ``parts``: 64 hex digits, the same in every process and on every machine.

    Takes None, booleans, Python's integers and floats, text, bytes, paths, enums, and sequences, sets, mappings and
    dataclasses of these. Types are part of the key: ``1``, ``1.0``, ``True`` and ``"1"`` differ.

    Raises:
        TypeError: a part has no stable form.
    """
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(_encode(part))
    return hasher.hexdigest()


def _encode(part: object) -> bytes:
    tag, body = _tagged(part)
    return f"{tag}:{len(body)}:".encode() + body


def _tagged(part: object) -> tuple[str, bytes]:
    match part:
        case None:
            return "none", b""
        case Enum():
            return f"enum {_class_name(part)}", part.name.encode()
        case bool():
            return "bool", str(part).encode()
        case int():
            return "int", str(int(part)).encode()
        case float():
            return "float", struct.pack(">d", part)
        case str():
            return "str", part.encode("utf-8", "surrogatepass")
        case bytes() | bytearray() | memoryview():
            return "bytes", bytes(part)
        case PurePath():
            return "path", str(part).encode("utf-8", "surrogateescape")
        case tuple() | list():
            return "seq", b"".join(map(_encode, part))
        case set() | frozenset():
            return "set", b"".join(sorted(map(_encode, part)))
        case dict():
            return "map", b"".join(sorted(_encode(key) + _encode(value) for key, value in part.items()))
    if is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in fields(part) if field.compare}
        return f"data {_class_name(part)}", _encode(values)
    raise TypeError(f"{_class_name(part)} has no stable form to be a cache key")


def _class_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def default_directory() -> Path:
    """``$PORTAKERN_CACHE``, else ``portakern`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if named := os.environ.get("PORTAKERN_CACHE"):
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "portakern"


class Cache:
    """Bytes by key, under one directory that is created when first written to.

    Args:
        directory: where the entries lie; :func:`default_directory` if not given.
    """

    def __init__(self, directory: Path | str | None = None) -> None:
        self.directory = Path(directory) if directory is not None else default_directory()
        self._swept = False
        self._writes = 0

    def get(self, key: str) -> bytes | None:
        """The content stored under ``key``; None if there is none or it is damaged.

        Raises:
            CacheError: the entry exists and may not be read.
        """
        path = self._entry(key)
        try:
            content = path.read_bytes()
            _note_use(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._explain(error, "read") from error
        return _unseal(content)

    def put(self, key: str, content: bytes) -> None:
        """Stores ``content`` under ``key``, replacing what was there.

        Raises:
            CacheError: kind ``disk-full`` or ``cache-unwritable``.
        """
        self._write(self._entry(key), _seal(content))

    def file(self, key: str, suffix: str = "") -> Path | None:
        """A plain file with the content of ``key``, for what must be a file, such as a library to load.

        The file is compared with the entry each time and mended if it differs.

        Returns:
            Its path, or None if there is no entry.

        Raises:
            CacheError: it cannot be written.
        """
        content = self.get(key)
        if content is None:
            return None
        path = self.directory / "files" / f"{key}{suffix}"
        with limits.turn(self.directory, alone=False):
            if _holds(path, content):
                _note_use(path)
                return path
        self._write(path, content, mode=0o755)
        return path

    def check_writable(self) -> None:
        """Raises CacheError unless entries can be stored."""
        probe = self.directory / "tmp" / _temporary_name()
        self._write(probe, b"")
        with contextlib.suppress(OSError):
            probe.unlink()

    def _entry(self, key: str) -> Path:
        if not key or not all(letter in "0123456789abcdef" for letter in key):
            raise ValueError(f"a cache key is made of hex digits (see digest), not {key!r}")
        return self.directory / "entries" / key[:2] / key[2:]

    def _write(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        temporary = self.directory / "tmp" / _temporary_name()
        try:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._sweep(temporary.parent)
            _write_synced(temporary, content, mode)
            os.replace(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise self._explain(error, "write") from error
        self._writes += 1
        if self._writes % _WRITES == 1:
            limits.look_after(self.directory, lambda text: warnings.warn(f"the cache is not kept small: {text}", stacklevel=2))

    def _sweep(self, directory: Path) -> None:
        """Removes, once per process, what killed writers left behind."""
        if self._swept:
            return
        self._swept = True
        oldest = time.time() - _ABANDONED_AFTER_S
        for left in directory.iterdir():
            with contextlib.suppress(OSError):
                if left.stat().st_mtime < oldest:
                    left.unlink()

    def _explain(self, error: OSError, action: str) -> CacheError:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return CacheError(
                f"cannot {action} the cache in {self.directory}: the disk is full ({reason})",
                hint="free some space, or set PORTAKERN_CACHE to a directory on another disk",
                kind="disk-full",
            )
        return CacheError(
            f"cannot {action} the cache in {self.directory}: {reason}",
            hint="set PORTAKERN_CACHE to a directory that you may write to",
            kind="cache-unwritable",
        )


def _seal(content: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(content).digest() + content


def _unseal(sealed: bytes) -> bytes | None:
    start = len(_MAGIC) + _CHECKSUM_BYTES
    if len(sealed) < start or not sealed.startswith(_MAGIC):
        return None
    content = sealed[start:]
    return content if hashlib.sha256(content).digest() == sealed[len(_MAGIC) : start] else None


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


def _note_use(path: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _USED_AGAIN_S:
            os.utime(path)


def _temporary_name() -> str:
    return f"{os.getpid()}-{secrets.token_hex(8)}"


def _write_synced(path: Path, content: bytes, mode: int) -> None:
    # Synced before it is moved into place: after a power cut the name must not point at an empty file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
