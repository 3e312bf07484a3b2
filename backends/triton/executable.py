"""Running the host function of a Triton source on torch tensors; lives in worker processes and in user programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from portakern.backend import HostBuffer, Source
from portakern.errors import RuntimeFault
from portakern.ir.program import Array
from portakern.ir.tile import BufferType

from .module import load_module, parameters, shape_of, torch_dtype


class TritonExecutable:
    """The host function of one source, loaded on ``device`` (``cpu`` under the interpreter, else ``cuda``).

    Guard bands work because arrays are views into the copied storage.
    """

    guards = True

    def __init__(self, source: Source, device: str) -> None:
        self.source = source
        self.device = device
        self.function: Callable[..., Any] = getattr(load_module(source), source.entry)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        import torch

        storages: dict[str, Any] = {}
        arguments: list[Any] = []
        for array in parameters(self.source):
            buffer = buffers[array.name]
            if array.role == "scalar":
                arguments.append(buffer.array.item())
                continue
            storages[array.name] = torch.from_numpy(buffer.storage).to(self.device)
            arguments.append(_view(storages[array.name], buffer, array))
        self._launch(arguments)
        if self.device != "cpu":
            for name, storage in storages.items():
                buffers[name].storage[:] = storage.cpu().numpy()

    def _launch(self, arguments: Sequence[Any]) -> None:
        import torch

        try:
            self.function(*arguments)
            if self.device != "cpu":
                torch.cuda.synchronize()
        except Exception as error:
            raise RuntimeFault(f"{self.source.operator} on {self.source.target} failed: {type(error).__name__}: {error}",
                               kind="runtime") from error  # fmt: skip

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Inputs (and scalars) in order, as anything that speaks DLPack on this device; new outputs of the same kind."""
        import torch

        given = [a for a in parameters(self.source) if a.role != "output"]
        if len(inputs) != len(given):
            raise RuntimeFault(f"{self.source.operator} takes {len(given)} arrays, not {len(inputs)}")
        tensors = [value if array.role == "scalar" else self._taken(value) for array, value in zip(given, inputs, strict=True)]
        outputs = []
        for array in self.source.by_role("output"):
            outputs.append(torch.empty(shape_of(array, dict(sizes)), dtype=torch_dtype(array.dtype), device=self.device))
        self.function(*tensors, *outputs)
        kind = next((v for a, v in zip(given, inputs, strict=True) if a.role == "input"), None)
        results = tuple(_like(kind, out) for out in outputs)
        return results[0] if len(results) == 1 else results

    def _taken(self, value: Any) -> Any:
        """``value`` as a torch tensor over the same memory."""
        import torch

        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, np.ndarray) and value.dtype.name == "bfloat16":
            return torch.from_numpy(value.view(np.uint16)).view(torch.bfloat16)
        return torch.from_dlpack(value)


def _view(storage: Any, buffer: HostBuffer, array: Array) -> Any:
    """The array inside a storage of bytes, guard bands around it."""
    assert isinstance(array.type, BufferType)
    dtype = torch_dtype(array.dtype)
    count = int(np.prod(buffer.shape, dtype=np.int64))
    raw = storage[buffer.offset : buffer.offset + count * dtype.itemsize]
    return raw.view(dtype).reshape(buffer.shape)


def _like(value: Any, tensor: Any) -> Any:
    """``tensor`` as the same kind of array as ``value``, without a copy."""
    import torch

    if value is None or isinstance(value, torch.Tensor):
        return tensor
    if isinstance(value, np.ndarray):
        if tensor.dtype == torch.bfloat16:
            import ml_dtypes

            return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
        return tensor.numpy()
    module = __import__(type(value).__module__.split(".")[0])
    if module.__name__ in ("jax", "jaxlib"):
        import jax

        return jax.dlpack.from_dlpack(tensor)
    return module.from_dlpack(tensor)
