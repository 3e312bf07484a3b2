"""Streams of other libraries by their native handles."""

from __future__ import annotations

from typing import Any

from portakern.errors import UsageError


def stream_handle(stream: Any) -> int:
    """The native handle of a stream: an integer as it is, or what an object says of itself.

    Objects are those of the protocol ``__cuda_stream__`` (torch, cupy and cuda-core have it), and those with the handle in
    ``cuda_stream``, ``ptr`` or ``handle``.  Raises :class:`UsageError` for anything else.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    told = getattr(stream, "__cuda_stream__", None)
    if told is not None:
        return int(told()[1])
    for name in ("cuda_stream", "ptr", "handle"):
        if isinstance(handle := getattr(stream, name, None), int):
            return handle
    raise UsageError(f"a {type(stream).__name__} is no stream", hint="pass a stream object or its native handle, an integer")
