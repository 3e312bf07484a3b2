"""The JSON of the commands that are not about rows: versions, JSON Schemas and description, made of their types.

A key that is added leaves a version as it is; one that is renamed, taken away or means something else raises it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portakern.study import command_fields as fields
from portakern.study import row_schema
from portakern.version import __version__

FORMS: Mapping[str, tuple[type, int]] = {
    "cache": (fields.CacheReport, 1), "doctor": (fields.Doctor, 1), "inspect": (fields.Inspections, 1),
    "targets": (fields.Targets, 1), "tune": (fields.Tunings, 1),
}  # fmt: skip
"""What each command writes, and the version of its form."""

FOLDER = Path(__file__).with_name("schemas")
"""The JSON Schemas as they are installed; ``pytest --update-golden`` writes them."""


def stamped(command: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """What a command tells, with the versions in front."""
    return {"portakern": __version__, "schema": FORMS[command][1], **told}


def schema(command: str) -> dict[str, Any]:
    record, version = FORMS[command]
    return row_schema.schema_of(record, version, f"portakern {command}, schema {version}")


def text(command: str) -> str:
    return json.dumps(schema(command), indent=1) + "\n"


def installed(command: str) -> str:
    return (FOLDER / f"{command}.json").read_text(encoding="utf-8")


def described() -> str:
    """Tables of all keys, by command, as Markdown; what is in rows, too, is described there."""
    known = set(row_schema.records(row_schema.Results))
    parts = []
    for command, (record, _) in FORMS.items():
        inner = [r for r in row_schema.records(record) if r not in known]
        parts += [row_schema.table(command if r is record else row_schema.name_of(r), r, level=2 if r is record else 3,
                                   elsewhere=known) for r in inner]  # fmt: skip
        known.update(inner)
    return "\n".join(parts)
