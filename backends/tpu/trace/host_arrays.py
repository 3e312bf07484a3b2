"""Arrays of any library as numpy's, and back; what kernels gave, into the buffers of a check."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portakern.backend import HostBuffer, Source
from portakern.errors import RuntimeFault
from portakern.ir.program import Array

from ..planning.words import WORDS


def narrowed(x: np.ndarray) -> np.ndarray:
    """64-bit integers saturated to 32 bits, as the entry takes them: jax without x64 would keep their low bits only."""
    return np.clip(x, -(2**31), 2**31 - 1).astype(np.int32) if x.dtype == np.int64 else x


def entering(source: Source, arrays: Sequence[Any]) -> list[Any]:
    """Inputs and scalars as the entry takes them: what it takes the words of as uint32[2, ...], other integers in 32 bits;
    those that are no arrays of numpy as they are."""
    whole = dict(source.options).get(WORDS, ())
    given = source.by_role("input", "scalar")
    return [x if not isinstance(x, np.ndarray) else _words(x) if a.name in whole else narrowed(x)
            for a, x in zip(given, arrays, strict=True)]


def _words(x: np.ndarray) -> np.ndarray:
    """The lower and the upper halves of integers."""
    return np.moveaxis(np.array(x, np.int64)[..., None].view(np.uint32), -1, 0)


def widened(array: Array, result: np.ndarray) -> np.ndarray:
    """A result that ``array`` is of int64, and jax of int32 or of two words, since it has no more bits without x64."""
    if array.dtype == "i64" and result.dtype == np.uint32:
        return result[1].view(np.int32).astype(np.int64) << 32 | result[0].astype(np.int64)
    return result.astype(np.int64) if array.dtype == "i64" and result.dtype == np.int32 else result


def as_numpy(x: Any) -> np.ndarray:
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "detach") and "bfloat16" in str(x.dtype):  # numpy has no DLPack bfloat16
        import ml_dtypes
        import torch

        return x.detach().cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if hasattr(x, "detach"):
        return x.detach().cpu().numpy()
    return np.asarray(x) if hasattr(x, "__array__") or not hasattr(x, "__dlpack__") else np.from_dlpack(x)


def like(example: Any, result: np.ndarray) -> Any:
    """``result`` as an array of the library that ``example`` belongs to."""
    library = type(example).__module__.split(".")[0]
    if library in ("numpy", "ml_dtypes", "builtins"):
        return result
    if library.startswith("jax"):
        import jax.numpy as jnp

        return jnp.asarray(result)
    if library == "torch" and result.dtype.name == "bfloat16":
        import torch

        return torch.from_numpy(result.view(np.int16).copy()).view(torch.bfloat16)
    return importlib.import_module(library).from_dlpack(np.ascontiguousarray(result))


def store(source: Source, results: Sequence[np.ndarray], buffers: Mapping[str, HostBuffer]) -> None:
    """Raises :class:`RuntimeFault` where the results are not the operator's outputs."""
    outputs = source.by_role("output")
    if len(results) != len(outputs):
        raise RuntimeFault(f"{source.entry} returned {len(results)} arrays, the operator has {len(outputs)} outputs")
    for array, result in zip(outputs, results, strict=True):
        target = buffers[array.name].array
        result = widened(array, result)
        if result.shape != target.shape or result.dtype != target.dtype:
            raise RuntimeFault(f"{source.entry} returned {array.name} as {result.dtype}{list(result.shape)}, "
                               f"the operator says {target.dtype}{list(target.shape)}")  # fmt: skip
        target[...] = result
