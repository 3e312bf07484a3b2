"""Arrays to time on: several sets of inputs where the kernel wants them, and what can be done with the arrays there."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from portakern.backend import Target
from portakern.dtypes import DTYPES, numpy_dtype
from portakern.errors import ToolMissing
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.launch.device_arrays import DeviceArray
from portakern.spec.inputs import Family, make_inputs

if TYPE_CHECKING:
    from portakern import native

MOST_SETS = 16
MOST_BYTES = 4 << 30
"""Upper bounds of a rotation of input sets, whatever the device's memory."""

DRAWN_BYTES = 4 << 20
"""A set larger than this is the first one with its elements moved on: drawing numbers would take longer than timing."""


class ArrayPlace(Protocol):
    """Where arrays lie.  Host arrays are numpy's; bf16 and the 8-bit floats are those of ml_dtypes."""

    library: str

    def put(self, host: np.ndarray) -> Any:
        """A new array with these values."""
        ...

    def write(self, array: Any, host: np.ndarray) -> None:
        """Other values into an array, which stays where it is."""
        ...

    def get(self, array: Any) -> np.ndarray:
        """A copy on the host."""
        ...

    def fill(self, array: Any, byte: int) -> None: ...


class HostPlace:
    """numpy arrays that begin at a cache line."""

    library = "numpy"

    def put(self, host: np.ndarray) -> np.ndarray:
        raw = np.empty(host.nbytes + 64, np.uint8)
        start = -raw.ctypes.data % 64
        made = raw[start : start + host.nbytes].view(host.dtype).reshape(host.shape)
        made[...] = host
        return made

    def write(self, array: np.ndarray, host: np.ndarray) -> None:
        array[...] = host

    def get(self, array: Any) -> np.ndarray:
        return np.array(array)

    def fill(self, array: np.ndarray, byte: int) -> None:
        array.reshape(-1).view(np.uint8)[...] = byte


class TorchPlace:
    """torch tensors on the CPU or on the accelerator that torch sees."""

    library = "torch"

    def __init__(self, device: str) -> None:
        import torch

        self.torch, self.device = torch, torch.device(device)

    def put(self, host: np.ndarray) -> Any:
        return from_numpy(host).to(self.device, copy=True)

    def write(self, array: Any, host: np.ndarray) -> None:
        array.copy_(from_numpy(host))

    def get(self, array: Any) -> np.ndarray:
        return to_numpy(array)

    def fill(self, array: Any, byte: int) -> None:
        if array.numel():
            array.reshape(-1).view(self.torch.uint8).fill_(byte)


class DevicePlace:
    """Memory of a device of the native core, where torch does not drive it: peers cannot work there."""

    library = "device"

    def __init__(self, device: native.Device) -> None:
        self.device = device

    def put(self, host: np.ndarray) -> DeviceArray:
        made = DeviceArray(self.device, host.shape, _NAMES[host.dtype.name])
        made.write(host)
        return made

    def write(self, array: DeviceArray, host: np.ndarray) -> None:
        array.write(host)

    def get(self, array: DeviceArray) -> np.ndarray:
        return array.read()

    def fill(self, array: DeviceArray, byte: int) -> None:
        if array.memory.count:
            self.device.fill(array.memory.address, byte, array.memory.count)
            self.device.synchronize()


_NAMES = {numpy_dtype(d).name: d for d in DTYPES if DTYPES[d].bits >= 8}


def place_of(target: Target, device: native.Device, arrays: str = "") -> ArrayPlace:
    """Where arrays for ``target`` go: host memory for a CPU, else the accelerator, through torch where that drives it.

    Args:
        target: what is timed.
        device: the accelerator.
        arrays: what torch calls accelerators of its kind, where another one may be torch's.
    """
    if target.device.kind == "cpu":
        return HostPlace()
    try:
        return torch_place(device.ordinal, arrays)
    except ToolMissing:
        return DevicePlace(device)


def torch_place(ordinal: int = 0, arrays: str = "") -> TorchPlace:
    """torch's tensors on its accelerator.  Raises :class:`ToolMissing` where there is none, or it is none of ``arrays``."""
    if importlib.util.find_spec("torch") is None:
        raise ToolMissing("torch is not installed", hint="pip install 'portakern[torch]'")
    import torch

    # A torch that is built for an accelerator names it, also where there is none.
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if found is None or (arrays and found.type != arrays):
        raise ToolMissing(f"torch {torch.__version__} sees no accelerator of this kind",
                          hint="install the torch that is built for it")  # fmt: skip
    return TorchPlace(f"{found.type}:{ordinal}")


def give_back() -> None:
    """Lets go of the accelerator's memory that torch keeps for later, and that other processes need."""
    import gc

    import torch

    gc.collect()
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()


