"""What a process with a stand-in for a TPU does in place of asking jax for a chip."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xspace

KIND = os.environ.get("STANDIN_TPU", "TPU v5 lite")
PLANE = os.environ.get("STANDIN_PLANE", "/device:TPU:0")
"""What the plane of the device is called; nothing: traces have none."""

LOST = int(os.environ.get("STANDIN_LOST", "0"))
"""One run of so many is missing in traces."""

_runs: list[tuple[str, float, float]] = []


class Chip:
    """jax's CPU device under the name of a TPU."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self.device_kind = KIND

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


def install() -> None:
    from portakern.backends.tpu.run import chips, clock, staging
    from portakern.timing import peers

    chips.jax_devices = _chips
    staging.staged = _staged
    staging.as_data, staging.of_data = _as_data, _of_data
    chips.put = _put
    clock.unfit = lambda: ""  # no libtpu is asked to trace here
    peers._xla = _seen_peer(peers._xla)


def _chips() -> list[Any]:
    import jax

    if os.environ.get("STANDIN_BUSY"):
        raise RuntimeError("The TPU is already in use by process with pid 4711.")
    start, stop = jax.profiler.start_trace, jax.profiler.stop_trace
    if not hasattr(start, "standin"):
        folder: list[str] = []

        def started(where: str, **options: Any) -> None:
            folder[:] = [where]
            _runs.clear()
            start(where, **options)

        def stopped() -> None:
            stop()
            _add_plane(Path(folder[0]))

        started.standin = True  # type: ignore[attr-defined]
        jax.profiler.start_trace, jax.profiler.stop_trace = started, stopped
    return [Chip(d) for d in jax.devices("cpu")]


def _add_plane(folder: Path) -> None:
    """The plane of the device is added to the trace that jax wrote."""
    (path,) = folder.rglob("*.xplane.pb")
    runs = [r for n, r in enumerate(_runs, 1) if not LOST or n % LOST]
    if PLANE:
        path.write_bytes(path.read_bytes() + xspace.device_plane(PLANE, runs))


def _noted(program: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Calls of a program, noted as a trace of a TPU shows them."""
    import jax

    def call(*arrays: Any) -> Any:
        begun = time.perf_counter_ns()
        found = jax.block_until_ready(program(*arrays))
        _runs.append((f"jit_{name}(1234567890)", begun, time.perf_counter_ns() - begun))
        return found

    return call


def _staged(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """As the backend stages it, in Pallas's interpreter."""
    import jax

    from portakern.backends.tpu.trace.kernel_calls import trace

    programs: dict[Any, Any] = {}

    def call(*arrays: Any) -> Any:
        key = tuple((x.shape, x.dtype) for x in arrays)
        if key not in programs:
            from jax.extend.core import jaxpr_as_fun

            programs[key] = jax.jit(jaxpr_as_fun(trace(function, arrays, True)))
        return programs[key](*arrays)

    return _noted(call, name)


def _as_data(function: Callable[..., Any], arguments: Any, isa: str) -> bytes:
    import jax
    from jax import export
    from jax.extend.core import jaxpr_as_fun

    from portakern.backends.tpu.trace.kernel_calls import trace

    program = jaxpr_as_fun(trace(function, arguments, True))
    return bytes(export.export(jax.jit(program), platforms=["cpu"])(*arguments).serialize())


def _of_data(data: bytes, name: str) -> Callable[..., Any]:
    import jax
    from jax import export

    return _noted(jax.jit(export.deserialize(bytearray(data)).call), name)


def _seen_peer(xla: Callable[[Any], Any]) -> Callable[[Any], Any]:
    from dataclasses import replace

    def peer(subject: Any) -> Any:
        found = xla(subject)
        return replace(found, call=_noted(found.call, "xla"))

    return peer


def _put(x: Any, device: Chip) -> Any:
    import jax

    return jax.device_put(x, device._device)
