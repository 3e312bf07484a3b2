"""Reading rows that were taken before, or on another machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from portakern.errors import UsageError
from portakern.study.row import Row


def read_results(file: str | Path) -> tuple[Row, ...]:
    """The rows of a file that ``--json`` wrote; each keeps its environment.

    Raises :class:`UsageError` where the file is missing, is no JSON, or holds something else.
    """
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the results {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the results {file} are not text: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"the results {file} are not JSON: {error.msg}", where=f"{file}:{error.lineno}",
                         hint="files of results are written by --json FILE") from error
    if not isinstance(data, dict) or not isinstance(data.get("rows"), list):
        raise UsageError(f"{file} is JSON and holds no rows", hint="files of results are written by --json FILE")
    return tuple(_row(file, number, entry, data.get("environment")) for number, entry in enumerate(data["rows"]))


def _row(file: str | Path, number: int, entry: Any, environment: Any) -> Row:
    try:
        if not isinstance(entry, dict):
            raise ValueError(f"it is a {type(entry).__name__}")
        row = Row.from_dict(entry)
    except ValueError as error:
        raise UsageError(f"row {number} of {file} is not a row of results: {error}",
                         hint="files of results are written by --json FILE") from None
    return row if row.environment is not None else row.but(environment=environment)
