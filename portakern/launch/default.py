"""``prepare`` and ``specialise`` of any executable, those of backends that offer neither included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from portakern.backend import Executable, NamesArrays, OnDevice, Prepared, PreparesCalls, Runtime, SpecialisesCalls, Target
from portakern.errors import UsageError
from portakern.launch.prepared import PythonPrepared

if TYPE_CHECKING:
    from portakern import native


def prepare(executable: Executable, inputs: Sequence[Any], sizes: Mapping[str, int],
            outputs: Sequence[Any] | None = None) -> Prepared:  # fmt: skip
    """One call on ``inputs`` (scalars after the arrays), checked and packed.

    Where the backend has no ``prepare`` this is a call of ``executable.call``: made once now, which gives the
    ``outputs``, and again whenever the prepared call is called, whose results are copied into them.

    Raises:
        UsageError, RuntimeFault: as ``call`` does, and for ``outputs`` that are not what the operator writes.
    """
    if isinstance(executable, PreparesCalls):
        return executable.prepare(inputs, sizes, outputs)
    first = _several(executable.call(inputs, sizes))
    written = first if outputs is None else tuple(outputs)
    _check_written(written, first)

    def call(stream: int) -> None:
        if stream:
            raise UsageError("this backend's calls take no stream", hint="leave the stream out")
        for to, result in zip(written, _several(executable.call(inputs, sizes)), strict=True):
            to[...] = result

    return PythonPrepared(call, written)


def specialise(executable: Executable, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
    """``call`` for arrays that are like ``inputs`` in library, device, dtype, shape, strides and alignment."""
    if isinstance(executable, SpecialisesCalls):
        return executable.specialise(inputs, sizes)
    return lambda again: executable.call(again, sizes)


def device_of(runtime: Runtime, target: Target) -> native.Device | None:
    """Where a runtime's work runs; ``None`` where calls return when their work is done.  Raises as ``device`` does."""
    return runtime.device(target) if isinstance(runtime, OnDevice) else None


def arrays_of(runtime: Runtime) -> str:
    """What libraries of arrays call a runtime's devices; '' where it does not say."""
    return runtime.arrays if isinstance(runtime, NamesArrays) else ""


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _check_written(written: Sequence[Any], results: Sequence[Any]) -> None:
    if len(written) != len(results):
        raise UsageError(f"the operator has {len(results)} outputs, and {len(written)} arrays are given to hold them")
    for number, (have, want) in enumerate(zip(written, results, strict=True)):
        if tuple(have.shape) != tuple(want.shape) or have.dtype != want.dtype:
            raise UsageError(f"output {number} is {want.dtype}{list(want.shape)}, and the array given for it is "
                             f"{have.dtype}{list(have.shape)}")
