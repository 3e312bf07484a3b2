"""What tuning found: the user's SQLite file, which several processes may use at once, over the files a backend ships.

The file is ``PORTAKERN_TUNED``, or ``portakern/tuned.sqlite`` in the user's data folder; ``off`` in its place means no tuned
schedules at all, not even shipped ones.  It holds the best schedule by :class:`portakern.tuned.keys.Key`, and every
candidate that was tried, so that an interrupted search goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError
from portakern.tuned.chosen import ForNest
from portakern.tuned.keys import Key

BUSY_S = 30.0

OFF = "off"

FORM = 1
"""Of the shipped files; raised when an earlier portakern could not read them."""

_TABLES = """
CREATE TABLE IF NOT EXISTS best (
    operator TEXT NOT NULL, bucket TEXT NOT NULL, dtype TEXT NOT NULL, language TEXT NOT NULL, device TEXT NOT NULL,
    entry TEXT NOT NULL,              -- JSON
    PRIMARY KEY (operator, bucket, dtype, language, device)
);
CREATE TABLE IF NOT EXISTS trials (
    run TEXT NOT NULL,                -- key, exact shape, toolchain, machine: times of one run compare with each other
    source TEXT NOT NULL,             -- hash of the kernel's text: schedules that give the same text are one candidate
    schedule TEXT NOT NULL,
    outcome TEXT NOT NULL,            -- timed, slower, incorrect, failed, spills
    relative REAL,                    -- time as a share of the default's in the same measurement
    detail TEXT NOT NULL,             -- JSON
    taken TEXT NOT NULL,              -- UTC
    PRIMARY KEY (run, source)
);
"""


class TuningError(PortakernError):
    """The database of tuned schedules cannot be opened, read or written, or a shipped file is not what it should be."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__("tuned", message, hint)


@dataclass(frozen=True)
class Entry:
    """A tuned schedule.

    ``by`` is ``time`` or ``estimate``; ``provenance`` says where and when: device, driver, versions, shape, times, margin over
    the default.
    """

    key: Key
    name: str
    nests: tuple[ForNest, ...]
    emitter_version: int
    by: str = "time"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "operator": self.key.operator, "bucket": self.key.bucket, "dtype": self.key.dtype,
                "emitter_version": self.emitter_version, "by": self.by, "nests": [n.to_dict() for n in self.nests],
                "provenance": dict(self.provenance)}  # fmt: skip

    @staticmethod
    def from_dict(data: Mapping[str, Any], language: str, device: str) -> Entry:
        key = Key(str(data["operator"]), str(data["bucket"]), str(data["dtype"]), language, device)
        return Entry(key, str(data.get("name", "")), tuple(map(ForNest.from_dict, data["nests"])),
                     int(data["emitter_version"]), str(data.get("by", "time")), dict(data.get("provenance", {})))  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """What became of a candidate; ``relative`` is its time as a share of the default's."""

    source: str
    schedule: str
    outcome: str
    relative: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    taken: str = ""


def default_file() -> Path | None:
    """Where the user's file is; ``None`` where tuned schedules are switched off."""
    named = os.environ.get("PORTAKERN_TUNED", "")
    if named == OFF:
        return None
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "portakern" / "tuned.sqlite"


