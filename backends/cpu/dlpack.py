"""Host arrays of any library in and out, without a copy: numpy, torch, jax on the CPU, whatever speaks DLPack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from portakern.errors import RuntimeFault
from portakern.launch.facts import numpy_reader, row_major

if TYPE_CHECKING:
    import numpy as np

_NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip
_TORCH = {
    **_NUMPY, "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of ``dtype``; bf16 and the 8-bit floats come from ml_dtypes."""
    import numpy as np

    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, _TORCH[dtype]))


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
    if _is_torch(x):
        if x.device.type != "cpu":
            _refuse(name, f"it lies on {x.device}")
        if bits is not None and wanted.kind not in "fiub":
            import torch  # numpy knows no bf16, so its bits are handed over

            if x.dtype == getattr(torch, wanted.name):
                return x.detach().view(torch.uint16 if wanted.itemsize == 2 else torch.uint8).numpy().view(wanted)
    try:
        return np.from_dlpack(x.detach() if hasattr(x, "detach") else x)
    except (AttributeError, TypeError, BufferError, RuntimeError) as error:
        try:
            return np.asarray(x) if hasattr(x, "__array__") else _refuse(name, error)
        except (TypeError, RuntimeError):
            return _refuse(name, error)


def _refuse(name: str, error: Exception | str) -> Any:
    raise RuntimeFault(f"the array {name} cannot be read in place on the CPU: {error}",
                       hint="pass an array in host memory that speaks DLPack", kind="bad-argument") from None


def _is_torch(x: Any) -> bool:
    return type(x).__module__.split(".")[0] == "torch" or hasattr(x, "__torch_function__")


# ---- for calls that are made again and again: no checks, what can be decided beforehand is -------------------------------


def address_reader(model: Any) -> Callable[[Any], int] | None:
    """What tells the address of host arrays like ``model``; ``None`` where only a view of each one tells."""
    import numpy as np

    if _is_torch(model):
        return methodcaller("data_ptr")
    return numpy_reader() if isinstance(model, np.ndarray) else None


def view_reader(model: Any, dtype: str) -> Callable[[Any], np.ndarray]:
    """What makes a numpy array over the memory of each host array like ``model``: 16-bit floats as their bits."""
    import numpy as np

    half = dtype in ("bf16", "f16")
    if _is_torch(model):
        import torch

        return (lambda x: x.detach().view(torch.uint16).numpy()) if half else (lambda x: x.detach().numpy())
    if isinstance(model, np.ndarray):
        return (lambda x: x.view(np.uint16)) if half else (lambda x: x)
    return lambda x: adopt_array(x, "", dtype).view(np.uint16) if half else adopt_array(x, "", dtype)


def array_maker(model: Any, shape: tuple[int, ...], dtype: str) -> tuple[Callable[[], Any], Callable[[Any], int]]:
    """(what makes new arrays of the library that ``model`` comes from, numpy's if that is not known; what tells their
    addresses).  jax arrays cannot be written, and its functions take numpy's."""
    import numpy as np

    if _is_torch(model):
        import torch

        kind = getattr(torch, _TORCH[dtype])
        made = partial(torch.empty_strided, shape, row_major(shape), dtype=kind, device=torch.device("cpu"))
        return made, methodcaller("data_ptr")
    return partial(np.empty, shape, numpy_dtype(dtype)), numpy_reader()
