"""Compares (native/lanes/vector_compare.cpp).

``v_cmpx`` writes EXEC: besides its destination on gfx9, where the text has one, and alone from gfx10 on.
"""

from __future__ import annotations

from .form import Form, form

_INTEGER = "f lt eq le gt ne ge t"
_FLOAT = "f lt eq le gt lg ge o u nge nlg ngt nle neq nlt t tru"
_TYPES = {"b32": "i32 u32", "b16": "i16 u16", "b64": "i64 u64"}


def _forms() -> dict[str, Form]:
    found: dict[str, Form] = {}

    def add(relation: str, kind: str, sources: str) -> None:
        modifiers = "sdwa dpp clamp op_sel"
        found[f"v_cmp_{relation}_{kind}"] = form(f"dm {sources}", modifiers=modifiers)
        found[f"v_cmpx_{relation}_{kind}"] = form(f"dm? x {sources}", modifiers=modifiers)

    for kind in ("f16", "f32", "f64"):
        for relation in _FLOAT.split():
            add(relation, kind, f"s:{kind} s:{kind}")
        add("class", kind, f"s:{kind} s")
    for type_, kinds in _TYPES.items():
        for kind in kinds.split():
            for relation in _INTEGER.split():
                add(relation, kind, f"s:{type_} s:{type_}")
    return found


FORMS = _forms()
