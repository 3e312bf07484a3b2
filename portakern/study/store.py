"""The store of results: one SQLite file that several processes may write at once.

Every result is one row of ``results``: columns to filter by, and the whole row as JSON; its raw samples lie beside it.
The file is ``PORTAKERN_RESULTS``, or ``portakern/results.sqlite`` in the user's data folder.  It is in write-ahead-log mode,
so that readers never wait and a process that dies leaves a whole file behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError
from portakern.study import schema
from portakern.study.row import SAMPLE_KEYS, Row, without_samples
from portakern.study.row_schema import SCHEMA, upgraded

BUSY_S = 30.0
"""How long a writer waits for another."""

BUSY = "store-busy"
"""The kind of error of a store that another process kept from us all that time."""

OURS = "portakern"
"""The name under which our own samples are kept."""

_MAGIC = b"SQLite format 3\x00"


class StoreError(PortakernError):
    """The store cannot be opened, read or written."""

    def __init__(self, message: str, hint: str = "", where: str = "", kind: str = "store") -> None:
        super().__init__(kind, message, hint, where)


@dataclass(frozen=True)
class Stored:
    """A row with its place in a store: number, time taken (UTC), and the file it was imported from or ''."""

    id: int
    taken: str | None
    origin: str
    row: Row


def default_file() -> Path:
    """Where results are kept unless told otherwise."""
    if named := os.environ.get("PORTAKERN_RESULTS"):
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "portakern" / "results.sqlite"


def is_store(file: str | Path) -> bool:
    """Whether a file looks like SQLite's."""
    try:
        with open(file, "rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class ResultStore:
    """Results in one file.  Every method opens the file anew, so that a store may be passed between threads.

    Args:
        file: the file; made with its folder at the first write.  :func:`default_file` where not given.

    Raises:
        StoreError: from any method, where the file is no store, is damaged, may not be written, or is of a newer portakern.
    """

    def __init__(self, file: str | Path | None = None) -> None:
        self.file = Path(file).expanduser() if file is not None else default_file()

    # ---- writing

    def add(self, rows: Iterable[Row], origin: str = "") -> int:
        """Keep ``rows`` in one transaction; those that are here already are left out.  Gives how many were new."""
        entries = [_entry(row, origin) for row in rows]
        if not entries:
            return 0
        return self._patiently(lambda: self._added(entries))

    def _added(self, entries: Sequence[tuple[dict[str, Any], list[tuple[str, Any, Any]]]]) -> int:
        with self._opened(write=True) as db:
            db.execute("BEGIN IMMEDIATE")
            added = sum(_insert(db, columns, samples) for columns, samples in entries)
            db.execute("COMMIT")
        return added

    def _patiently(self, action: Callable[[], Any]) -> Any:
        """SQLite waits for other writers, save where it would risk a deadlock: while the log is made or taken away."""
        end = time.monotonic() + BUSY_S
        while True:
            try:
                return action()
            except StoreError as error:
                if error.kind != BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.005 + 0.02 * random.random())

    # ---- reading

    def select(
        self,
        operator: str | None = None,
        target: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        since: str | None = None,
        last: int | None = None,
        samples: bool = False,
        until: str | None = None,
    ) -> tuple[Stored, ...]:
        """Results in the order they were taken.

        Args:
            operator, dtype: the name.
            target: a target, or a pattern such as ``cuda:*``.
            device: a part of the device's name, in any case.
            since: a date or time, ISO 8601, in UTC.
            last: only the newest so many.
            samples: whether rows carry their raw samples.
            until: a date or time as ``since``.
        """
        tests = [("operator = ?", operator), ("dtype = ?", dtype), ("target GLOB ?", target),
                 ("instr(lower(device), lower(?)) > 0", device), ("taken >= ?", since), ("taken <= ?", until)]  # fmt: skip
        asked = [(test, value) for test, value in tests if value is not None]
        where = " AND ".join(test for test, _ in asked) or "1"
        # Results that do not say when they were taken are older than all others.
        query = f"SELECT id, taken, origin, row, schema FROM results WHERE {where} ORDER BY taken DESC, id DESC LIMIT ?"
        with self._opened(write=False) as db:
            if db is None:
                return ()
            found = db.execute(query, [*(value for _, value in asked), -1 if last is None else last]).fetchall()
            return tuple(_stored(db, entry, samples) for entry in reversed(found))

    def prune(self, among: Iterable[Stored], before: str | None = None, count: int | None = None, size: int | None = None,
              dry: bool = False) -> tuple[int, int]:  # fmt: skip
        """Remove results with their samples, the oldest first; (how many went, how many are left of ``among``).

        Args:
            among: those that may go, in the order they were taken.  Results of a named run stay.
            before: those taken before this moment go; those that do not say when count as older than all others.
            count: how many may stay.
            size: bytes that their rows and samples may take, as they are stored.
            dry: say it and remove nothing.
        """
        asked = list(among)

        def action() -> int:
            with self._opened(write=True) as db:
                db.execute("BEGIN IMMEDIATE")
                gone = _beyond(asked, _bytes(db), {n for (n,) in db.execute("SELECT result FROM runs")}, before, count, size)
                if not dry:
                    db.executemany("DELETE FROM results WHERE id = ?", [(n,) for n in gone])
                db.execute("COMMIT")
                if gone and not dry:
                    with contextlib.suppress(sqlite3.OperationalError):  # somebody reads: the room is used again all the same
                        db.execute("VACUUM")
            return len(gone)

        if not self.file.exists():
            return 0, 0
        gone = self._patiently(action)
        return gone, len(asked) - gone

    def name(self, name: str, results: Iterable[Stored]) -> None:
        """Keep ``results`` as the run of this name, in place of the one that had it."""
        numbers = [(name, s.id) for s in results]

        def action() -> None:
            with self._opened(write=True) as db:
                db.execute("BEGIN IMMEDIATE")
                db.execute("DELETE FROM runs WHERE name = ?", (name,))
                db.executemany("INSERT INTO runs VALUES (?, ?)", numbers)
                db.execute("COMMIT")

        self._patiently(action)

    def run(self, name: str) -> tuple[Stored, ...]:
        """The results of a run by its name, in the order they were taken; none where there is no such run."""
        query = "SELECT id, taken, origin, row, schema FROM results JOIN runs ON result = id WHERE name = ? ORDER BY taken, id"
        with self._opened(write=False) as db:
            return () if db is None else tuple(_stored(db, entry, False) for entry in db.execute(query, (name,)).fetchall())

    def runs(self) -> list[str]:
        """The names of all runs."""
        with self._opened(write=False) as db:
            return [] if db is None else [name for (name,) in db.execute("SELECT DISTINCT name FROM runs ORDER BY name")]

    def samples(self, number: int) -> dict[str, list[float]]:
        """The raw samples in microseconds of a result by its number: ours, and each peer's by its name."""
        with self._opened(write=False) as db:
            return {} if db is None else {name: us for name, us, _ in _samples(db, number)}

    def check(self) -> str:
        """``ok``, or what SQLite finds wrong with the file."""
        with self._opened(write=False) as db:
            return "ok" if db is None else str(db.execute("PRAGMA integrity_check").fetchone()[0])

    # ---- the file

    @contextlib.contextmanager
    def _opened(self, write: bool) -> Iterator[Any]:
        """A connection; ``None`` for a store that is not there yet and is only read."""
        if not write and not self.file.exists():
            yield None
            return
        try:
            with contextlib.closing(self._connect(write)) as db:
                if schema.version(db) > len(schema.MIGRATIONS):
                    raise StoreError(f"{self.file} was written by a newer portakern", hint="update portakern, or name "
                                     "another file with --store")
                yield db
        except sqlite3.Error as error:
            raise self._explained(error, write) from error
        except OSError as error:
            raise StoreError(f"the store {self.file} cannot be made: {error.strerror}", hint=_ELSEWHERE) from error

    def _connect(self, write: bool) -> sqlite3.Connection:
        if write:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self.file, timeout=BUSY_S, isolation_level=None)
            db.execute("PRAGMA foreign_keys = ON")
            _wal(db)
            schema.migrate(db)
            return db
        name = self.file.resolve().as_uri()
        try:
            db = sqlite3.connect(f"{name}?mode=ro", timeout=BUSY_S, isolation_level=None, uri=True)
            old = schema.version(db) < len(schema.MIGRATIONS)
        except sqlite3.OperationalError:  # a file in a folder where the log cannot be made
            db = sqlite3.connect(f"{name}?immutable=1", isolation_level=None, uri=True)
            old = schema.version(db) < len(schema.MIGRATIONS)
        if old:  # of an earlier portakern, or empty: it is read in its newer form
            db.close()
            return self._connect(write=True)
        return db

    def _explained(self, error: sqlite3.Error, write: bool) -> StoreError:
        text = str(error)
        if "not a database" in text or "malformed" in text:
            return StoreError(f"{self.file} is damaged, or no store ({text})",
                              hint=f"move it away (mv {self.file} {self.file}.damaged); `sqlite3 {self.file}.damaged .recover` "
                                   "saves what can be read")  # fmt: skip
        if "locked" in text or "busy" in text:
            return StoreError(f"{self.file} was busy for {BUSY_S:g} s ({text})", hint="does another portakern hang?", kind=BUSY)
        if "readonly" in text or "unable to open" in text:
            return StoreError(f"{self.file} cannot be {'written' if write else 'read'} ({text})", hint=_ELSEWHERE)
        if "full" in text:
            return StoreError(f"there is no room for {self.file} ({text})", hint="make room, or " + _ELSEWHERE)
        return StoreError(f"{self.file}: {text}", hint=_ELSEWHERE)


