"""Runs code objects on AMD GPUs: on host data between guard bands, and on torch's arrays where they lie.

Written from the HIP Runtime API reference and never run on silicon (see :mod:`.hip_api`): results of it are to be looked at
twice until it has been.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portakern.backend import Availability, Binary, HostBuffer, Launch, Source, Target
from portakern.dtypes import DTYPES
from portakern.errors import PortakernError, RuntimeFault, ToolMissing, UsageError
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

from .hip_api import HipDriver, driver

if TYPE_CHECKING:
    import numpy as np

MAX_THREADS = 2**32 - 1
"""Of a grid along x: the dispatch packet counts work-items in 32 bits (HSA Platform System Architecture, AQL packets)."""

_SILICON = {
    "mi210": ("MI210",), "mi250x": ("MI250X",), "mi300x": ("MI300X",), "mi300a": ("MI300A",), "mi325x": ("MI325X",),
    "mi355x": ("MI355X",), "rx7900xtx": ("7900 XTX",), "rx9070xt": ("9070 XT",),
}  # fmt: skip
_SCALARS = {
    "f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
    "i8": ctypes.c_int8, "u64": ctypes.c_uint64, "u32": ctypes.c_uint32, "u16": ctypes.c_uint16, "u8": ctypes.c_uint8,
    "bool": ctypes.c_bool, "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16,
}  # fmt: skip
_TORCH = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16",
    "i8": "int8", "u8": "uint8", "bool": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class HipRuntime:
    """Through libamdhip64 alone; present only where an AMD GPU with its driver is."""

    def available(self, target: Target) -> Availability:
        try:
            ordinal = _ordinal(driver(), target)
            return Availability(True, f"{driver().devices[ordinal][0]} (device {ordinal})")
        except PortakernError as error:
            return Availability(False, error.message)

    def device_name(self, target: Target) -> str:
        return driver().devices[_ordinal(driver(), target)][0]

    def load(self, source: Source, binary: Binary | None) -> HipExecutable:
        if binary is None or binary.format not in ("hsaco", "none"):
            raise RuntimeFault(f"{source.operator} for {source.target} is run from a code object only", hint="compile it first")
        return HipExecutable(source, binary)


def _ordinal(hip: HipDriver, target: Target) -> int:
    """The first GPU of the target's instruction set (and product); raises :class:`ToolMissing` naming those there are."""
    device = target.device
    for n, (name, isa) in enumerate(hip.devices):
        if isa == device.isa and all(word.lower() in name.lower() for word in _SILICON.get(device.product, ())):
            return n
    found = ", ".join(f"{name} ({isa})" for name, isa in hip.devices)
    raise ToolMissing(f"no GPU here runs {target}: found {found}")


class HipExecutable:
    """A program's kernels, loaded.  Temporaries are allocated for each run."""

    guards = True

    def __init__(self, source: Source, binary: Binary) -> None:
        self.source = source
        self.hip = driver()
        self.ordinal = _ordinal(self.hip, source.target)
        self.hip.use(self.ordinal)
        self.functions: list[ctypes.c_void_p] = []
        if source.launches:
            module = self.hip.load(binary.data)
            self._release = weakref.finalize(self, _unload, self.hip, module)
            self.functions = [self.hip.function(module, x.kernel) for x in source.launches]

    # ---- on host data

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Copy whole allocations over, launch everything, copy them back."""
        self.hip.use(self.ordinal)
        with contextlib.ExitStack() as stack:
            places: dict[str, int] = {}
            scalars: dict[str, Any] = {}
            for array in self.source.arrays:
                if not isinstance(array.type, BufferType):
                    scalars[array.name] = _scalar(array, buffers[array.name].array)
                    continue
                buffer = buffers[array.name] if array.role != "temporary" else _temporary(array, sizes)
                if array.init is not None:
                    buffer.array[...] = array.init
                stack.enter_context(self._on_device(buffer, places))
            self.launch(places, scalars, sizes, 0)
            self.hip.synchronize()

    @contextlib.contextmanager
    def _on_device(self, buffer: HostBuffer, places: dict[str, int]) -> Iterator[None]:
        """The allocation of ``buffer`` on the device; copied back on leaving without an error."""
        storage = buffer.storage
        place = self.hip.allocate(storage.nbytes)
        try:
            self.hip.upload(place, storage.ctypes.data, storage.nbytes)
            places[buffer.name] = place + buffer.offset
            yield
            self.hip.download(storage.ctypes.data, place, storage.nbytes)
        finally:
            self.hip.free(place)

    # ---- on torch's arrays, and what torch can take over by DLPack

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Run on arrays on this GPU, on torch's current stream; outputs are torch tensors.

        Raises :class:`UsageError` where an array is elsewhere, or of another dtype, shape or stride.
        """
        import torch  # torch calls AMD's devices and streams cuda, too

        self.hip.use(self.ordinal)
        device = torch.device("cuda", self.ordinal)
        places: dict[str, int] = {}
        scalars: dict[str, Any] = {}
        held: list[Any] = []
        for array, given in zip(self.source.by_role("input", "scalar"), inputs, strict=True):
            if not isinstance(array.type, BufferType):
                scalars[array.name] = _scalar(array, given)
                continue
            tensor = given if isinstance(given, torch.Tensor) else torch.from_dlpack(given)
            _check(tensor, array, sizes, device)
            places[array.name] = tensor.data_ptr()
            held.append(tensor)
        outputs: list[Any] = []
        for array in self.source.by_role("output", "temporary"):
            made = torch.empty(_shape(array, sizes), dtype=getattr(torch, _TORCH[array.dtype]), device=device)
            if array.init is not None:
                made.fill_(array.init)
            places[array.name] = made.data_ptr()
            (outputs if array.role == "output" else held).append(made)
        self.launch(places, scalars, sizes, torch.cuda.current_stream(device).cuda_stream)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    # ---- launching

    def launch(self, places: Mapping[str, int], scalars: Mapping[str, Any], sizes: Mapping[str, int], stream: int) -> None:
        """Launch every kernel in order on ``stream``; one whose grid is empty is left out."""
        for function, x in zip(self.functions, self.source.launches, strict=True):
            grid = [evaluate(n, sizes) for n in x.grid]
            if math.prod(grid) == 0:
                continue
            if grid[0] * x.block[0] > MAX_THREADS:
                raise RuntimeFault(
                    f"{x.kernel} needs {grid[0]} blocks of {x.block[0]} threads, and {MAX_THREADS} threads are the most",
                    hint="take larger tiles",
                )
            args = [_argument(x, name, places, scalars, sizes) for name in x.args]
            self.hip.launch(function, grid, x.block, x.shared_bytes, stream, args)


