"""Streams of other libraries: their native handles, whether they record, and waiting for all of a device."""

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


def is_recording(x: Any) -> bool:
    """Whether what is queued now where ``x`` lies is recorded, to be repeated later, in place of being run."""
    asked = getattr(_module_of(x), "is_current_stream_capturing", None)
    return bool(asked is not None and asked())


def wait_for_all(x: Any) -> None:
    """Waits for whatever is queued where ``x`` lies, on every stream."""
    if (module := _module_of(x)) is not None:
        module.synchronize(x.device)
    elif type(x).__module__.partition(".")[0] == "cupy":
        x.device.synchronize()


def _module_of(x: Any) -> Any:
    """Torch's module for the kind of device that the tensor ``x`` lies on; ``None`` on the host and for other arrays."""
    if type(x).__module__.partition(".")[0] != "torch" or x.device.type == "cpu":
        return None
    import torch

    return getattr(torch, x.device.type, None)
