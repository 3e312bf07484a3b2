"""Under what a tuned schedule is kept.

The operator is the hash of its tensor program before sizes are put in, so that operators of users are found as those of the
library are, and a change of the math finds nothing.  Constants such as an epsilon are left out of the hash: they change no
loop.  The shape is a bucket: per dim the power of two at or above it, and the largest of 64, 16 and 8 that divides it, since
those decide how rows are cut and how wide accesses may be.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from portakern.backend import Target
from portakern.device import Device
from portakern.ir.core import format_function
from portakern.ir.tensor import TensorProgram

DIVISORS = (64, 16, 8)
EXACT = 8
"""Sizes up to this are buckets of their own."""

_CONSTANT = re.compile(r"literal\((?:-?\d[^,]*), '(?=f|bf)")


@dataclass(frozen=True)
class Key:
    """``operator``: hash of the math; ``bucket``: of the shape; ``device``: a product, an instruction set, a model of CPU."""

    operator: str
    bucket: str
    dtype: str
    language: str
    device: str

    def __str__(self) -> str:
        return f"{self.operator} {self.bucket or 'scalar'} {self.dtype} {self.language}:{self.device}"


def key_of(traced: TensorProgram, sizes: Mapping[str, int], dtype: str, target: Target) -> Key:
    """The key of an operator traced with its dims open, at ``sizes`` (dims without one stay open)."""
    return Key(operator_hash(traced), bucket(traced.dims, sizes), dtype, target.language, device_name(target.device))


def operator_hash(traced: TensorProgram) -> str:
    """Sixteen hex digits of what the program says, floating-point constants left out."""
    text = _CONSTANT.sub("literal(?, '", format_function(traced, locations=False))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def bucket(dims: Any, sizes: Mapping[str, int]) -> str:
    """``M=8192/64,N=1024/8`` for sizes in (4096, 8192] that 64 divides and in (512, 1024] that 8 divides; open dims ``?``."""
    return ",".join(f"{name}={_bucket(sizes.get(name))}" for name in sorted(dims))


def _bucket(size: int | None) -> str:
    if size is None:
        return "?"
    if size <= EXACT:
        return str(size)
    divisor = next((d for d in DIVISORS if size % d == 0), 1)
    return f"{1 << (size - 1).bit_length()}/{divisor}"


def device_name(device: Device) -> str:
    """What targets call it; for CPUs also the model, since ``cpu`` is whichever is here."""
    return f"{device.name}/{_processor()}" if device.kind == "cpu" else device.name


@cache
def _processor() -> str:
    from portakern.tools.environment import machine

    here = machine()
    return f"{here.processor or here.machine}x{here.cores}".replace(" ", "-")


def looked_up(key: Key, device: Device) -> tuple[Key, ...]:
    """Where to look for a device, best first: its own entries, those of its instruction set, and for a bare instruction set
    those of the product that stands for it."""
    names = [key.device]
    if device.product:
        names.append(device.isa)
    elif device.default_product:
        names.append(device.default_product)
    return tuple(replace(key, device=name) for name in names)