def from_numpy(host: np.ndarray) -> Any:
    """A numpy array as a tensor over the same memory; dtypes that numpy does not know by their bits."""
    import torch

    if host.dtype.name != "bfloat16" and not host.dtype.name.startswith("float8_"):
        return torch.from_numpy(host)
    bits = np.uint16 if host.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(host.view(bits)).view(getattr(torch, host.dtype.name))


def to_numpy(tensor: Any) -> np.ndarray:
    """A copy of a tensor in host memory."""
    import torch

    tensor = tensor.detach().contiguous().cpu()
    short = {getattr(torch, d.long_name): d.name for d in DTYPES.values() if d.is_float and (d.bits == 8 or d.name == "bf16")}
    if tensor.dtype not in short:
        return np.array(tensor.numpy())
    bits = torch.uint16 if tensor.element_size() == 2 else torch.uint8
    return np.array(tensor.view(bits).numpy()).view(numpy_dtype(short[tensor.dtype]))


def as_library(host: np.ndarray, place: ArrayPlace, library: str) -> Any:
    """An array for a peer of ``library``: beside our own where the peer can work there, else in host memory."""
    if library == place.library:
        return place.put(host)
    if library == "jax":
        import jax.numpy

        return jax.numpy.asarray(host)
    return HostPlace().put(host) if library == "numpy" else from_numpy(HostPlace().put(host))


# ---- sets of inputs -------------------------------------------------------------------------------------------------------


@dataclass
class InputSets:
    """``host[i]`` are the inputs of set ``i`` by name, ``arrays[i]`` the same in order where the kernel wants them; those of
    ``scalars`` are numbers there."""

    place: ArrayPlace
    host: list[dict[str, np.ndarray]] = field(default_factory=list)
    arrays: list[list[Any]] = field(default_factory=list)
    per_set: int = 0
    scalars: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.host)

    def of_library(self, number: int, library: str) -> list[Any]:
        """Set ``number`` as a peer of ``library`` takes it."""
        given = self.host[number].items()
        return [x.item() if n in self.scalars else as_library(x, self.place, library) for n, x in given]

    def changed(self, shift: int = 0) -> str:
        """The name of an input whose bytes are no longer those of its set, or of the set ``shift`` further on; or ''."""
        for number, arrays in enumerate(self.arrays):
            host = self.host[(number + shift) % len(self.host)]
            for (name, x), array in zip(host.items(), arrays, strict=True):
                if name not in self.scalars and not same_bytes(self.place.get(array), x):
                    return name
        return ""


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.array_equal(_raw(a), _raw(b))


def _raw(x: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    return flat.view(np.uint64) if flat.size % 8 == 0 and flat.ctypes.data % 8 == 0 else flat


def input_sets(
    program: TensorProgram,
    families: Mapping[str, Family],
    place: ArrayPlace,
    cache_bytes: int | None,
    memory_bytes: int | None,
    warm: bool = False,
    seed: int = 0,
) -> InputSets:
    """Different inputs to take in turns, so that no call finds the last one's results in place.

    For cold caches, as many sets as together exceed twice the cache with their outputs, within a quarter of the memory and
    the bounds above; two for warm ones, since more would cool them.
    """
    sets = InputSets(place, scalars=program.scalars)
    first = make_inputs(program, families, seed)
    size = sum(x.nbytes for x in first.values())
    sets.per_set = size + sum(bytes_of(r) for r in program.results)
    for number in range(how_many(sets.per_set, cache_bytes, memory_bytes, warm)):
        if number == 0:
            host = first
        elif size <= DRAWN_BYTES:
            host = make_inputs(program, families, seed + number)
        else:
            host = {n: moved_on(x, number) for n, x in first.items()}
        sets.host.append(host)
        sets.arrays.append([x.item() if n in program.scalars else place.put(x) for n, x in host.items()])
    return sets


def how_many(per_set: int, cache_bytes: int | None, memory_bytes: int | None, warm: bool) -> int:
    per_set = max(per_set, 1)
    room = min(MOST_BYTES, (memory_bytes or 4 * MOST_BYTES) // 4)
    if warm:
        wanted = 2
    else:
        wanted = max(2, min(MOST_SETS, -(-2 * (cache_bytes or 64 << 20) // per_set)))
    return max(1, min(wanted, room // per_set))


def moved_on(x: np.ndarray, number: int) -> np.ndarray:
    """The elements of ``x`` in another place each: the same kind of data, and other results."""
    if x.size < 2:
        return x
    bits = x.view(np.dtype(f"u{x.dtype.itemsize}")).reshape(-1)
    shift = (number * (bits.size // (MOST_SETS + 1) | 1)) % bits.size or 1
    return np.roll(bits, shift).view(x.dtype).reshape(x.shape)


def bytes_of(value: Any) -> int:
    """Of an array of a program."""
    of = tensor_type(value)
    return math.prod(static(of.shape)) * numpy_dtype(of.dtype).itemsize
