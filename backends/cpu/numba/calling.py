"""Calls of compiled functions from Python: seen where they happen, and told apart by all but what arrays hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from portakern.errors import PortakernError
from portakern.tools.frozen import PLAIN, frozen, function_of

HINT = "the host function may allocate, copy and cast; what hangs on what arrays hold is for kernels to read, in arrays"


def kinds() -> tuple[type, ...]:
    """What compiles and is called from Python: functions, and those of single elements or cores of arrays."""
    from numba.core.dispatcher import Dispatcher
    from numba.np.ufunc.dufunc import DUFunc
    from numba.np.ufunc.gufunc import GUFunc

    return Dispatcher, DUFunc, GUFunc


@contextmanager
def calls_through(launch: Callable[..., Any]) -> Iterator[None]:
    """Calls of compiled functions from Python are ``launch(original, function, arguments, named)``."""
    found = kinds()
    originals = {kind: vars(kind).get("__call__") for kind in found}
    for kind in found:
        kind.__call__ = _through(launch, kind.__call__)  # type: ignore[operator]
    try:
        yield
    finally:
        for kind, own in originals.items():
            if own is None:
                del kind.__call__
            else:
                kind.__call__ = own  # type: ignore[operator]


def _through(launch: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if str(getattr(function_of(self), "__module__", "")).startswith("numba."):  # what containers are made of
            return original(self, *arguments, **named)
        return launch(original, self, arguments, named)

    return call


# ---- how a kernel is called --------------------------------------------------------------------------------------------------


def told_of(x: Any, place: Callable[[np.ndarray], tuple[int, int]]) -> Any:
    """What an argument tells a kernel beside what arrays hold and what numbers with a fraction are, which are looked at
    elsewhere.

    Raises :class:`PortakernError` of the kind ``decoy`` for what cannot be looked at.
    """
    if isinstance(x, np.ndarray):
        return (*place(x), x.shape, x.strides, str(x.dtype))
    if isinstance(x, float | complex | np.inexact):
        return "number"
    if isinstance(x, (*PLAIN, type, np.dtype)):
        return x
    if isinstance(x, np.generic):
        return x.tobytes()
    if (held := held_in(x)) is not None:
        return tuple(told_of(y, place) for y in held)
    if isinstance(x, kinds()):
        return frozen(x)
    raise PortakernError("decoy", f"a kernel is given a {type(x).__name__}, of which it cannot be seen what it holds",
                         hint=HINT)  # fmt: skip


def held_in(x: Any) -> list[Any] | None:
    """What a container of Python or numba holds; ``None`` for what is none."""
    if isinstance(x, list | tuple):
        return list(x)
    if not type(x).__module__.startswith("numba.typed"):
        return None
    return [y for pair in x.items() for y in pair] if type(x).__name__ == "Dict" else list(x)
