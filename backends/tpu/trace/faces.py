"""Whether what is interpreted is what was compiled: a text may see which of both happens to it, and give each another kernel.

A traced function has a digest of its equations and kernels, which the compiler's log says, and the interpreter compares.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from portakern.errors import PortakernError

from .kernel_calls import jaxprs_of

_LINE = re.compile(r"^traced ([0-9a-f]{32})$", re.MULTILINE)
_PLAIN = (bool, int, float, str, type(None), np.dtype, np.generic)


def digest_of(jaxpr: Any) -> str:
    """Of what a traced function does: equations, shapes, constants, kernels with their grids and blocks."""
    return _digest(list(_lines(jaxpr)))


def _digest(lines: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


def log_of(digest: str) -> str:
    return f"traced {digest}"


def must_be(jaxpr: Any, log: str) -> None:
    """Raises :class:`PortakernError` of the kind ``decoy`` where a log of the compiler says of another one, or it asks where it
    runs.  A log of a compilation at other sizes says nothing."""
    lines, found = list(_lines(jaxpr)), _LINE.search(log)
    asks = any(line.startswith("platform_index ") for line in lines)
    if asks or (found is not None and found[1] != _digest(lines)):
        raise PortakernError("decoy", "what is interpreted is another function than what was compiled",
                             hint="nothing in the text may hang on where it is traced or run")  # fmt: skip


def _lines(jaxpr: Any) -> Iterator[str]:
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    for constant in getattr(jaxpr, "consts", ()):
        yield f"constant {_constant(constant)}"
    for equation in inner.eqns:
        yield from _equation(equation)
    yield f"gives {' '.join(map(_atom, inner.outvars))}"


def _equation(equation: Any) -> Iterator[str]:
    name = equation.primitive.name
    plain = [] if name == "pallas_call" else [f"{k}={v!r}" for k, v in sorted(equation.params.items()) if _is_plain(v)]
    yield " ".join([name, *plain, *map(_atom, equation.invars), "->", *map(_atom, equation.outvars)])
    if name == "pallas_call":
        mapping = equation.params["grid_mapping"]
        yield f"grid {mapping.grid!r}"
        for block in mapping.block_mappings:
            yield f"block {block.block_shape!r}"
            yield from _lines(block.index_map_jaxpr)
    for inside in jaxprs_of(equation):
        yield from _lines(inside)


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _atom(atom: Any) -> str:
    if hasattr(atom, "val"):
        return _constant(atom.val)
    return f"{getattr(atom.aval, 'dtype', '')}{list(getattr(atom.aval, 'shape', ()))}"


def _constant(value: Any) -> str:
    try:
        array = np.asarray(value)
    except Exception:  # of a kind that numpy does not know
        return str(type(value))
    return f"{array.dtype}{list(array.shape)}:{hashlib.blake2b(array.tobytes(), digest_size=8).hexdigest()}"
