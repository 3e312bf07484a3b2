"""Host arrays of any library in and out, without a copy: numpy, torch, jax on the CPU, whatever speaks DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portakern.errors import RuntimeFault

if TYPE_CHECKING:
    import numpy as np

_NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of ``dtype``; bf16 and the 8-bit floats come from ml_dtypes."""
    import numpy as np

    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    import ml_dtypes

    return np.dtype({"bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}[dtype])


def adopt_array(x: Any, name: str, dtype: str) -> np.ndarray:
    """``x`` as a numpy array over the same memory.  Raises :class:`RuntimeFault` for another dtype or device."""
    import numpy as np

    wanted = numpy_dtype(dtype)
    if not isinstance(x, np.ndarray):
        x = _from_dlpack(x, name, wanted)
    if x.dtype != wanted:
        raise RuntimeFault(f"the array {name} is of {x.dtype}, this build takes {wanted}",
                           hint="convert it, or build for its dtype", kind="bad-argument")
    return x


def _from_dlpack(x: Any, name: str, wanted: np.dtype[Any]) -> np.ndarray:
    import numpy as np

    bits = {1: np.uint8, 2: np.uint16}.get(wanted.itemsize)
    if type(x).__module__.split(".")[0] == "torch" and bits is not None and wanted.kind not in "fiub":
        import torch  # numpy knows no bf16, so its bits are handed over

        expected = {"bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}
        if x.dtype == expected[wanted.name]:
            return x.detach().view(torch.uint16 if wanted.itemsize == 2 else torch.uint8).numpy().view(wanted)
    try:
        return np.from_dlpack(x.detach() if hasattr(x, "detach") else x)
    except (AttributeError, TypeError, BufferError, RuntimeError) as error:
        try:
            return np.asarray(x) if hasattr(x, "__array__") else _refuse(name, error)
        except (TypeError, RuntimeError):
            return _refuse(name, error)


def _refuse(name: str, error: Exception) -> Any:
    raise RuntimeFault(f"the array {name} cannot be read in place on the CPU: {error}",
                       hint="pass an array in host memory that speaks DLPack", kind="bad-argument") from None


def empty_like_kind(model: Any, shape: tuple[int, ...], dtype: str) -> tuple[Any, int]:
    """A new array of the library that ``model`` comes from (numpy's if that is not known) and its address."""
    import numpy as np

    if type(model).__module__.split(".")[0] == "torch":
        import torch

        names = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
                 "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool", "f8e4m3": "float8_e4m3fn",
                 "f8e5m2": "float8_e5m2"}  # fmt: skip
        tensor = torch.empty(shape, dtype=getattr(torch, names[dtype]))
        return tensor, tensor.data_ptr()
    array = np.empty(shape, numpy_dtype(dtype))
    if type(model).__module__.split(".")[0] in ("jax", "jaxlib"):
        return array, array.ctypes.data  # jax arrays are immutable; its functions take numpy arrays
    return array, array.ctypes.data
