"""Tuning one work with the database that ``build`` looks into: what the command and ``pk.tune`` do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from portakern.errors import UsageError
from portakern.registry import registry
from portakern.study.keeping import Keeper
from portakern.study.provenance import environment
from portakern.study.work import Work
from portakern.tuned.database import Database, default_file, write_shipped
from portakern.tuning.lab import DeviceLab
from portakern.tuning.tuner import Settings, Tuner, Tuning, mode_of


def database() -> Database:
    """The user's.  Raises :class:`UsageError` where tuned schedules are switched off."""
    file = default_file()
    if file is None:
        raise UsageError("tuned schedules are switched off (PORTAKERN_TUNED=off)",
                         hint="unset PORTAKERN_TUNED, or name a file in it")
    return Database(file)


def tune_work(work: Work, settings: Settings, say: Callable[[str], None], keep: Keeper | None = None,
              write: str | Path | None = None) -> Tuning:  # fmt: skip
    """Searches the schedules of a work, and keeps the best.

    Args:
        say: called with each line of progress.
        keep: where the winner's timed row goes.
        write: a file as backends ship them, to which the tuned schedule is added.
    """
    kept, by, target = database(), mode_of(work), registry().target(work.target)
    lock = Path(kept.file).with_suffix(".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with DeviceLab(target, settings.jobs, lock, settings.seed) as lab:
        found = Tuner(work, lab, kept, settings, say, by).run()
    if keep is not None and found.row is not None and found.row.time is not None:
        keep(found.row.but(environment=environment()))
    if found.stored and write is not None and work.key is not None and (entry := kept.find(work.key)) is not None:
        write_shipped(Path(write), [entry])
    return found
