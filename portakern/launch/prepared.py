"""Prepared calls: one through the native core, one through Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portakern.native import Call


class NativePrepared:
    """A prepared call of the native core, which owns the packed arguments.

    Args:
        call: what is launched; it keeps alive what it reads and writes.
        outputs: the arrays that it writes.
        stream: native handle of the stream to queue on where a call names none.
    """

    __slots__ = ("call", "outputs", "stream")

    def __init__(self, call: Call, outputs: Sequence[Any], stream: int = 0) -> None:
        self.call = call
        self.outputs = tuple(outputs)
        self.stream = stream

    def __call__(self, stream: int | None = None) -> None:
        self.call(self.stream if stream is None else stream)


class PythonPrepared:
    """A prepared call that is a Python function of a stream's native handle.

    ``reason`` says why the native core does not launch it, where it might have; a caller that reports times shows it.
    """

    __slots__ = ("call", "function", "outputs", "reason", "stream")

    def __init__(self, function: Callable[[int], None], outputs: Sequence[Any], stream: int = 0, reason: str = "") -> None:
        self.call = None
        self.reason = reason
        self.function = function
        self.outputs = tuple(outputs)
        self.stream = stream

    def __call__(self, stream: int | None = None) -> None:
        self.function(self.stream if stream is None else stream)