def _unload(hip: HipDriver, module: ctypes.c_void_p) -> None:
    with contextlib.suppress(RuntimeFault):
        hip.unload(module)


def _argument(x: Launch, name: str, places: Mapping[str, int], scalars: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    if name in places:
        return ctypes.c_uint64(places[name])
    if name in scalars:
        return scalars[name]
    if name in sizes:
        return ctypes.c_int64(sizes[name])
    raise RuntimeFault(f"{x.kernel} takes {name!r}, which is no array, scalar or open dim of the operator")


def _scalar(array: Array, value: Any) -> Any:
    """A run-time scalar as the kernel takes it; 16-bit floats by their bits."""
    kind = _SCALARS[array.dtype]
    if array.dtype in ("f16", "bf16"):
        import numpy as np

        from portakern.spec.inputs import numpy_dtype

        return kind(int(np.asarray(value).astype(numpy_dtype(array.dtype)).view(np.uint16)[()]))
    return kind(value.item() if hasattr(value, "item") else value)


def _shape(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    assert isinstance(array.type, BufferType)
    return tuple(evaluate(n, sizes) for n in array.type.shape)


def _check(tensor: Any, array: Array, sizes: Mapping[str, int], device: Any) -> None:
    assert isinstance(array.type, BufferType)
    shape = _shape(array, sizes)
    strides = tuple(evaluate(n, sizes) for n in array.type.element_strides)
    if tensor.device != device:
        raise UsageError(f"the argument {array.name} is on {tensor.device}, and the kernel runs on {device}",
                         hint="move the array to that device")  # fmt: skip
    if tuple(tensor.shape) != shape or str(tensor.dtype).removeprefix("torch.") != _TORCH[array.dtype]:
        raise UsageError(f"the argument {array.name} is {tensor.dtype}{list(tensor.shape)}, and the kernel was built for "
                         f"{array.dtype}{list(shape)}")  # fmt: skip
    if any(n > 1 and a != b for n, a, b in zip(shape, tensor.stride(), strides, strict=True)):
        raise UsageError(f"the argument {array.name} has strides {tensor.stride()}, and the kernel was built for {strides}",
                         hint="make it contiguous, or build the operator for these strides")  # fmt: skip


_GUARD = 256


def _temporary(array: Array, sizes: Mapping[str, int]) -> HostBuffer:
    """A temporary of a checked run, full of NaN."""
    import numpy as np

    from portakern.spec.inputs import numpy_dtype

    shape = _shape(array, sizes)
    storage: np.ndarray = np.full(math.prod(shape) * DTYPES[array.dtype].bytes + 2 * _GUARD, 0xFF, np.uint8)
    return HostBuffer(array.name, storage, _GUARD, shape, numpy_dtype(array.dtype))
