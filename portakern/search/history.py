"""Searches in the store of results: every text, row and edge, written as it comes, so that a kill at any moment loses
nothing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from portakern.errors import UsageError
from portakern.search.trial import Trial
from portakern.study.candidate import Candidate
from portakern.study.row import Row, without_samples
from portakern.study.store import ResultStore, plain
from portakern.study.work import Work


@dataclass(frozen=True)
class Past:
    """A search as the store has it: ``told`` in the order they were asked for, ``pending`` those that were never judged."""

    number: int
    told: tuple[Trial, ...]
    pending: tuple[Candidate, ...]


class History(ResultStore):
    """The searches of a store.  Raises :class:`portakern.study.store.StoreError` as a store does."""

    def begin(self, name: str, work: Work, level: str) -> Past:
        """The search of this name, made where it is not there.

        Raises :class:`UsageError` where it is of another task or level.
        """
        task = json.dumps(task_of(work), sort_keys=True)
        self._patiently(lambda: self._insert([(_SEARCH, (name, task, level, _now()))]))
        number, of, at = self._all("SELECT id, task, level FROM searches WHERE name = ?", name)[0]
        if (of, at) != (task, level):
            raise UsageError(f"the search {name!r} in {self.file} is of another task or level",
                             hint=f"name another one; it has {at}: {of}")  # fmt: skip
        return self.past(number)

    def past(self, number: int) -> Past:
        told, pending = [], []
        for candidate, seconds, row in self._trials(number):
            if row is None:
                pending.append(candidate)
            else:
                told.append(Trial(candidate, row, seconds or 0.0, known=True))
        return Past(number, tuple(told), tuple(pending))

    def asked(self, search: int, candidates: Sequence[Candidate]) -> None:
        """Keeps what is about to be judged; one that is there already only gets its new parents."""
        commands: list[tuple[str, tuple[Any, ...]]] = []
        for c in candidates:
            text = c.source.encode("utf-8", "surrogatepass")
            key = hashlib.sha256(text).hexdigest()
            commands.append(("INSERT OR IGNORE INTO texts VALUES (?, ?)", (key, zlib.compress(text))))
            meta = json.dumps(plain(dict(c.meta)))
            commands.append((_TRIAL, (search, c.id, search, key, c.entry, c.note, c.move, meta, _now())))
            commands += [("INSERT OR IGNORE INTO edges VALUES (?, ?, ?)", (search, c.id, parent)) for parent in c.parents]
        if commands:
            self._patiently(lambda: self._insert(commands))

    def told(self, search: int, trial: Trial) -> None:
        """Keeps a row, in the table of results, too, where it has a time."""
        row = json.dumps(plain(without_samples(trial.row).to_dict()))
        self._patiently(lambda: self._insert([(_TOLD, (_now(), trial.seconds, row, search, trial.id))]))
        if trial.row.time is not None:
            self.add([trial.row])

    def searches(self) -> list[tuple[int, str, dict[str, Any], str]]:
        """(number, name, task, level) of all."""
        return [(n, name, json.loads(task), level) for n, name, task, level in
                self._all("SELECT id, name, task, level FROM searches ORDER BY id")]  # fmt: skip

    def _trials(self, number: int) -> Iterator[tuple[Candidate, float | None, Row | None]]:
        parents: dict[str, list[str]] = {}
        for child, parent in self._all("SELECT child, parent FROM edges WHERE search = ? ORDER BY rowid", number):
            parents.setdefault(child, []).append(parent)
        for key, source, entry, note, move, meta, seconds, row in self._all(_SELECT, number):
            text = zlib.decompress(source).decode("utf-8", "surrogatepass")
            candidate = Candidate(text, entry, note, tuple(parents.get(key, ())), move, json.loads(meta))
            yield candidate, seconds, None if row is None else Row.from_dict(json.loads(row))

    def _insert(self, commands: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        with self._opened(write=True) as db:
            db.execute("BEGIN IMMEDIATE")
            for command, values in commands:
                db.execute(command, values)
            db.execute("COMMIT")

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._opened(write=False) as db:
            return [] if db is None else _rows(db, query, values)


def _rows(db: sqlite3.Connection, query: str, values: tuple[Any, ...]) -> list[Any]:
    return db.execute(query, values).fetchall()


_SEARCH = "INSERT OR IGNORE INTO searches (name, task, level, begun) VALUES (?, ?, ?, ?)"
_TRIAL = ("INSERT OR IGNORE INTO trials (search, candidate, number, text, entry, note, move, meta, asked) VALUES "
          "(?, ?, (SELECT count(*) FROM trials WHERE search = ?), ?, ?, ?, ?, ?, ?)")  # fmt: skip
_TOLD = "UPDATE trials SET told = ?, seconds = ?, row = ? WHERE search = ? AND candidate = ? AND row IS NULL"
_SELECT = ("SELECT candidate, source, entry, note, move, meta, seconds, row FROM trials JOIN texts ON texts.hash = trials.text "
           "WHERE search = ? ORDER BY number")  # fmt: skip


def task_of(work: Work) -> dict[str, Any]:
    """What is asked, so that it can be asked again: ``operator`` is as :func:`portakern.load_operator` takes it."""
    row = work.row
    name = f"{work.file}:{row.operator}" if work.file and not _in_library(work) else row.operator
    return plain({"operator": name, "target": work.target, "dtype": row.dtype, "shape": row.shape, "params": row.params,
                  "sizes": dict(work.sizes)})  # fmt: skip


def _in_library(work: Work) -> bool:
    from portakern.spec.load import LIBRARY

    return work.file == str(LIBRARY / f"{work.row.operator}.py")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
