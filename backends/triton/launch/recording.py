"""What a Triton host function launches, noted instead of launched, so that the native core can do it again.

Triton's own launcher costs tens of microseconds a call: it evaluates the grid, specialises on every argument and looks the
kernel up.  All of that depends on what a signature fixes (shapes, strides, dtypes, alignment), so it is done once: the host
function runs with ``CompiledKernel.run``, the last thing before the driver, replaced by a recorder, and under a mode that
sees every torch operator.  A host function that does more than allocate, fill and launch is left to Triton's launcher.

The parameters of a kernel are those of its signature that are no constants, then two pointers: global scratch and profile
scratch (Triton 3.6 to 3.9: ``make_launcher`` and ``driver.c`` of its backends).  What the machine code itself says about its
parameters is compared with that before anything is launched.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from portakern import native
from portakern.errors import PortakernError
from portakern.launch.tensor_maps import encode

from ..compile.machine_code import parameter_sizes

SCALARS = {
    "i1": "bool", "u1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16", "u32": "u32",
    "u64": "u64", "fp16": "f16", "bf16": "bf16", "fp32": "f32", "f32": "f32", "fp64": "f64",
}  # fmt: skip
"""Our names of the types in Triton's signatures."""

_lock = threading.Lock()


class NotPlain(Exception):
    """Why what a host function does cannot be repeated by the native core."""


@dataclass(frozen=True)
class Launched:
    """One launch as Triton's launcher would have made it: (type, value) of each argument that is no constant."""

    kernel: Any
    grid: tuple[int, int, int]
    args: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Filled:
    """A tensor that the host function fills with one value; ``constant`` is a copy of it filled, ``None`` for zero bytes."""

    tensor: Any
    constant: Any


@dataclass
class Recording:
    """What a host function did: steps in order, and the tensors that it allocated."""

    steps: list[Launched | Filled] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    refused: str = ""

    def refuse(self, why: str) -> None:
        self.refused = self.refused or why


def record(function: Callable[..., Any], arguments: Sequence[Any]) -> Recording:
    """Runs ``function`` without its launches.  Raises :class:`NotPlain` where it does more than a recording can hold."""
    found = Recording()
    with _lock, _noting(found), _watching(found):
        function(*arguments)
    if found.refused:
        raise NotPlain(found.refused)
    return found


@contextmanager
def _noting(found: Recording) -> Iterator[None]:
    """This thread's launches are noted; those of others are made."""
    from triton.compiler.compiler import CompiledKernel

    original = CompiledKernel.__dict__["run"]
    mine = threading.get_ident()

    def run(kernel: Any) -> Any:
        if threading.get_ident() != mine:
            return original.__get__(kernel, type(kernel))

        def note(x: int, y: int, z: int, stream: Any, function: Any, packed: Any, metadata: Any, enter: Any, leave: Any,
                 *args: Any) -> None:  # fmt: skip
            types = tuple(kernel.src.signature.values())
            if len(types) != len(args):
                found.refuse(f"{kernel.name} has {len(types)} arguments and is given {len(args)}")
                return
            given = tuple((t, a) for t, a in zip(types, args, strict=True) if t != "constexpr")
            if x * y * z > 0:
                found.steps.append(Launched(kernel, (int(x), int(y), int(z)), given))

        return note

    CompiledKernel.run = property(run)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        CompiledKernel.run = original  # type: ignore[method-assign]


