"""Jobs in the store of results: each is kept once by its digest, and so is its row, whoever gives it how often."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.study.candidate import Candidate
from portakern.study.provenance import now
from portakern.study.row import Row, without_samples
from portakern.study.store import ResultStore, plain


@dataclass(frozen=True)
class Kept:
    """A job as the store has it; ``row`` is ``None`` while there is none."""

    digest: str
    begun: int
    place: str | None
    row: Row | None


class JobStore(ResultStore):
    """The jobs of a store.  Raises :class:`portakern.study.store.StoreError` as a store does."""

    def ask(self, jobs: Iterable[Job]) -> int:
        """Keeps what is to be judged; gives how many were new."""
        commands: list[tuple[str, tuple[Any, ...]]] = []
        for job in jobs:
            text = job.candidate.source.encode("utf-8", "surrogatepass")
            key = hashlib.sha256(text).hexdigest()
            commands.append(("INSERT OR IGNORE INTO texts VALUES (?, ?)", (key, zlib.compress(text))))
            commands.append(("INSERT OR IGNORE INTO tasks VALUES (?, ?)", (job.task.id, json.dumps(job.task.to_dict()))))
            commands.append((_ASK, (job.digest, job.task.id, job.task.target, key, job.candidate.entry, job.level,
                                    json.dumps(job.options), now())))  # fmt: skip
        return self._patiently(lambda: self._changed(commands, _ASK))

    def begun(self, digest: str) -> None:
        self._patiently(lambda: self._changed([("UPDATE jobs SET begun = begun + 1 WHERE digest = ?", (digest,))]))

    def tell(self, digest: str, row: Row, place: str, seconds: float) -> bool:
        """Keeps a row unless there is one; whether it was the first."""
        told = json.dumps(plain(without_samples(row).to_dict()))
        first = self._patiently(lambda: self._changed([(_TELL, (now(), place, seconds, told, digest))], _TELL)) == 1
        if first and row.time is not None:
            self.add([row])
        return first

    def withdraw(self, digests: Iterable[str]) -> int:
        """Takes jobs away that have no row; gives how many there were."""
        commands = [(_WITHDRAW, (d,)) for d in digests]
        return self._patiently(lambda: self._changed(commands, _WITHDRAW))

    def open_jobs(self, but: Iterable[str] = (), most: int = -1) -> Iterator[Job]:
        """Those without a row, in the order in which they were asked for."""
        held = set(but)
        digests = [d for (d,) in self._all("SELECT digest FROM jobs WHERE row IS NULL ORDER BY number") if d not in held]
        for digest in digests[:most] if most >= 0 else digests:
            for what, source, entry, level, options in self._all(_JOB, digest):
                text = zlib.decompress(source).decode("utf-8", "surrogatepass")
                yield Job.of(TaskSpec.from_dict(json.loads(what)), Candidate(text, entry), level, json.loads(options))

    def kept(self, digests: Sequence[str]) -> dict[str, Kept]:
        """What there is of jobs, by their digests."""
        found: dict[str, Kept] = {}
        for at in range(0, len(digests), _AT_ONCE):
            part = digests[at : at + _AT_ONCE]
            marks = ", ".join("?" * len(part))
            query = f"SELECT digest, begun, place, row FROM jobs WHERE digest IN ({marks})"
            for digest, begun, place, row in self._all(query, *part):
                found[digest] = Kept(digest, begun, place, None if row is None else Row.from_dict(json.loads(row)))
        return found

    def counts(self) -> dict[str, int]:
        """How many jobs there are, have a row, and wait for one."""
        ((jobs, rows),) = self._all("SELECT count(*), count(row) FROM jobs") or [(0, 0)]
        return {"jobs": jobs, "rows": rows, "open": jobs - rows}

    def _changed(self, commands: Sequence[tuple[str, tuple[Any, ...]]], counted: str = "") -> int:
        """How many lines those commands that are ``counted`` changed; all in one transaction."""
        count = 0
        with self._opened(write=True) as db:
            db.execute("BEGIN IMMEDIATE")
            for command, values in commands:
                done = db.execute(command, values)
                count += done.rowcount if command == counted else 0
            db.execute("COMMIT")
        return count

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._opened(write=False) as db:
            return [] if db is None else _fetched(db, query, values)


def _fetched(db: sqlite3.Connection, query: str, values: tuple[Any, ...]) -> list[Any]:
    return db.execute(query, values).fetchall()


_AT_ONCE = 500
_ASK = ("INSERT OR IGNORE INTO jobs (digest, number, task, target, text, entry, level, options, asked) VALUES "
        "(?, (SELECT coalesce(max(number), 0) + 1 FROM jobs), ?, ?, ?, ?, ?, ?, ?)")  # fmt: skip
_TELL = "UPDATE jobs SET told = ?, place = ?, seconds = ?, row = ? WHERE digest = ? AND row IS NULL"
_WITHDRAW = "DELETE FROM jobs WHERE digest = ? AND row IS NULL"
_JOB = ("SELECT what, source, entry, level, options FROM jobs JOIN texts ON texts.hash = jobs.text "
        "JOIN tasks ON tasks.hash = jobs.task WHERE digest = ?")  # fmt: skip
