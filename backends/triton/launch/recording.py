"""What a Triton host function launches, noted instead of launched, so that the native core can do it again (:mod:`.replay`).

Triton's own launcher costs tens of microseconds a call: it evaluates the grid, specialises on every argument and looks the
kernel up.  All of that depends on what a signature fixes (shapes, strides, dtypes, alignment), so it is done once: the host
function runs with ``CompiledKernel.run``, the last thing before the driver, replaced by a recorder, and under a mode that
sees every torch operator.  A host function that does more than allocate, fill and launch is left to Triton's launcher.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SCALARS = {
    "i1": "bool", "u1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16", "u32": "u32",
    "u64": "u64", "fp16": "f16", "bf16": "bf16", "fp32": "f32", "f32": "f32", "fp64": "f64",
}  # fmt: skip
"""Our names of the types in Triton's signatures."""

_lock = threading.Lock()


class NotReplayable(Exception):
    """Why what a host function does cannot be repeated by the native core."""


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch as Triton's launcher would have made it: (type, value) of each argument that is no constant."""

    kernel: Any
    grid: tuple[int, int, int]
    args: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class RecordedFill:
    """A tensor that the host function fills with one value; ``constant`` is a copy of it filled, ``None`` for zero bytes."""

    tensor: Any
    constant: Any


@dataclass
class Recording:
    """What a host function did: steps in order, and the tensors that it allocated."""

    steps: list[RecordedLaunch | RecordedFill] = field(default_factory=list)
    allocated: list[Any] = field(default_factory=list)
    refused: str = ""

    def refuse(self, why: str) -> None:
        self.refused = self.refused or why


def record(function: Callable[..., Any], arguments: Sequence[Any]) -> Recording:
    """Runs ``function`` without its launches.  Raises :class:`NotReplayable` where it does more than a recording can hold."""
    found = Recording()
    with _lock, _noting(found), _watching(found):
        function(*arguments)
    if found.refused:
        raise NotReplayable(found.refused)
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
                found.steps.append(RecordedLaunch(kernel, (int(x), int(y), int(z)), given))

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
                    found.allocated.append(result)
                if func in filling and result.numel():
                    zero = "zero" in func.name() or _is_zero(args[1] if len(args) > 1 else None)
                    found.steps.append(RecordedFill(result, None if zero else result.clone()))
            elif not getattr(func, "is_view", False):
                found.refuse(f"its host function computes with torch ({func})")
            return result

    with Watch():
        yield


def _is_zero(value: Any) -> bool:
    """Whether a number's bytes are all zero in every dtype."""
    return isinstance(value, int | float) and value == 0 and math.copysign(1, value) > 0