@contextmanager
def _watching(found: Recording) -> Iterator[None]:
    """Sees every torch operator of this thread: allocations are kept, fills are steps, views are free."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten
    allocating = {aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default, aten.new_empty.default,
                  aten.new_empty_strided.default}  # fmt: skip
    filling = {aten.full.default, aten.zeros.default, aten.fill_.Scalar, aten.zero_.default, aten.new_full.default,
               aten.new_zeros.default, aten.full_like.default, aten.zeros_like.default}  # fmt: skip

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func in allocating or func in filling:
                if not result.is_contiguous():
                    found.refuse(f"it fills a tensor that is not contiguous with {func}")
                if func not in (aten.fill_.Scalar, aten.zero_.default):
                    found.made.append(result)
                if func in filling and result.numel():
                    zero = "zero" in func.name() or _is_zero(args[1] if len(args) > 1 else None)
                    found.steps.append(Filled(result, None if zero else result.clone()))
            elif not getattr(func, "is_view", False):
                found.refuse(f"its host function computes with torch ({func})")
            return result

    with Watch():
        yield


def _is_zero(value: Any) -> bool:
    """Whether a number's bytes are all zero in every dtype."""
    return isinstance(value, int | float) and value == 0 and math.copysign(1, value) > 0


# ---- to the native core --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a pointer slot's address comes from: an array by its number and an offset in bytes, or a fixed address."""

    array: int | None
    offset: int


@dataclass(frozen=True)
class Replay:
    """A call of the native core that does what was recorded.

    ``slots`` says where the address of each pointer slot comes from; arrays are numbered as the host function's arguments
    that are tensors, then ``made``, the tensors it allocated.  A ``fixed`` call holds addresses beside those slots (tensor
    maps) and is good for the recorded tensors alone.
    """

    call: native.Call
    slots: tuple[Place, ...]
    made: tuple[Any, ...]
    fixed: bool = False


class Replayer:
    """Turns recordings into calls on one device; loads every kernel once."""

    def __init__(self, device: native.Device, code: str) -> None:
        self.device = device
        self.code = code
        self.kernels: dict[Any, native.Kernel] = {}

    def replay(self, found: Recording, tensors: Sequence[Any]) -> Replay:
        """Raises :class:`NotPlain` for launches that need what only Triton's launcher knows."""
        import torch

        made = list(found.made)
        steps: list[Any] = []
        kept: list[Any] = []
        pointers: list[int] = []
        for step in found.steps:
            if isinstance(step, Filled):
                address, count = step.tensor.data_ptr(), step.tensor.numel() * step.tensor.itemsize
                pointers.append(address)
                if step.constant is None:
                    steps.append(native.FillSpec(address, 0, count))
                else:
                    kept.append(step.constant)
                    steps.append(native.CopySpec(address, step.constant.data_ptr(), count))
                continue
            scratch = self._scratch_bytes(step)
            if scratch:
                made.append(torch.empty(scratch, dtype=torch.uint8, device=tensors[0].device))
            args = [*_arguments(self.device, step, [*tensors, *made]),
                    native.pointer(made[-1].data_ptr() if scratch else 0), native.pointer(0)]  # fmt: skip
            self._check(step, args)
            pointers += [int.from_bytes(a.data, "little") for a in args if a.kind == native.pointer(0).kind]
            steps.append(self._launch(step, args))
        places = tuple(place_of(p, [*tensors, *made]) for p in pointers)
        call = self.device.call(steps)
        call.keep(*kept)
        fixed = any(_is_descriptor(t) for s in found.steps if isinstance(s, Launched) for t, _ in s.args)
        return Replay(call, places, tuple(made), fixed)

    def _scratch_bytes(self, step: Launched) -> int:
        metadata = step.kernel.metadata
        per_block = getattr(metadata, "global_scratch_size", None)
        if per_block is None or getattr(metadata, "profile_scratch_size", None) is None:
            raise NotPlain(f"{step.kernel.name} does not say what scratch memory it needs")
        if metadata.profile_scratch_size or getattr(metadata, "instrumentation_mode", ""):
            raise NotPlain(f"{step.kernel.name} is instrumented")
        return math.prod(step.grid) * per_block

    def _check(self, step: Launched, args: Sequence[native.Arg]) -> None:
        metadata = step.kernel.metadata
        if getattr(metadata, "num_ctas", 1) != 1:
            raise NotPlain(f"{step.kernel.name} runs in clusters")
        sizes = parameter_sizes(step.kernel.asm[self.code], metadata.name)
        if sizes != tuple(len(a.data) for a in args):
            raise NotPlain(f"{step.kernel.name} takes parameters of {sizes} bytes by its machine code, and Triton's launcher "
                           f"is thought to pass {tuple(len(a.data) for a in args)}")

    def _launch(self, step: Launched, args: Sequence[native.Arg]) -> native.LaunchSpec:
        metadata = step.kernel.metadata
        found = self.kernels.get(step.kernel.hash)
        if found is None:
            module = self.device.load(step.kernel.asm[self.code])
            found = self.kernels[step.kernel.hash] = module.kernel(metadata.name, metadata.shared)
        attributes = (1 if getattr(metadata, "launch_cooperative_grid", False) else 0) | (
            2 if getattr(metadata, "launch_pdl", False) else 0)  # PK_LAUNCH_COOPERATIVE, PK_LAUNCH_OVERLAP_PREVIOUS
        threads = metadata.num_warps * getattr(metadata, "warp_size", metadata.target.warp_size)
        return native.LaunchSpec(found, step.grid, (threads, 1, 1), args, metadata.shared, (1, 1, 1), attributes)


