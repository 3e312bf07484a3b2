"""From cycles and bytes to a time: what one core of a TPU does in a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from portakern.device import Device, load_devices

from .profile import Mxu

PROFILED = ("v5e", "v5p", "v6e", "tpu7x")
"""Generations that libtpu's static profile knows; it aborts on others ("Dma latency model is currently only supported on
VF/VL/GF/GL", libtpu 0.0.51)."""


@dataclass(frozen=True)
class Core:
    """What a program of one device has: ``cores`` TensorCores of a chip's ``of``, with their share of its memory."""

    clock: float
    bandwidth: float
    peak: float
    cores: int
    of: int


@dataclass(frozen=True)
class OperationTime:
    """One operation's share of a time.  ``bound`` is ``cycles`` or ``bytes``."""

    name: str
    us: float
    cycles: float
    bytes: float
    times: int
    bound: str


def core_of(device: Device, cores: int) -> Core:
    """The product that is estimated: the one asked for, else the instruction set's own."""
    known = _devices()
    product = known[device.product if device.product in known else known[device.isa].default_product]
    units = product.count("units")
    share = cores / units
    return Core(product.value("clock"), product.value("bandwidth") * share, product.value("peak_bf16") * share, cores, units)


@cache
def _devices() -> dict[str, Device]:
    return load_devices(Path(__file__).parent.parent / "devices")


def priced(operations: Sequence[Mapping[str, Any]], core: Core) -> tuple[float, list[OperationTime]]:
    """Microseconds of operations one after the other, each by the larger of its cycles and its bytes.

    Copies that run beside what follows take no time of their own; in all, no program is faster than its bytes.
    """
    parts = []
    for o in operations:
        times = o["times"] or 1
        on_core, on_memory = (o["cycles"] or 0) / core.clock * 1e6, o["bytes"] / core.bandwidth * 1e6
        us = 0.0 if o["begun"] else max(on_core, on_memory) * times
        bound = "cycles" if on_core >= on_memory else "bytes"
        parts.append(OperationTime(o["name"], us, float(o["cycles"] or 0), float(o["bytes"]), times, bound))
    moved = sum(p.bytes * p.times for p in parts) / core.bandwidth * 1e6
    return max(sum(p.us for p in parts), moved), parts


def mxu_of(isa: str) -> Mxu:
    """A generation's matrix units, from its peak: rows per second are the peak over FLOP per row."""
    device = _devices()[_devices()[isa].default_product]
    columns = max(m.n for m in device.matrix)
    units = device.count("mxus")
    rows = device.value("peak_bf16") / (device.count("units") * units * 2 * columns * columns)
    return Mxu(units, device.value("clock") / rows)