_ELSEWHERE = "name a file elsewhere: --store FILE, or PORTAKERN_RESULTS=FILE; --no-store keeps nothing"


def _wal(db: sqlite3.Connection) -> None:
    """Write-ahead log; a file system that cannot have one keeps the rollback journal, which is slower and as safe."""
    if str(db.execute("PRAGMA journal_mode").fetchone()[0]).lower() != "wal":
        db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")


# ---- what is removed ---------------------------------------------------------------------------------------------------


def _bytes(db: sqlite3.Connection) -> dict[int, int]:
    """What each result takes."""
    query = """
        SELECT id, length(row) + (SELECT coalesce(sum(length(microseconds) + coalesce(length(flags), 0)), 0) FROM samples
                                  WHERE result = id) FROM results
    """
    return dict(db.execute(query))


def _beyond(among: Sequence[Stored], sizes: Mapping[int, int], named: set[int], before: str | None, count: int | None,
            size: int | None) -> list[int]:  # fmt: skip
    """Numbers of results that are beyond a limit, the oldest first."""
    gone: list[int] = []
    left, total = len(among), sum(sizes.get(s.id, 0) for s in among)
    for s in among:
        old = before is not None and (s.taken or "") < before
        many = (count is not None and left > count) or (size is not None and total > size)
        if (old or many) and s.id not in named:
            gone.append(s.id)
            left, total = left - 1, total - sizes.get(s.id, 0)
    return gone


