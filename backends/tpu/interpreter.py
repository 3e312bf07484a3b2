"""Pallas's interpreters on the CPU, as the simulator of this backend (evidence ``interpreted``).

Two interpreters execute the source.  The fast one runs blocks as jax operations.  The strict one
(``pltpu.InterpretParams``) models the memories of a TPU: scratch starts as NaN and an access outside a buffer raises; it
is used where the grid is small.  Both run f32 dots exactly and sum bf16 products in f32, and neither models the rounding
or the order of a matrix unit.  The source holds no word of them: ``pl.pallas_call`` is replaced while it is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portakern.backend import Availability, Binary, HostBuffer, Source, Target
from portakern.errors import PortakernError, RuntimeFault

from .environment import HINT, package_version

STRICT_ELEMENTS = 65536
"""Inputs and outputs of up to this many elements in all run in the strict interpreter, which is several times slower."""


class PallasInterpreter:
    """Runs a Pallas source on the CPU."""

    evidence = "interpreted"

    def available(self, target: Target) -> Availability:
        jax = package_version("jax")
        return Availability(jax is not None, f"Pallas interpreter of jax {jax}" if jax else f"jax not installed: {HINT}")

    def method(self, target: Target) -> str:
        return (f"Pallas interpreter of jax {package_version('jax')} on the CPU; up to {STRICT_ELEMENTS} elements in its "
                "TPU mode (NaN in unwritten memory, out-of-bounds accesses raise)")

    def load(self, source: Source, binary: Binary | None) -> Interpreted:
        return Interpreted(source)


class Interpreted:
    """A source ready to be interpreted.  Arrays are copied in and out, so guard bands are out of a kernel's reach."""

    guards = False

    def __init__(self, source: Source) -> None:
        from .load import entry_function

        self.source = source
        self.function = entry_function(source)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Interpret once; outputs are written into their buffers.  Raises :class:`RuntimeFault`."""
        arrays = [_narrow(buffers[a.name].array) for a in self.source.by_role("input", "scalar")]
        outputs = self.source.by_role("output")
        total = sum(b.array.size for b in buffers.values())
        results = self._interpret(arrays, strict=total <= STRICT_ELEMENTS)
        if len(results) != len(outputs):
            raise RuntimeFault(f"{self.source.entry} returned {len(results)} arrays, the operator has {len(outputs)} outputs")
        for array, result in zip(outputs, results, strict=True):
            target = buffers[array.name].array
            if result.shape != target.shape or result.dtype != target.dtype:
                raise RuntimeFault(f"{self.source.entry} returned {array.name} as {result.dtype}{list(result.shape)}, "
                                   f"the operator says {target.dtype}{list(target.shape)}")
            target[...] = result

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Interpret on arrays of any library; outputs come back as arrays of the first input's library."""
        arrays = [_narrow(_numpy(x)) for x in inputs]
        total = sum(a.size for a in arrays)
        results = tuple(_like(inputs[0], r) for r in self._interpret(arrays, strict=total <= STRICT_ELEMENTS))
        return results[0] if len(results) == 1 else results

    def _interpret(self, arrays: Sequence[np.ndarray], strict: bool) -> tuple[np.ndarray, ...]:
        import jax
        from jax.experimental.pallas import tpu as pltpu

        from .load import interpreted

        try:
            with interpreted(strict), jax.default_device(jax.devices("cpu")[0]):
                results = jax.block_until_ready(self._jitted(strict)(*arrays))
        except PortakernError:
            raise
        except Exception as error:
            if strict:
                pltpu.reset_tpu_interpret_mode_state()
            raise RuntimeFault(f"{self.source.operator} in the Pallas interpreter: {type(error).__name__}: "
                               f"{str(error)[:1000]}") from error
        return tuple(np.asarray(r) for r in (results if isinstance(results, tuple | list) else (results,)))

    @functools.cached_property
    def _compiled(self) -> dict[bool, Any]:
        return {}

    def _jitted(self, strict: bool) -> Any:
        """The entry under ``jax.jit``; one for each interpreter, since the choice is made as it is traced."""
        import jax

        if strict not in self._compiled:
            self._compiled[strict] = jax.jit(lambda *args: self.function(*args))
        return self._compiled[strict]


def _narrow(x: np.ndarray) -> np.ndarray:
    """64-bit integers saturated to 32 bits, as the entry takes them: jax without x64 would keep their low bits only."""
    return np.clip(x, -(2**31), 2**31 - 1).astype(np.int32) if x.dtype == np.int64 else x


def _numpy(x: Any) -> np.ndarray:
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "detach") and "bfloat16" in str(x.dtype):  # numpy has no DLPack bfloat16
        import ml_dtypes
        import torch

        return x.detach().cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return np.asarray(x)


def _like(example: Any, result: np.ndarray) -> Any:
    """``result`` as an array of the library that ``example`` belongs to."""
    import importlib

    library = type(example).__module__.split(".")[0]
    if library in ("numpy", "ml_dtypes"):
        return result
    if library.startswith("jax"):
        import jax.numpy as jnp

        return jnp.asarray(result)
    if library == "torch" and result.dtype.name == "bfloat16":
        import torch

        return torch.from_numpy(result.view(np.int16).copy()).view(torch.bfloat16)
    return importlib.import_module(library).from_dlpack(np.ascontiguousarray(result))
