"""How compiled functions let Python or other libraries do the work: numba's object mode, and functions by their address."""

from __future__ import annotations

import re

_PYTHON = re.compile(r"\bPyObject_(?:Call|Vectorcall)\w*|\bPyEval_(?:Call|Eval)\w*|\bPyRun_\w+")
_ADDRESS = re.compile(r"\bmovabsq\s+\$numba\.dynamic\.globals\.\w+, (%r\w+)\n(?:[^\n]*\n){0,12}?\s*callq?\s+\*\(\1\)")
"""Of x86-64: numba's own functions have names, those of ctypes and cffi the address that they have in this process."""


def helpers_of(assembly: str) -> tuple[str, ...]:
    """By name, as assembly of x86-64 and others shows them."""
    names = sorted(set(_PYTHON.findall(assembly)))
    return (*names, *(["a function by its address"] if _ADDRESS.search(assembly) else ()))
