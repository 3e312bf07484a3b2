"""Host arrays for the runtimes of this backend: shapes, scalars, and arrays that speak DLPack as numpy views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from portakern.backend import Source
from portakern.errors import RuntimeFault
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

if TYPE_CHECKING:
    import numpy as np

_NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip
_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}

_SCALAR = {"f16": "f32", "bf16": "f32", "bool": "i32", "i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32"}
"""What a run-time scalar of a narrow dtype is widened to as a kernel's parameter."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    if name in _ML_DTYPES:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))
    return np.dtype(_NUMPY[name])


def shape_of(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    t = array.type
    return tuple(evaluate(s, sizes) for s in t.shape) if isinstance(t, BufferType) else ()


def element_span(array: Array, sizes: Mapping[str, int]) -> int:
    """Elements from the first to the last one of an array, strides counted."""
    t = array.type
    if not isinstance(t, BufferType):
        return 1
    shape = shape_of(array, sizes)
    if 0 in shape:
        return 0
    strides = [evaluate(s, sizes) for s in t.element_strides]
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def scalar_argument(value: Any, dtype: str) -> np.generic:
    """A run-time scalar as the kernel's parameter has it."""
    return numpy_dtype(_SCALAR.get(dtype, dtype)).type(value)


def as_numpy(x: Any, array: Array) -> np.ndarray:
    """A numpy view of ``x`` (numpy, torch on the CPU, jax on the CPU, or anything with DLPack), without a copy.

    Raises :class:`RuntimeFault` for a wrong dtype or an array that is not in this machine's memory.
    """
    import numpy as np

    expected = numpy_dtype(array.dtype)
    try:
        if isinstance(x, np.ndarray | np.generic):
            view = np.asarray(x)
        elif type(x).__module__.split(".")[0] == "torch":
            view = _from_torch(x.detach(), expected)
        elif hasattr(x, "__dlpack__"):
            view = np.asarray(x) if array.dtype in _ML_DTYPES else np.from_dlpack(x)
        else:
            view = np.asarray(x, dtype=expected)
    except (TypeError, RuntimeError, BufferError, ValueError) as error:
        raise RuntimeFault(f"{array.name} cannot be read without a copy: {error}",
                           hint="pass a numpy array or another array in this machine's memory") from error
    if view.dtype != expected:
        raise RuntimeFault(f"{array.name} is {view.dtype}, the kernel was built for {array.dtype}",
                           hint=f"cast it to {expected}, or build for its dtype")
    return view


def _from_torch(x: Any, expected: np.dtype[Any]) -> np.ndarray:
    import torch

    if x.device.type != "cpu":
        raise RuntimeError(f"it lives on {x.device}")
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(expected)
    return x.numpy()


def check_layout(view: np.ndarray, array: Array, sizes: Mapping[str, int]) -> None:
    """Raises :class:`RuntimeFault` unless shape and strides are those the kernel was built for."""
    t = array.type
    if not isinstance(t, BufferType):
        return
    shape = shape_of(array, sizes)
    if view.shape != shape:
        raise RuntimeFault(f"{array.name} has shape {view.shape}, the kernel expects {shape}")
    strides = tuple(evaluate(s, sizes) * view.itemsize for s in t.element_strides)
    different = any(n > 1 and a != b for n, a, b in zip(shape, view.strides, strides, strict=True))
    if different and view.size:
        raise RuntimeFault(f"{array.name} has strides {view.strides} bytes, the kernel was built for {strides}",
                           hint="make it contiguous, or build for its strides")


def new_like(like: Any, shape: Sequence[int], dtype: str) -> tuple[Any, np.ndarray]:
    """A new array of the kind of ``like`` (torch, else numpy) and the numpy view of it."""
    import numpy as np

    if like is not None and type(like).__module__.split(".")[0] == "torch":
        import torch

        names = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool", "i64": "int64",
                 "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8"}
        made = torch.empty(tuple(shape), dtype=getattr(torch, names[dtype]))
        return made, _from_torch(made, numpy_dtype(dtype))
    fresh = np.empty(tuple(shape), numpy_dtype(dtype))
    return fresh, fresh


def same_kind(like: Any, made: Any) -> Any:
    """``made`` handed back as the kind of array that ``like`` is; jax arrays take over the memory by DLPack."""
    if type(like).__module__.split(".")[0] in ("jax", "jaxlib"):
        import jax

        return jax.numpy.asarray(made)
    return made


def inputs_by_name(source: Source, inputs: Sequence[Any]) -> dict[str, Any]:
    wanted = source.by_role("input", "scalar")
    if len(inputs) != len(wanted):
        names = ", ".join(a.name for a in wanted)
        raise RuntimeFault(f"{source.operator} takes {len(wanted)} arrays ({names}), not {len(inputs)}")
    return {a.name: x for a, x in zip(wanted, inputs, strict=True)}
