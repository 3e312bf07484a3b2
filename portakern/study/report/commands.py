"""The command that makes a row again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from portakern.errors import PortakernError
from portakern.spec.load import library
from portakern.study.row import Row
from portakern.study.table import shape_text


def command(row: Row, files: Mapping[str, str]) -> str:
    """What to type for this row; empty where nothing tells in which file its operator stands.

    ``files`` are those of the operators that are not in the library, by name.
    """
    operator = _operator(row, files)
    if not operator:
        return ""
    words = ["portakern", "bench" if row.time else "compare", operator, "--targets", row.target]
    if shape := shape_text(row.shape):
        words += ["--shape", shape]
    if row.dtype:
        words += ["--dtype", row.dtype]
    params = [f"{k}={_value(v)}" for k, v in (row.params or {}).items() if v is not None]
    if params:
        words += ["--param", ",".join(params)]
    if row.schedule and row.schedule_from == "given":
        words += ["--schedule", row.schedule.split(";")[0].strip()]
    peers = [p["name"] for p in (row.time or {}).get("peers") or ()]
    if peers:
        words += ["--against", ",".join(peers)]
    return shlex.join(words)


def _operator(row: Row, files: Mapping[str, str]) -> str:
    if row.operator in files:
        return f"{files[row.operator]}:{row.operator}"
    told = ((row.time or {}).get("provenance") or {}).get("operator") or {}
    try:
        known = {op.name for op in library()}
    except PortakernError:
        known = set()
    if row.operator in known:
        return row.operator
    return f"{told['file']}:{row.operator}" if told.get("file") else ""


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
