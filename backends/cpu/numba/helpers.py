"""How compiled functions let Python or other libraries do the work: numba's object mode, functions by their address, and
functions of the process by name."""

from __future__ import annotations

import re

from ..reaching import REACHING

_PYTHON = re.compile(r"\bPyObject_(?:Call|Vectorcall)\w*|\bPyEval_(?:Call|Eval)\w*|\bPyRun_\w+")
_ADDRESS = re.compile(r"\bmovabsq\s+\$numba\.dynamic\.globals\.\w+, (%r\w+)\n(?:[^\n]*\n){0,12}?\s*callq?\s+\*\(\1\)")
"""Of x86-64: numba's own functions have names, those of ctypes and cffi the address that they have in this process."""

_NAMED = re.compile(r"(?:\$|:\w+:|\b(?:callq?|jmpq?|bl?)\s+)([A-Za-z_]\w*)")
"""What assembly refers to, of x86-64 and aarch64."""
_OWN = re.compile(r"Py[A-Z]\w*|_?Py_\w+|_ZN\w*|numba_\w+|NRT_\w+|cfunc\w*")
"""What every compiled function refers to, and names that numba makes of those of the text."""


def helpers_of(assembly: str) -> tuple[str, ...]:
    """By name, as assembly of x86-64 and others shows them."""
    names = set(_PYTHON.findall(assembly))
    names |= {n for n in _NAMED.findall(assembly) if not _OWN.fullmatch(n) and REACHING.fullmatch(n)}
    return (*sorted(names), *(["a function by its address"] if _ADDRESS.search(assembly) else ()))