def _is_descriptor(kind: Any) -> bool:
    return isinstance(kind, str) and kind.startswith("tensordesc")


def _arguments(device: native.Device, step: Launched, arrays: Sequence[Any]) -> list[native.Arg]:
    """The parameters of a launch; a descriptor is a tensor map, its shape and its strides, as Triton's launcher passes it."""
    maps = iter(getattr(step.kernel.metadata, "tensordesc_meta", None) or ())
    args: list[native.Arg] = []
    for kind, value in step.args:
        if not _is_descriptor(kind):
            args.append(_argument(kind, value))
            continue
        place_of(value.base.data_ptr(), arrays)  # raises where the memory is nobody's
        args.append(native.raw(_tensor_map(device, value, next(maps, None))))
        args += [native.scalar("i32", n) for n in value.shape] + [native.scalar("i64", n) for n in value.strides]
    return args


_DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
           "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool"}  # fmt: skip
_SWIZZLES = (0, 32, 64, 128)


def _tensor_map(device: native.Device, value: Any, wanted: Any) -> bytes:
    """The map of a host's descriptor, with the box and the swizzle that the compiled kernel wants."""
    dtype = _DTYPES.get(str(value.base.dtype).removeprefix("torch."))
    special = wanted is None or wanted.get("fp4_padded") or wanted.get("is_im2col")
    if dtype is None or wanted is None or special or value.padding != "zero" or getattr(value, "round_f32_to_tf32", False):
        raise NotPlain("a kernel takes a tensor descriptor of a kind that only Triton's launcher encodes")
    try:
        return encode(device, value.base.data_ptr(), dtype, list(value.shape), list(value.strides), list(wanted["block_size"]),
                      _SWIZZLES[wanted["swizzle"]])  # fmt: skip
    except PortakernError as error:
        raise NotPlain(error.message) from None


def _argument(kind: str, value: Any) -> native.Arg:
    if not isinstance(kind, str) or kind.startswith("nvTmaDesc"):
        raise NotPlain(f"a kernel takes an argument of the type {kind}")
    if kind.startswith("*"):
        return native.pointer(0 if value is None else value if isinstance(value, int) else value.data_ptr())
    if kind not in SCALARS:
        raise NotPlain(f"a kernel takes an argument of the type {kind}")
    return native.scalar(SCALARS[kind], value)


def place_of(address: int, arrays: Sequence[Any]) -> Place:
    if address == 0:
        return Place(None, 0)
    for number, tensor in enumerate(arrays):
        begin = tensor.data_ptr()
        reach = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
        if address == begin or begin <= address < begin + reach * tensor.itemsize:
            return Place(number, address - begin)
    raise NotPlain("a kernel is given memory that is neither an argument nor allocated by the host function")
