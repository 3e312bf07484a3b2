"""How large and how old the cache may become, and what is removed beyond that: what was used longest ago goes first.

``PORTAKERN_CACHE_SIZE`` (``5GB`` where not set) and ``PORTAKERN_CACHE_AGE`` (``30d``, since something was last used) say how
much; ``off`` sets no limit.  Processes that write to a cache look after it now and then, ``portakern cache prune`` at
once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from portakern.errors import UsageError

SIZE, AGE = "5GB", "30d"
"""The limits where nobody sets others."""

GRACE_S = 3600.0
"""What was used within it stays, whatever the limits: somebody may be about to open it."""

EVERY_S = 3600.0
"""How often processes that write look whether the limits are kept."""

ROOM = 0.8
"""The share of the size that is left after pruning for it, so that it is not needed again at once."""

_UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def bytes_of(text: str) -> int:
    """``500MB`` or ``2.5GB``.  Raises :class:`UsageError`."""
    found = re.fullmatch(r"([\d.]+)\s*([A-Za-z]*)", text.strip())
    with contextlib.suppress(ValueError, KeyError):
        if found:
            return int(float(found[1]) * _UNITS[found[2].upper()])
    raise UsageError(f"{text!r} is not a size", hint="write it as 500MB or 2GB")


def seconds_of(text: str) -> float:
    """``12h``, ``30d`` or ``8w``.  Raises :class:`UsageError`."""
    found = re.fullmatch(r"([\d.]+)\s*([smhdw])", text.strip())
    with contextlib.suppress(ValueError):
        if found:
            return float(found[1]) * _SPANS[found[2]]
    raise UsageError(f"{text!r} is not a time", hint="write it as 12h, 30d or 8w")


@dataclass(frozen=True)
class Limits:
    """``None``: no limit."""

    size: int | None
    age_s: float | None

    @staticmethod
    def of_environment() -> Limits:
        """Raises :class:`UsageError` where a variable says something else."""
        size = os.environ.get("PORTAKERN_CACHE_SIZE") or SIZE
        age = os.environ.get("PORTAKERN_CACHE_AGE") or AGE
        return Limits(None if size == "off" else bytes_of(size), None if age == "off" else seconds_of(age))


@dataclass(frozen=True)
class Piece:
    """A file, or a folder that belongs together: what it takes, and when it was last used."""

    path: Path
    kind: str
    size: int
    used: float


@dataclass(frozen=True)
class Pruned:
    """What was removed, and what is left."""

    removed: int
    removed_bytes: int
    left: int
    left_bytes: int


def pieces(directory: Path) -> Iterator[Piece]:
    """Everything in a cache that may be made again: entries, files made of them, what Triton keeps beside them."""
    for folder in _scan(directory / "entries"):
        yield from (_piece(Path(e.path), "entries") for e in _scan(Path(folder.path)))
    yield from (_piece(Path(e.path), "files") for e in _scan(directory / "files"))
    yield from (_folder(Path(e.path)) for e in _scan(directory / "triton"))


def _scan(folder: Path) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:  # not there, or removed meanwhile
        return ()


def _piece(path: Path, kind: str) -> Piece:
    try:
        found = path.stat()
    except OSError:
        return Piece(path, kind, 0, time.time())
    return Piece(path, kind, found.st_blocks * 512, found.st_mtime)  # the mtime is that of its last use: Cache says so


def _folder(path: Path) -> Piece:
    """Used when one of its files was read last, as far as the file system notes that."""
    if not path.is_dir():
        return _piece(path, "triton")
    size, used = 0, 0.0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                found = os.stat(os.path.join(folder, name))
                size, used = size + found.st_blocks * 512, max(used, found.st_mtime, found.st_atime)
    return Piece(path, "triton", size, used or time.time())


def sizes(directory: Path) -> dict[str, tuple[int, int]]:
    """By kind, how many pieces there are and what they take in bytes."""
    found: dict[str, tuple[int, int]] = {}
    for piece in pieces(directory):
        count, size = found.get(piece.kind, (0, 0))
        found[piece.kind] = count + 1, size + piece.size
    return found


def prune(directory: Path, limits: Limits, dry: bool = False) -> Pruned:
    """Removes what is beyond the limits.  Safe beside processes that read and write there: each piece is looked at once more
    under a lock that those who are handed a file take too, and what was used a moment ago stays."""
    now = time.time()
    found = sorted(pieces(directory), key=lambda p: p.used)
    total = sum(p.size for p in found)
    left, removed, removed_bytes = total, 0, 0
    wanted = int(ROOM * limits.size) if limits.size is not None and total > limits.size else None
    for piece in found:
        too_old = limits.age_s is not None and now - piece.used > limits.age_s
        too_much = wanted is not None and left > wanted
        if not (too_old or too_much) or now - piece.used < GRACE_S:
            continue
        if dry or _remove(directory, piece):
            left, removed, removed_bytes = left - piece.size, removed + 1, removed_bytes + piece.size
    return Pruned(removed, removed_bytes, len(found) - removed, left)


def _remove(directory: Path, piece: Piece) -> bool:
    """Whether it is gone; not where somebody used it meanwhile."""
    with turn(directory, alone=True):
        again = _folder(piece.path) if piece.kind == "triton" else _piece(piece.path, piece.kind)
        if again.used > piece.used:
            return False
        try:
            shutil.rmtree(piece.path) if piece.path.is_dir() else piece.path.unlink()
        except OSError:
            return not piece.path.exists()
    return True


@contextlib.contextmanager
def turn(directory: Path, alone: bool) -> Iterator[None]:
    """Between who removes pieces and who is handed a file; none where no lock can be had."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path = directory / "prune.lock"
            stream = stack.enter_context(open(path, "a" if os.access(directory, os.W_OK) else "r"))
            fcntl.flock(stream, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def look_after(directory: Path, warn: Callable[[str], None] = lambda text: None) -> None:
    """Prunes where nobody has for an hour; called now and then by those who write."""
    stamp = directory / "pruned"
    try:
        if time.time() - stamp.stat().st_mtime < EVERY_S:
            return
    except OSError:
        pass
    try:
        stamp.touch()  # first, so that others leave it to this process
        prune(directory, Limits.of_environment())
    except (OSError, UsageError) as error:  # it is no reason to fail what is written
        warn(str(error))
