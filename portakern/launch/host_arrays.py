"""Arrays in the host's memory, for devices that kernels of may read and write there (``facts.host_memory``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from portakern.dtypes import numpy_dtype
from portakern.errors import UsageError
from portakern.launch.arrays import ArrayLibrary, TorchArrays
from portakern.launch.facts import numpy_address

KIND = "cpu"


class NumpyArrays(ArrayLibrary):
    def view(self, given: Any) -> Any:
        import numpy as np

        return given if isinstance(given, np.ndarray) else _as_numpy(given)

    def stream(self) -> int:
        return 0

    def addresses(self, arrays: Sequence[Any]) -> list[int]:
        return [numpy_address(x) for x in arrays]

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        import numpy as np

        element = numpy_dtype(dtype)
        return lambda: np.empty(shape, element)

    def device(self, array: Any) -> tuple[str, int]:
        return self.kind, self.ordinal

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(n // array.itemsize for n in array.strides)


class TorchHostArrays(TorchArrays):
    def __init__(self, kind: str, ordinal: int) -> None:
        ArrayLibrary.__init__(self, kind, ordinal)
        import torch

        self.torch = torch

    def view(self, given: Any) -> Any:
        if isinstance(given, self.torch.Tensor):
            return given
        view = _as_numpy(given)
        if view.dtype.name == "bfloat16":  # torch does not know ml_dtypes
            return self.torch.from_numpy(view.view("u2")).view(self.torch.bfloat16)
        return self.torch.from_numpy(view)

    def stream(self) -> int:
        return 0

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        empty, element = self.torch.empty, getattr(self.torch, numpy_dtype(dtype).name)
        return lambda: empty(shape, dtype=element)

    def device(self, array: Any) -> tuple[str, int]:
        where = array.device
        return (self.kind, self.ordinal) if where.type == self.kind else (where.type, where.index or 0)


class ReadOnlyArrays(NumpyArrays):
    """Libraries whose arrays cannot be written, such as jax: read in place, results are copied into arrays of theirs."""

    direct = False

    def __init__(self, kind: str, ordinal: int, library: str) -> None:
        super().__init__(kind, ordinal)
        self.library = library

    def result(self, made: Any) -> Any:
        if self.library in ("jax", "jaxlib"):
            import jax.numpy

            return jax.numpy.asarray(made)
        return made


def _as_numpy(given: Any) -> Any:
    """An array of any library as numpy's, over the same memory.  Raises :class:`UsageError` where that cannot be."""
    import numpy as np

    library = type(given).__module__.partition(".")[0]
    try:
        if library == "torch":
            return _from_torch(given.detach())
        return np.asarray(given) if hasattr(given, "__array__") else np.from_dlpack(given)
    except (TypeError, RuntimeError, BufferError, ValueError) as error:
        raise UsageError(f"an array of {library} cannot be read without a copy: {error}",
                         hint="pass a numpy array or another array in this machine's memory") from error


def _from_torch(tensor: Any) -> Any:
    import torch

    if tensor.device.type != "cpu":
        raise TypeError(f"it lies on {tensor.device}")
    return tensor.view(torch.uint16).numpy().view(numpy_dtype("bf16")) if tensor.dtype == torch.bfloat16 else tensor.numpy()


@lru_cache(maxsize=64)
def _family(library: str, ordinal: int) -> ArrayLibrary:
    known: dict[str, Callable[[str, int], ArrayLibrary]] = {
        "numpy": NumpyArrays, "ml_dtypes": NumpyArrays, "torch": TorchHostArrays,
    }  # fmt: skip
    return known[library](KIND, ordinal) if library in known else ReadOnlyArrays(KIND, ordinal, library)


def host_family_of(inputs: Sequence[Any], ordinal: int) -> ArrayLibrary:
    """The library that the arrays among ``inputs`` come from; numpy where there is none."""
    for x in inputs:
        if getattr(x, "ndim", 0) > 0:
            return _family(type(x).__module__.partition(".")[0], ordinal)
    return _family("numpy", ordinal)
