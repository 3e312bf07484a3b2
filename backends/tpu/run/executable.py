"""A Pallas program on a TPU: traced and compiled by jax for the chip at hand, once for each combination of shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portakern.backend import HostBuffer, Source
from portakern.errors import PortakernError, RuntimeFault, UsageError
from portakern.launch.prepared import PythonPrepared

from ..trace.environment import package_version
from ..trace.host_arrays import as_numpy, entering, like, store, widened
from . import chips, staging

UNPROVED = "a path that was tested against a stand-in and has met no TPU yet"
"""What rows and docs say of all that is in this folder."""


class TpuExecutable:
    """A source ready to run on ``device``, one of jax's.  Arrays are copied to the chip and back where they lie elsewhere, so
    guard bands are out of a kernel's reach."""

    guards = False

    def __init__(self, source: Source, device: Any, traced: bytes = b"") -> None:
        """``traced`` is the program at fixed shapes where the text itself must not run in this process."""
        from ..trace.source_module import entry_function

        self.source, self.device = source, device
        if traced:
            self.function = staging.of_data(traced, source.operator)
        else:
            self.entry = entry_function(source)
            self.function = staging.staged(self.entry, source.operator)

    @property
    def method(self) -> str:
        return f"through jax {package_version('jax')}, {UNPROVED}"

    # ---- a check

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Once on host data.  Raises :class:`RuntimeFault`."""
        store(self.source, self._on_host(self.function, buffers), buffers)

    def watch(self) -> None:
        """There is nothing to note: what a traced function does hangs on nothing but shapes."""

    def run_part(self, part: str, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> str:
        from ..interpret.alone import Part

        only = Part(self.entry, part)
        store(self.source, self._on_host(staging.staged(only, self.source.operator), buffers), buffers)
        return only.words

    def _on_host(self, function: Any, buffers: Mapping[str, HostBuffer]) -> list[np.ndarray]:
        arrays = self._there([buffers[a.name].array for a in self.source.by_role("input", "scalar")])
        return [np.asarray(x) for x in self._called(function, arrays)]

    # ---- calls

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """On arrays of any library.  Of jax's arrays the results are jax's, on the chip, and may still be under way; of others
        they are the library's, in the host's memory."""
        results = self._called(self.function, self._there(inputs))
        if not _of_jax(inputs):
            arrays = zip(self.source.by_role("output"), results, strict=True)
            results = tuple(like(_example(inputs), widened(a, np.array(x))) for a, x in arrays)
        return results[0] if len(results) == 1 else results

    def prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int], outputs: Sequence[Any] | None = None) -> Any:
        """jax's arrays are never written: a prepared call of them gives new ``outputs`` each time."""
        if _of_jax(inputs):
            if outputs is not None:
                raise UsageError("arrays of jax cannot be written", hint="leave out=, and read the prepared call's outputs")
            return TpuPrepared(self, self._there(inputs))
        first = _several(self.call(inputs, sizes))
        written = first if outputs is None else tuple(outputs)

        def again(stream: int) -> None:
            if stream:
                raise UsageError("a TPU's calls take no stream", hint="leave the stream out")
            for to, result in zip(written, _several(self.call(inputs, sizes)), strict=True):
                to[...] = result

        return PythonPrepared(again, written, reason="calls go through jax")

    # ---- arrays

    def _there(self, inputs: Sequence[Any]) -> list[Any]:
        import jax

        arrays = [x if isinstance(x, jax.Array) else np.asarray(as_numpy(x)) for x in inputs]
        return [chips.put(x, self.device) for x in entering(self.source, arrays)]

    def _called(self, function: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        try:
            return _several(function(*arrays))
        except PortakernError:
            raise
        except Exception as error:  # jax, Mosaic and libtpu have classes of their own
            raise RuntimeFault(f"{self.source.operator} on {self.device.device_kind}: {type(error).__name__}: "
                               f"{str(error)[:1000]}") from error  # fmt: skip


class TpuPrepared:
    """A call on arrays of jax.  ``outputs`` are those of the last call, new arrays each time."""

    call = None
    stream = 0
    reason = "calls go through jax"

    def __init__(self, executable: TpuExecutable, arrays: Sequence[Any]) -> None:
        self._executable, self._arrays = executable, tuple(arrays)
        self.outputs = executable._called(executable.function, self._arrays)

    def __call__(self, stream: int | None = None) -> Any:
        if stream:
            raise UsageError("a TPU's calls take no stream", hint="leave the stream out")
        self.outputs = self._executable._called(self._executable.function, self._arrays)
        return self.outputs


def _several(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def _arrays(inputs: Sequence[Any]) -> list[Any]:
    return [x for x in inputs if getattr(x, "ndim", 0) > 0]


def _example(inputs: Sequence[Any]) -> Any:
    return next(iter(_arrays(inputs)), np.zeros(1))


def _of_jax(inputs: Sequence[Any]) -> bool:
    import jax

    return bool(found := _arrays(inputs)) and all(isinstance(x, jax.Array) for x in found)
