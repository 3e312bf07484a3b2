"""What a gate is held against: a store, a JSON file, or a run in a store by its name or its date."""

from __future__ import annotations

import difflib
import re
from datetime import datetime
from pathlib import Path

from portakern.errors import UsageError
from portakern.study.results import read_results
from portakern.study.row import Row
from portakern.study.store import ResultStore

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def baseline(named: str, store: ResultStore) -> tuple[Row, ...]:
    """The rows that ``named`` stands for.

    Args:
        named: a file; a name that ``results --name`` gave in ``store``; or a date or time in UTC: what was the newest then,
            with a day until its end.
        store: where names and dates are looked up.

    Raises:
        UsageError: there is no such file or name, or nothing was taken until then.
    """
    if Path(named).is_file():
        return read_results(named)
    if rows := tuple(s.row for s in store.run(named)):
        return rows
    if (until := _moment(named)) is not None:
        if rows := tuple(s.row for s in store.select(until=until)):
            return rows
        raise UsageError(f"nothing in {store.file} was taken until {named}", hint="portakern results lists what was taken when")
    names = store.runs()
    near = difflib.get_close_matches(named, names, 1)
    meant = f"did you mean {near[0]}?" if near else f"runs in {store.file} are {', '.join(names) or 'none yet'}"
    raise UsageError(f"--gate {named}: neither a file, nor a date, nor a run of that name",
                     hint=f"{meant} `portakern results --last N --name {named}` names one")


def _moment(text: str) -> str | None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return f"{text}T23:59:59.999999+00:00" if _DAY.fullmatch(text) else re.sub(r"\s", "T", text.strip())