class Database:
    """The user's file.  Every method opens it anew; raises :class:`TuningError` where it cannot be used."""

    def __init__(self, file: Path | str) -> None:
        self.file = Path(file)

    def find(self, key: Key) -> Entry | None:
        with self._opened(write=False) as db:
            if db is None:
                return None
            found = db.execute("SELECT entry FROM best WHERE operator = ? AND bucket = ? AND dtype = ? AND language = ? "
                               "AND device = ?", _columns(key)).fetchone()  # fmt: skip
        return None if found is None else Entry.from_dict(json.loads(found[0]), key.language, key.device)

    def put(self, entry: Entry) -> None:
        """Keep an entry, in place of the one that its key had."""
        with self._opened(write=True) as db:
            db.execute("INSERT OR REPLACE INTO best VALUES (?, ?, ?, ?, ?, ?)",
                       (*_columns(entry.key), json.dumps(entry.to_dict(), default=str)))  # fmt: skip

    def forget(self, key: Key) -> None:
        """Take an entry out, where there is one."""
        with self._opened(write=True) as db:
            db.execute("DELETE FROM best WHERE operator = ? AND bucket = ? AND dtype = ? AND language = ? AND device = ?",
                       _columns(key))  # fmt: skip

    def entries(self, language: str | None = None, device: str | None = None) -> tuple[Entry, ...]:
        with self._opened(write=False) as db:
            if db is None:
                return ()
            rows = db.execute("SELECT language, device, entry FROM best WHERE language = coalesce(?, language) "
                              "AND device = coalesce(?, device) ORDER BY language, device, operator, bucket, dtype",
                              (language, device)).fetchall()  # fmt: skip
        return tuple(Entry.from_dict(json.loads(text), lang, dev) for lang, dev, text in rows)

    def add_trial(self, run: str, trial: Trial) -> None:
        with self._opened(write=True) as db:
            db.execute("INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?)",
                       (run, trial.source, trial.schedule, trial.outcome, trial.relative,
                        json.dumps(dict(trial.detail), default=str), trial.taken))  # fmt: skip

    def trials(self, run: str) -> dict[str, Trial]:
        """By the hash of the kernel's text."""
        with self._opened(write=False) as db:
            if db is None:
                return {}
            rows = db.execute("SELECT source, schedule, outcome, relative, detail, taken FROM trials WHERE run = ?", (run,))
            return {r[0]: Trial(r[0], r[1], r[2], r[3], json.loads(r[4]), r[5]) for r in rows}

    def forget_trials(self, run: str) -> None:
        with self._opened(write=True) as db:
            db.execute("DELETE FROM trials WHERE run = ?", (run,))

    @contextlib.contextmanager
    def _opened(self, write: bool) -> Iterator[Any]:
        """A connection; ``None`` for a file that is not there and is only read."""
        try:
            if not write and not self.file.is_file():
                yield None
                return
            if write:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                db = sqlite3.connect(self.file, timeout=BUSY_S, isolation_level=None)
            else:
                db = _readable(self.file)
            with contextlib.closing(db):
                if write:
                    db.execute("PRAGMA journal_mode = WAL")
                    db.execute("PRAGMA synchronous = NORMAL")
                    # In one step, since another process may be making them too.
                    db.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
                yield db
        except sqlite3.Error as error:
            raise TuningError(f"{self.file}: {error}", hint="name another file in PORTAKERN_TUNED, or switch tuned schedules "
                              "off with PORTAKERN_TUNED=off") from error  # fmt: skip
        except OSError as error:
            raise TuningError(f"{self.file}: {error.strerror}", hint="name another file in PORTAKERN_TUNED") from error


def _readable(file: Path) -> sqlite3.Connection:
    """A connection for reading; a file in a folder that cannot be written is taken as it is, without its log."""
    name = file.resolve().as_uri()
    try:
        db = sqlite3.connect(f"{name}?mode=ro", timeout=BUSY_S, isolation_level=None, uri=True)
        db.execute("SELECT count(*) FROM best")
        return db
    except sqlite3.OperationalError:
        return sqlite3.connect(f"{name}?immutable=1", isolation_level=None, uri=True)


def _columns(key: Key) -> tuple[str, ...]:
    return key.operator, key.bucket, key.dtype, key.language, key.device


# ---- what backends ship ------------------------------------------------------------------------------------------------


def shipped_folder(language: str) -> Path:
    """The folder ``tuned`` beside the device descriptions of the language's backend; need not exist."""
    from portakern.registry import registry

    return registry().backend_of(language).devices.parent / "tuned"


def shipped(language: str, device: str) -> dict[Key, Entry]:
    """The entries a backend ships for a device, ``tuned/<device>.json``.  Raises :class:`TuningError` for a damaged file."""
    return _read_file(shipped_folder(language) / f"{device.partition('/')[0]}.json", language, device)


@cache
def _read_file(file: Path, language: str, device: str) -> dict[Key, Entry]:
    try:
        data = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TuningError(f"{file.name} of tuned schedules cannot be read: {error}") from error
    try:
        if data["form"] != FORM:
            raise TuningError(f"{file.name} of tuned schedules has the form {data['form']}, this portakern reads {FORM}")
        entries = [Entry.from_dict(e, language, device) for e in data["languages"].get(language, ())]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TuningError(f"{file.name} of tuned schedules is not in the form of {__name__}: {error!r}") from error
    return {e.key: e for e in entries}


def write_shipped(file: Path, entries: Iterable[Entry]) -> None:
    """Write (or add to) a file of shipped entries of one device; an entry takes the place of the one with its key."""
    data: dict[str, Any] = {"form": FORM, "device": file.stem, "languages": {}}
    if file.is_file():
        data = json.loads(file.read_text())
    for e in entries:
        mine = data["languages"].setdefault(e.key.language, [])
        same = (e.key.operator, e.key.bucket, e.key.dtype)
        mine[:] = [x for x in mine if (x["operator"], x["bucket"], x["dtype"]) != same] + [e.to_dict()]
        mine.sort(key=lambda x: (x["name"], x["dtype"], x["bucket"]))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, indent=1) + "\n")
