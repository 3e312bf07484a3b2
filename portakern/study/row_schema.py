"""The form of rows as JSON: its version, its JSON Schema and its description, all made of the types of the rows.

A field that is added leaves :data:`SCHEMA` as it is, and readers leave out what they do not know.  A field that is renamed,
taken away or means something else raises it, with an entry of :data:`UPGRADES` that makes the newer form of the older one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Required, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

from portakern.error_kinds import FAMILIES, KINDS, PATTERN
from portakern.errors import UsageError
from portakern.study.row import Row
from portakern.study.row_fields import EnvironmentFields, GateFields, PortingFields

SCHEMA = 1
"""The version of the form, ``schema`` in the JSON and in the store."""

UPGRADES: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = ()
"""The first one makes a row of version 2 from one of version 1, and so on."""

FILE = Path(__file__).with_name("schema.json")
"""The JSON Schema as it is installed; ``pytest --update-golden`` writes it."""


class Results(TypedDict, total=False):
    """What ``--json`` writes, ``results --export`` too, and ``--from``, ``--import`` and ``--gate`` read."""

    portakern: Required[Annotated[str, "version that wrote it"]]
    schema: Required[Annotated[int, "version of this form; files of earlier versions have none and read as 1"]]
    environment: Required[Annotated[EnvironmentFields, "for rows that have none of their own"]]
    rows: Required[Annotated[list[Row], "one for each operator, target, shape and dtype"]]
    porting: Annotated[list[PortingFields], "what differs between the targets of a comparison"]
    gate: Annotated[GateFields, "verdicts of `results --gate`"]


def upgraded(row: dict[str, Any], version: Any, where: str) -> dict[str, Any]:
    """A row of an earlier version in today's form.  Raises :class:`UsageError` for one of a later version, or of none."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UsageError(f"{where} says that its rows are of schema {version!r}", hint="versions are whole numbers from 1")
    if version > SCHEMA:
        raise UsageError(f"{where} has rows of schema {version}, and this portakern reads up to {SCHEMA}",
                         hint="update portakern, or export the rows with the one that wrote them")
    for change in UPGRADES[version - 1 :]:
        row = change(row)
    return row


# ---- the JSON Schema -----------------------------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    """The JSON Schema of what ``--json`` writes; a row alone is ``#/$defs/Row``."""
    return schema_of(Results, SCHEMA, f"portakern results, schema {SCHEMA}")


def schema_of(record: type, version: int, title: str) -> dict[str, Any]:
    """That of a type whose key ``schema`` has the version."""
    defs: dict[str, Any] = {}
    whole = _object(record, defs)
    whole["properties"]["schema"]["const"] = version
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **whole,
            "$defs": dict(sorted(defs.items()))}  # fmt: skip


def text() -> str:
    return json.dumps(schema(), indent=1) + "\n"


def _object(record: type, defs: dict[str, Any]) -> dict[str, Any]:
    properties = {name: {**_type(form, defs), "description": said} for name, form, said in members(record)}
    found = {"type": "object", "description": (record.__doc__ or "").strip(), "properties": properties}
    return found | {"required": sorted(_required(record))}


def _type(form: Any, defs: dict[str, Any]) -> dict[str, Any]:
    origin, parts = get_origin(form), get_args(form)
    if origin in (Union, UnionType):
        return _any([_type(p, defs) for p in parts])
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is list:
        return {"type": "array", "items": _type(parts[0], defs)}
    if origin is dict:
        return {"type": "object"} if parts[1] is Any else {"type": "object", "additionalProperties": _type(parts[1], defs)}
    if is_record(form):
        if form.__name__ not in defs:
            defs[form.__name__] = {}
            defs[form.__name__] = _object(form, defs)
            if form.__name__ == "ErrorFields":
                defs[form.__name__]["properties"]["kind"] |= _kinds()
        return {"$ref": f"#/$defs/{form.__name__}"}
    return dict(_PLAIN[form])


_PLAIN: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
    NoneType: {"type": "null"}, Any: {},
}  # fmt: skip


