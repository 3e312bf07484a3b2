"""The cost model as portakern's estimator of AMD code objects."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from portakern.backend import Availability, CompiledBinary, Dispatch, DispatchSequence, Estimate, Source, Target
from portakern.device import Device, load_devices
from portakern.dtypes import DTYPES
from portakern.ir.program import Program
from portakern.ir.tile import BufferType

if TYPE_CHECKING:
    from .model import KernelCost

MODELLED = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
VERSION = "7"
"""Raised whenever the same code would be priced otherwise."""


class AmdEstimator:
    """For every language that is compiled to code objects."""

    version = VERSION

    def available(self, target: Target) -> Availability:
        if target.device.isa not in MODELLED:
            return Availability(False, f"the cost model knows {', '.join(MODELLED)}, not {target.device.isa}")
        return Availability(True, f"AMD cost model {VERSION}")

    def estimate(self, source: Source, binary: CompiledBinary, sequence: DispatchSequence, program: Program | None) -> Estimate:
        from .model import price  # with numpy: a manifest is imported on every start

        found = [price(d, product_of(source.target.device), footprint(d, source, sequence)) for d in sequence.dispatches]
        return estimate_of(found)


def estimate_of(found: list[KernelCost]) -> Estimate:
    """The launches one after the other."""
    from .report import details, lines

    us = sum(c.us for c in found)
    longest = max(found, key=lambda c: c.us, default=None)
    return Estimate(
        us,
        longest.limiter if longest is not None else "nothing is launched",
        "amd",
        VERSION,
        "a bound for ranking: no launch overhead, no clock reduction, no contention beyond the modelled",
        tuple(x for c in found for x in lines(c)),
        {"kernels": [details(c) for c in found]},
    )


def footprint(dispatch: Dispatch, source: Source, sequence: DispatchSequence) -> float:
    """Bytes of the arrays that a launch is given, where all their sizes are known; else 0."""
    sizes = dict(sequence.temporaries)
    for a in source.arrays:
        if isinstance(a.type, BufferType) and all(isinstance(n, int) for n in a.type.shape):
            sizes[a.name] = math.prod(int(n) for n in a.type.shape) * DTYPES[a.dtype].bytes  # type: ignore[arg-type]
    names = {a.array for a in dispatch.args if a.array}
    return float(sum(sizes[n] for n in names)) if names <= set(sizes) else 0.0


def product_of(device: Device) -> Device:
    """The product that is estimated, as this backend describes it: the one asked for, else its instruction set's own."""
    known = _devices()
    return known[device.product if device.product in known else known[device.isa].default_product]


@cache
def _devices() -> dict[str, Device]:
    return load_devices(Path(__file__).parents[2] / "devices")