# ---- a row and its columns ---------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """``value`` as JSON gives it back, so that a row from a file and one from a run are the same."""
    return json.loads(json.dumps(value, default=str))


def content_hash(row: Mapping[str, Any]) -> str:
    """Of a row without samples, as JSON gives it back."""
    return hashlib.sha256(json.dumps(row, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _entry(row: Row, origin: str) -> tuple[dict[str, Any], list[tuple[str, Any, Any]]]:
    """The columns of a row, and the samples that it carries."""
    data = plain(without_samples(row).to_dict())
    timed: dict[str, Any] = data.get("time") or {}
    environment: dict[str, Any] = data.get("environment") or {}
    peers = timed.get("peers") or []
    columns = {
        "hash": content_hash(data), "taken": (timed.get("provenance") or {}).get("taken"),
        "operator": row.operator, "target": row.target, "language": row.target.partition(":")[0], "device": row.device,
        "shape": _json(data["shape"]), "dtype": row.dtype, "params": _json(data["params"]), "schedule": row.schedule,
        "evidence": row.evidence, "correct": None if row.correct is None else int(row.correct),
        "error": row.error["kind"] if row.error else None,
        **{k: timed.get(k) for k in ("median_us", "ci_low_us", "ci_high_us", "launch_us", "end_to_end_us")},
        "verdicts": _json({p["name"]: p.get("verdict") for p in peers} or None),
        "commit_id": environment.get("commit"), "source_hash": row.source_hash, "binary_hash": row.binary_hash,
        "machine": environment.get("machine_id"), "origin": origin, "row": json.dumps(data), "schema": SCHEMA,
    }  # fmt: skip
    return columns, _carried(row)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True, separators=(",", ":"))


def _carried(row: Row) -> list[tuple[str, Any, Any]]:
    """(name, microseconds, flags) of everything in the row that has samples."""
    timed = row.time or {}
    found = [(OURS, timed.get("samples_us"), timed.get("flags"))]
    found += [(p["name"], p.get("samples_us"), p.get("flags")) for p in timed.get("peers") or ()]
    return [entry for entry in found if entry[1]]


def _insert(db: sqlite3.Connection, columns: Mapping[str, Any], samples: Sequence[tuple[str, Any, Any]]) -> int:
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
    done = db.execute(f"INSERT OR IGNORE INTO results ({names}) VALUES ({marks})", list(columns.values()))
    if not done.rowcount:
        return 0
    for name, us, flags in samples:
        packed = _pack(us, "<f8")
        db.execute("INSERT OR IGNORE INTO samples VALUES (?, ?, ?, ?, ?)",
                   (done.lastrowid, name, len(us), packed, None if flags is None else _pack(flags, "u1")))
    return 1


def _pack(values: Any, dtype: str) -> bytes:
    import numpy as np

    return zlib.compress(np.asarray(values, dtype).tobytes())


def _unpack(blob: bytes | None, dtype: str) -> list[Any] | None:
    import numpy as np

    return None if blob is None else np.frombuffer(zlib.decompress(blob), dtype).tolist()


def _samples(db: sqlite3.Connection, number: int) -> list[tuple[str, list[float], list[int] | None]]:
    query = "SELECT name, microseconds, flags FROM samples WHERE result = ?"
    return [(name, _unpack(us, "<f8") or [], _unpack(flags, "u1")) for name, us, flags in db.execute(query, (number,))]


def _stored(db: sqlite3.Connection, entry: tuple[int, str | None, str, str, int], samples: bool) -> Stored:
    number, taken, origin, text, version = entry
    row = Row.from_dict(upgraded(json.loads(text), version, f"result {number} of the store"))
    if samples and row.time:
        row = row.but(time=_with_samples(dict(row.time), _samples(db, number)))
    return Stored(number, taken, origin, row)


def _with_samples(timed: dict[str, Any], kept: Sequence[tuple[str, list[float], list[int] | None]]) -> dict[str, Any]:
    by_name = {name: dict(zip(SAMPLE_KEYS, values, strict=True)) for name, *values in kept}
    peers = [{**p, **by_name.get(p["name"], {})} for p in timed.get("peers") or ()]
    return {**timed, **by_name.get(OURS, {}), "peers": peers}