def _any(forms: list[dict[str, Any]]) -> dict[str, Any]:
    """One of several; plain types in one list, which reads better."""
    if all(set(f) == {"type"} for f in forms):
        return {"type": [f["type"] for f in forms]}
    if all(set(f) == {"enum"} or f == _PLAIN[NoneType] for f in forms):
        return {"enum": [value for f in forms for value in f.get("enum", [None])]}
    return {"anyOf": forms}


def _kinds() -> dict[str, Any]:
    """Those of portakern, each with its meaning, and the form of those that backends from elsewhere have."""
    named = [{"const": kind, "description": said} for kind, said in KINDS.items()]
    families = [{"pattern": f"^{word}-", "description": said} for word, said in FAMILIES.items()]
    return {"anyOf": [*named, *families, {"pattern": PATTERN, "description": "of a backend from elsewhere"}]}


# ---- the types ------------------------------------------------------------------------------------------------------------


def is_record(form: Any) -> bool:
    return form is Row or is_typeddict(form)


def members(record: type) -> Iterator[tuple[str, Any, str]]:
    """(name, type in JSON, description) of each key."""
    for name, hint in get_type_hints(record, include_extras=True).items():
        hint = get_args(hint)[0] if get_origin(hint) is Required else hint
        plain, *rest = get_args(hint)
        said, narrower = rest[-1], rest[:-1]
        form = narrower[0] if narrower else plain
        optional = narrower and NoneType in get_args(plain) and NoneType not in get_args(form)
        yield name, form | None if optional else form, said


def _required(record: type) -> list[str]:
    return [name for name, *_ in members(record)] if record is Row else list(record.__required_keys__)  # type: ignore[attr-defined]


# ---- the description in docs/rows.md ---------------------------------------------------------------------------------------


def described() -> str:
    """Tables of all fields, of the levels of evidence and of the kinds of errors, as Markdown."""
    parts = []
    for record in records(Results):
        parts.append(table("The file" if record is Results else name_of(record), record))
    parts.append("### Kinds of errors\n\n| `error.kind` | means |\n|---|---|\n"
                 + "".join(f"| `{k}` | {said} |\n" for k, said in KINDS.items())
                 + "".join(f"| `{k}-...` | {said} |\n" for k, said in FAMILIES.items()))  # fmt: skip
    return "\n".join(parts)


def name_of(record: type) -> str:
    return record.__name__.removesuffix("Fields")


def records(record: type, seen: tuple[type, ...] = ()) -> list[type]:
    """``record`` and those inside it, each once, in the order of their fields."""
    found = [record]
    for _, form, _ in members(record):
        for inner in _inside(form):
            if inner not in (*seen, *found):
                found += [r for r in records(inner, (*seen, *found)) if r not in found]
    return found


def _inside(form: Any) -> list[type]:
    return [form] if is_record(form) else [r for part in get_args(form) for r in _inside(part)]


def table(title: str, record: type, level: int = 3, elsewhere: Collection[type] = ()) -> str:
    """The keys of a type; those of ``elsewhere`` are described in docs/rows.md."""
    lines = [f"| `{name}` | {_word(form, elsewhere)} | {said} |" for name, form, said in members(record)]
    doc = (record.__doc__ or "").strip().replace("``", "`").replace("\n", " ")
    head = [f"{'#' * level} {title}", "", " ".join(doc.split()), "", "| key | type | means |", "|---|---|---|"]
    return "\n".join([*head, *lines, ""])


def _word(form: Any, elsewhere: Collection[type] = ()) -> str:
    """A type in words."""
    return " or ".join(_name(f, elsewhere) for f in (get_args(form) if get_origin(form) in (Union, UnionType) else [form]))


def _name(form: Any, elsewhere: Collection[type]) -> str:
    origin, parts = get_origin(form), get_args(form)
    if origin is Literal:
        return ", ".join(f"`{p}`" for p in parts)
    if origin is list:
        word = _word(parts[0], elsewhere)
        return f"list of ({word})" if " " in word else f"list of {word}"
    if origin is dict:
        return "object" if parts[1] is Any else f"object of {_word(parts[1], elsewhere)}"
    if is_record(form):
        page = "rows.md" if form in elsewhere else ""
        return f"[{name_of(form)}]({page}#{name_of(form).lower()})"
    return {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null", Any: "any"}[form]

