"""What a compiler of Python functions is given beside arguments: a function's code, and the constants that it finds in its
module and around it, as a digest that is the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

PLAIN = (bool, int, str, bytes, type(None))
_AROUND = ("_dispatcher", "py_func", "fn")
"""Where compilers keep the function that they were given."""


def function_of(kernel: Any) -> Any:
    """The Python function in a kernel of numba or Triton; what is none itself."""
    for _ in range(2 * len(_AROUND)):
        inner = next((x for name in _AROUND if (x := getattr(kernel, name, None)) is not None), None)
        if isinstance(kernel, FunctionType) or inner is None:
            break
        kernel = inner
    return kernel


def frozen(kernel: Any, own: Sequence[str] = ()) -> str:
    """The digest; functions of modules whose names begin with one of ``own``, the compiler's, are taken as they are."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _constants(function_of(kernel), tuple(own), set()):
        digest.update(part)
    return digest.hexdigest()


def _constants(function: Any, own: tuple[str, ...], seen: set[int]) -> Iterator[bytes]:
    if not isinstance(function, FunctionType) or id(function) in seen or str(function.__module__).startswith(own or "\0"):
        return
    seen.add(id(function))
    yield from _of_code(function.__code__)
    names = [n for c in _codes(function.__code__) for n in c.co_names]
    for value in [*(function.__globals__.get(n) for n in names), *_cells(function), *(function.__defaults__ or ())]:
        yield from _constant(value, own, seen)


def _constant(value: Any, own: tuple[str, ...], seen: set[int]) -> Iterator[bytes]:
    if isinstance(value, ModuleType | type) or value is None:
        return
    if isinstance(value, np.ndarray | np.generic):
        yield np.asarray(value).tobytes()
    elif isinstance(value, list | tuple):
        for x in value:
            yield from _constant(x, own, seen)
    elif isinstance(value, (*PLAIN, float, complex)):
        yield repr(value).encode()
    elif type(value).__name__ == "constexpr":
        yield from _constant(value.value, own, seen)
    else:
        yield from _constants(function_of(value), own, seen)


def _cells(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _codes(x)


def _of_code(code: CodeType) -> Iterator[bytes]:
    for c in _codes(code):
        yield c.co_code
        yield repr([x for x in c.co_consts if not isinstance(x, CodeType)]).encode()
