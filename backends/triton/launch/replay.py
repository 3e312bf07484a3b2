"""What was recorded of a host function, done again by the native core.

The parameters of a kernel are those of its signature that are no constants, then two pointers: global scratch and profile
scratch (Triton 3.6 to 3.9: ``make_launcher`` and ``driver.c`` of its backends).  What the machine code itself says about its
parameters is compared with that before anything is launched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portakern import native
from portakern.errors import PortakernError
from portakern.launch.tensor_maps import encode

from ..compile.machine_code import parameter_sizes
from .recording import SCALARS, NotReplayable, RecordedFill, RecordedLaunch, Recording


@dataclass(frozen=True)
class PointerSource:
    """Where a pointer slot's address comes from: an array by its number and an offset in bytes, or a fixed address."""

    array: int | None
    offset: int


@dataclass(frozen=True)
class Replay:
    """A call of the native core that does what was recorded.

    ``slots`` says where the address of each pointer slot comes from; arrays are numbered as the host function's arguments
    that are tensors, then ``allocated``, the tensors it allocated.  A ``fixed`` call holds addresses beside those slots (tensor
    maps) and is good for the recorded tensors alone.
    """

    call: native.Call
    slots: tuple[PointerSource, ...]
    allocated: tuple[Any, ...]
    fixed: bool = False


class Replayer:
    """Turns recordings into calls on one device; loads every kernel once."""

    def __init__(self, device: native.Device, code: str) -> None:
        self.device = device
        self.code = code
        self.kernels: dict[Any, native.Kernel] = {}

    def replay(self, found: Recording, tensors: Sequence[Any]) -> Replay:
        """Raises :class:`NotReplayable` for launches that need what only Triton's launcher knows."""
        import torch

        made = list(found.allocated)
        steps: list[Any] = []
        kept: list[Any] = []
        pointers: list[int] = []
        for step in found.steps:
            if isinstance(step, RecordedFill):
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
        slots = tuple(pointer_source(p, [*tensors, *made]) for p in pointers)
        call = self.device.call(steps)
        call.keep(*kept)
        fixed = any(_is_descriptor(t) for s in found.steps if isinstance(s, RecordedLaunch) for t, _ in s.args)
        return Replay(call, slots, tuple(made), fixed)

    def _scratch_bytes(self, step: RecordedLaunch) -> int:
        metadata = step.kernel.metadata
        per_block = getattr(metadata, "global_scratch_size", None)
        if per_block is None or getattr(metadata, "profile_scratch_size", None) is None:
            raise NotReplayable(f"{step.kernel.name} does not say what scratch memory it needs")
        if metadata.profile_scratch_size or getattr(metadata, "instrumentation_mode", ""):
            raise NotReplayable(f"{step.kernel.name} is instrumented")
        return math.prod(step.grid) * per_block

    def _check(self, step: RecordedLaunch, args: Sequence[native.PackedArgument]) -> None:
        metadata = step.kernel.metadata
        if getattr(metadata, "num_ctas", 1) != 1:
            raise NotReplayable(f"{step.kernel.name} runs in clusters")
        sizes = parameter_sizes(step.kernel.asm[self.code], metadata.name)
        if sizes != tuple(len(a.data) for a in args):
            raise NotReplayable(f"{step.kernel.name} takes parameters of {sizes} bytes by its machine code, and Triton's "
                                f"launcher is thought to pass {tuple(len(a.data) for a in args)}")

    def _launch(self, step: RecordedLaunch, args: Sequence[native.PackedArgument]) -> native.LaunchSpec:
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


def _arguments(device: native.Device, step: RecordedLaunch, arrays: Sequence[Any]) -> list[native.PackedArgument]:
    """The parameters of a launch; a descriptor is a tensor map, its shape and its strides, as Triton's launcher passes it."""
    maps = iter(getattr(step.kernel.metadata, "tensordesc_meta", None) or ())
    args: list[native.PackedArgument] = []
    for kind, value in step.args:
        if not _is_descriptor(kind):
            args.append(_argument(kind, value))
            continue
        pointer_source(value.base.data_ptr(), arrays)  # raises where the memory is nobody's
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
        raise NotReplayable("a kernel takes a tensor descriptor of a kind that only Triton's launcher encodes")
    try:
        return encode(device, value.base.data_ptr(), dtype, list(value.shape), list(value.strides), list(wanted["block_size"]),
                      _SWIZZLES[wanted["swizzle"]])  # fmt: skip
    except PortakernError as error:
        raise NotReplayable(error.message) from None


def _argument(kind: str, value: Any) -> native.PackedArgument:
    if not isinstance(kind, str) or kind.startswith("nvTmaDesc"):
        raise NotReplayable(f"a kernel takes an argument of the type {kind}")
    if kind.startswith("*"):
        return native.pointer(0 if value is None else value if isinstance(value, int) else value.data_ptr())
    if kind not in SCALARS:
        raise NotReplayable(f"a kernel takes an argument of the type {kind}")
    return native.scalar(SCALARS[kind], value)


def pointer_source(address: int, arrays: Sequence[Any]) -> PointerSource:
    if address == 0:
        return PointerSource(None, 0)
    for number, tensor in enumerate(arrays):
        begin = tensor.data_ptr()
        reach = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
        if address == begin or begin <= address < begin + reach * tensor.itemsize:
            return PointerSource(number, address - begin)
    raise NotReplayable("a kernel is given memory that is neither an argument nor allocated by the host function")
