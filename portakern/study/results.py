"""Reading rows that were taken before, or on another machine: files that ``--json`` wrote, and stores."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from portakern.errors import UsageError
from portakern.study.row import Row
from portakern.study.row_schema import upgraded
from portakern.study.store import ResultStore, Stored, is_store

_HINT = "files of results are written by --json FILE and by portakern results --export FILE; a store will do too"


def read_results(file: str | Path, samples: bool = False) -> tuple[Row, ...]:
    """The rows of a file that ``--json`` wrote, or of a store; each keeps its environment.

    Args:
        file: which.
        samples: whether rows of a store carry their raw samples; those of a JSON file carry what is in it.

    Raises:
        UsageError: the file is missing, is no JSON, or holds something else, or rows of a later schema.
        StoreError: it is a store that cannot be read.
    """
    if is_store(file):
        return tuple(s.row for s in ResultStore(file).select(samples=samples))
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the results {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the results {file} are not text: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"the results {file} are not JSON: {error.msg}", where=f"{file}:{error.lineno}", hint=_HINT) from error
    if not isinstance(data, dict) or not isinstance(data.get("rows"), list):
        raise UsageError(f"{file} is JSON and holds no rows", hint=_HINT)
    version = data.get("schema", 1)
    return tuple(_row(file, number, entry, version, data.get("environment")) for number, entry in enumerate(data["rows"]))


def _row(file: str | Path, number: int, entry: Any, version: Any, environment: Any) -> Row:
    try:
        if not isinstance(entry, dict):
            raise ValueError(f"it is a {type(entry).__name__}")
        row = Row.from_dict(upgraded(entry, version, str(file)))
    except ValueError as error:
        raise UsageError(f"row {number} of {file} is not a row of results: {error}", hint=_HINT) from None
    return row if row.environment is not None else row.but(environment=environment)


# ---- writing ------------------------------------------------------------------------------------------------------------

CSV_COLUMNS: tuple[str, ...] = (
    "taken", "operator", "target", "device", "shape", "dtype", "params", "schedule", "evidence", "correct",
    "max_error_ratio", "error", "median_us", "ci_low_us", "ci_high_us", "samples", "launch_us", "end_to_end_us",
    "share_of_measured_copy", "share_of_stated_peak", "peer", "peer_median_us", "ratio", "ratio_low", "ratio_high",
    "verdict", "mode", "driver", "clock_mhz", "temperature_c", "throttled", "commit", "source_hash", "binary_hash", "machine",
    "processor", "portakern", "origin",
)  # fmt: skip
"""One line per result and peer; a result without peers has one line."""


def to_csv(results: Iterable[Stored]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for result in results:
        own = csv_line(result)
        peers: Sequence[Any] = (result.row.time or {}).get("peers") or [{}]
        for p in peers:
            writer.writerow({**own, "peer": p.get("name"), "peer_median_us": p.get("median_us"), "ratio": p.get("ratio"),
                             "ratio_low": p.get("ci_low"), "ratio_high": p.get("ci_high"),
                             "verdict": p.get("verdict") or p.get("error")})  # fmt: skip
    return out.getvalue()


def csv_line(result: Stored) -> dict[str, Any]:
    """The columns that do not speak of a peer."""
    row, time, here = result.row, result.row.time or {}, result.row.environment or {}
    found = {**row.to_dict(), **time, **(time.get("roofline") or {})}
    device = (time.get("provenance") or {}).get("device") or {}
    after = (time.get("clocks") or {}).get("after") or {}
    found |= {
        "taken": result.taken, "origin": result.origin, "error": row.error["kind"] if row.error else None,
        "shape": _compact(row.shape), "params": _compact(row.params), "driver": device.get("version"),
        **{k: after.get(k) for k in ("clock_mhz", "temperature_c", "throttled")},
        "commit": here.get("commit"), "machine": here.get("machine_id"), "processor": here.get("processor"),
        "portakern": here.get("portakern"),
    }  # fmt: skip
    return {k: found.get(k) for k in CSV_COLUMNS}


def _compact(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"))
