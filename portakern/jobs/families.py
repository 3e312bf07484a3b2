"""Input families as JSON, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from portakern.dtypes import DTYPES, numpy_dtype
from portakern.errors import UsageError
from portakern.ir.size import parse_size
from portakern.spec.inputs import Family, Held, Indices, Integers, Labels, Normal, Offsets, Uniform

KINDS: dict[str, Any] = {k.__name__: k for k in (Normal, Uniform, Integers, Labels, Offsets, Indices)}


def written(families: Mapping[str, Family]) -> dict[str, Any]:
    """Raises :class:`UsageError` for a family that is none of portakern's own."""
    return {name: _written(name, family) for name, family in families.items()}


def _written(name: str, family: Family) -> dict[str, Any]:
    if isinstance(family, Held):
        values = family.values
        dtype = next(n for n in DTYPES if numpy_dtype(n) == values.dtype)
        return {"kind": "Held", "dtype": dtype, "shape": list(values.shape),
                "base64": base64.b64encode(values.tobytes()).decode()}  # fmt: skip
    kind = type(family).__name__
    if KINDS.get(kind) is not type(family):
        raise UsageError(f"the input family {kind} of {name} is a class of its own", hint=f"use one of {', '.join(KINDS)}")
    plain = {f.name: getattr(family, f.name) for f in fields(family)}  # type: ignore[arg-type]
    return {"kind": kind, **{k: v if isinstance(v, int | float | str) else str(v) for k, v in plain.items()}}


def read(said: Mapping[str, Any]) -> dict[str, Family]:
    """What :func:`written` gave, from somebody who is not trusted: raises :class:`ValueError`, :class:`KeyError` or
    :class:`TypeError` for what is none."""
    return {name: _read(dict(one)) for name, one in said.items()}


def _read(one: dict[str, Any]) -> Family:
    import numpy as np

    kind = one.pop("kind")
    if kind == "Held":
        shape = tuple(int(n) for n in one["shape"])
        if one["dtype"] not in DTYPES:
            raise ValueError(f"unknown dtype {one['dtype']!r}")
        return Held(np.frombuffer(base64.b64decode(one["base64"]), numpy_dtype(one["dtype"])).reshape(shape))
    cls = KINDS[kind]
    if not all(type(v) in (int, float, str, bool) for v in one.values()):
        raise ValueError(f"a family {kind} of {one}")
    for name in ("high", "end", "size"):  # texts are expressions of dims
        if isinstance(one.get(name), str):
            size = parse_size(one[name])
            one[name] = one[name] if kind in ("Integers", "Labels") else size
    return cls(**one)
