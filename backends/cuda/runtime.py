"""Runs cubins on NVIDIA GPUs: on host data between guard bands, and on arrays of torch, cupy and others where they lie."""

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
from portakern.errors import PortakernError, RuntimeFault, ToolMissing
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

from .arrays import Arrays, family_of
from .driver_api import Driver, driver

if TYPE_CHECKING:
    import numpy as np

MAX_GRID = 2**31 - 1
"""Blocks along x (CUDA C++ Programming Guide, Technical Specifications per Compute Capability)."""

# What the driver calls a product.
_SILICON = {
    "a100": ("A100", "SXM", "80GB"), "a100-pcie": ("A100", "PCIe"), "a100-40gb": ("A100", "SXM", "40GB"), "h200": ("H200",),
    "h100-sxm": ("H100", "HBM3"), "h100-pcie": ("H100", "PCIe"), "b200": ("B200",), "rtx5090": ("RTX 5090",),
    "rtx-pro-6000": ("RTX PRO 6000",),
}  # fmt: skip
_SCALARS = {"f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
            "i8": ctypes.c_int8, "u64": ctypes.c_uint64, "u32": ctypes.c_uint32, "u16": ctypes.c_uint16, "u8": ctypes.c_uint8,
            "bool": ctypes.c_bool, "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16}  # fmt: skip


@dataclass(frozen=True)
class CudaRuntime:
    """Through the driver's own interface; needs no toolkit."""

    def available(self, target: Target) -> Availability:
        try:
            ordinal = _ordinal(driver(), target)
            return Availability(True, f"{driver().devices[ordinal][0]} (device {ordinal})")
        except PortakernError as error:
            return Availability(False, error.message)

    def device_name(self, target: Target) -> str:
        return driver().devices[_ordinal(driver(), target)][0]

    def load(self, source: Source, binary: Binary | None) -> CudaExecutable:
        if binary is None or binary.format != "cubin":
            raise RuntimeFault(f"{source.operator} for {source.target} can be run from a cubin only",
                               hint="compile it first")
        return CudaExecutable(source, binary)


def _ordinal(cuda: Driver, target: Target) -> int:
    """The first GPU that runs code for the target; raises :class:`ToolMissing` naming the GPUs that there are."""
    device = target.device
    number = device.isa.removeprefix("sm_")
    exact = not number.isdigit()  # architecture-specific code (sm_90a) runs on that capability alone
    number = number.rstrip("af")
    major, minor = int(number[:-1]), int(number[-1])
    for n, (name, (has_major, has_minor)) in enumerate(cuda.devices):
        fits = has_major == major and (has_minor == minor if exact else has_minor >= minor)
        if fits and all(word.lower() in name.lower() for word in _SILICON.get(device.product, ())):
            return n
    found = ", ".join(f"{name} ({a}.{b})" for name, (a, b) in cuda.devices) or "none"
    raise ToolMissing(f"no GPU here runs {target}: found {found}")


class CudaExecutable:
    """A program's kernels, loaded.  Temporaries are allocated for each run."""

    guards = True

    def __init__(self, source: Source, binary: Binary) -> None:
        self.source = source
        self.cuda = driver()
        self.ordinal = _ordinal(self.cuda, source.target)
        self.cuda.use(self.ordinal)
        module = self.cuda.load(binary.data)
        self._release = weakref.finalize(self, _unload, self.cuda, module)
        self.functions = [self.cuda.function(module, x.kernel, x.shared_bytes) for x in source.launches]

    # ---- on host data

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Copy whole allocations over, launch everything, copy them back."""
        self.cuda.use(self.ordinal)
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
                stack.enter_context(self._on_device(buffer, places, guarded=array.role == "temporary"))
            self.launch(places, scalars, sizes, 0)
            self.cuda.synchronize()

    @contextlib.contextmanager
    def _on_device(self, buffer: HostBuffer, places: dict[str, int], guarded: bool) -> Iterator[None]:
        """The allocation of ``buffer`` on the device; copied back on leaving without an error."""
        storage = buffer.storage
        pointer = self.cuda.allocate(storage.nbytes)
        try:
            self.cuda.upload(pointer, storage.ctypes.data, storage.nbytes)
            places[buffer.name] = pointer + buffer.offset
            yield
            self.cuda.download(storage.ctypes.data, pointer, storage.nbytes)
            if guarded:
                _check_guards(buffer)
        finally:
            self.cuda.free(pointer)

    # ---- on arrays that speak DLPack

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Run on arrays on this GPU, on the current stream of the framework they come from; outputs are new arrays of it."""
        family = family_of(inputs)
        self.cuda.use(self.ordinal)
        places: dict[str, int] = {}
        scalars: dict[str, Any] = {}
        held: list[Any] = []
        for array, given in zip(self.source.by_role("input", "scalar"), inputs, strict=True):
            if not isinstance(array.type, BufferType):
                scalars[array.name] = _scalar(array, given)
            else:
                view = family.view(given)
                family.check(view, array, _shape(array, sizes), _strides(array, sizes), self.ordinal)
                places[array.name] = family.pointer(view)
                held.append(view)
        outputs = [self._new(family, a, sizes, places) for a in self.source.by_role("output")]
        held += [self._new(family, a, sizes, places) for a in self.source.by_role("temporary")]
        self.launch(places, scalars, sizes, family.stream(self.ordinal))
        made = tuple(family.result(x) for x in outputs)
        return made[0] if len(made) == 1 else made

    def _new(self, family: Arrays, array: Array, sizes: Mapping[str, int], places: dict[str, int]) -> Any:
        made = family.empty(_shape(array, sizes), array.dtype, self.ordinal)
        if array.init is not None:
            family.fill(made, array.init)
        places[array.name] = family.pointer(made)
        return made

    # ---- launching

    def launch(self, places: Mapping[str, int], scalars: Mapping[str, Any], sizes: Mapping[str, int], stream: int) -> None:
        """Launch every kernel in order on ``stream``; one whose grid is empty is left out."""
        for function, x in zip(self.functions, self.source.launches, strict=True):
            grid = [evaluate(n, sizes) for n in x.grid]
            if math.prod(grid) == 0:
                continue
            if grid[0] > MAX_GRID:
                raise RuntimeFault(f"{x.kernel} needs {grid[0]} blocks, and {MAX_GRID} is the most", hint="take larger tiles")
            args = [_argument(x, name, places, scalars, sizes) for name in x.args]
            self.cuda.launch(function, grid, x.block, x.shared_bytes, stream, args)


def _unload(cuda: Driver, module: ctypes.c_void_p) -> None:
    with contextlib.suppress(RuntimeFault):
        cuda.unload(module)


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


def _strides(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    assert isinstance(array.type, BufferType)
    return tuple(evaluate(n, sizes) for n in array.type.element_strides)


# ---- temporaries of a checked run: host buffers between guard bands of their own ----------------------------------------

_GUARD, _PATTERN = 256, 0xC3


def _temporary(array: Array, sizes: Mapping[str, int]) -> HostBuffer:
    import numpy as np

    from portakern.spec.inputs import numpy_dtype

    shape = _shape(array, sizes)
    count = math.prod(shape) * DTYPES[array.dtype].bytes
    storage = np.full(count + 2 * _GUARD, _PATTERN, np.uint8)
    return HostBuffer(array.name, storage, _GUARD, shape, numpy_dtype(array.dtype))


def _check_guards(buffer: HostBuffer) -> None:
    outside: tuple[np.ndarray, ...] = (buffer.storage[: buffer.offset], buffer.storage[buffer.offset + buffer.array.nbytes :])
    if any((part != _PATTERN).any() for part in outside):
        raise RuntimeFault(f"a kernel wrote outside the temporary {buffer.name}")
