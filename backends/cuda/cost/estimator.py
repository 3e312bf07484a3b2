"""The model as portakern's estimator of CUDA kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from portakern.backend import Availability, CompiledBinary, DispatchSequence, Estimate, Source, Target
from portakern.device import Device, load_devices
from portakern.dtypes import DTYPES
from portakern.ir.program import Program
from portakern.ir.tile import BufferType

from ..sass.disassembler import HINT, disassembled, disassembler
from ..sass.reader import read
from .features import Features, features
from .rates import RATES

VERSION = "6"
"""Raised whenever the same code would be priced otherwise."""


@dataclass(frozen=True)
class Constants:
    """What is free in the model: shares of a bound that kernels reach, the exponent that joins bounds, a launch's own time.

    The defaults are guesses but for memory, of which reads reached 0.92 of the datasheet on an H200 (docs/nvidia.md).
    ``benchmarks/nvidia_estimate.py`` fits them.
    """

    launch_us: float = 1.5
    issue: float = 0.8
    alu: float = 0.8
    tensor: float = 0.8
    shared: float = 0.8
    l2: float = 0.8
    memory: float = 0.9
    latency: float = 1.0
    exponent: float = 4.0


FITTED: Mapping[str, tuple[str, Constants]] = {
    "h200": ("an H200", Constants(1.99, 1.17, 0.609, 0.455, 1.02, 0.756, 0.99, 1.4, 2.88)),
    "sm_90a": ("an H100 SXM", Constants(1.83, 0.653, 0.869, 0.447, 1.04, 0.54, 1.06, 1.46, 4.15)),
}
"""By product, else by instruction set, what ``benchmarks/nvidia_estimate.py`` fitted and on what (docs/from-cuda.md).  More
than 1 is a rate that is higher than the figure in ``rates.py`` or than the part of an array that a cache keeps would allow."""


def constants_of(device: Device) -> tuple[str, Constants]:
    """On what those of a product were fitted, and they; '' and :class:`Constants` as they are where on nothing."""
    return FITTED.get(device.product) or FITTED.get(device.isa) or ("", Constants())


def bounds(f: Features, c: Constants) -> dict[str, float]:
    """Times in us by what a launch would be bound by."""
    return {
        "instructions issued": f.issue / c.issue, "arithmetic pipes": f.alu / c.alu, "tensor cores": f.tensor / c.tensor,
        "shared memory": max(f.shared, f.access) / c.shared, "bytes from and to L2": f.l2 / c.l2,
        "bytes from and to memory": f.memory / c.memory, "latencies that no other warp hides": f.latency * c.latency,
    }  # fmt: skip


def predicted(f: Features, c: Constants) -> float:
    """The bounds joined: near to the longest where one stands out, more where several are alike."""
    found = [v for v in bounds(f, c).values() if v > 0]
    top = max(found, default=0.0)
    joined = top * sum((v / top) ** c.exponent for v in found) ** (1 / c.exponent) if top else 0.0
    return c.launch_us + joined


class CudaEstimator:
    version = VERSION

    def available(self, target: Target) -> Availability:
        if target.device.isa not in RATES:
            return Availability(False, f"the cost model knows {', '.join(RATES)}, not {target.device.isa}")
        if disassembler() is None:
            return Availability(False, f"the cost model reads machine code: {HINT}")
        return Availability(True, f"NVIDIA cost model {VERSION}")

    def estimate(self, source: Source, binary: CompiledBinary, sequence: DispatchSequence, program: Program | None) -> Estimate:
        device = product_of(source.target.device)
        code = read(disassembled(binary.data))
        found = [
            features(d, code[d.kernel], device, footprint({a.array for a in d.args}, source, sequence), boxes(source, d.kernel))
            for d in sequence.dispatches
        ]
        return estimate_of(found, device)


def estimate_of(found: list[Features], device: Device) -> Estimate:
    """The launches one after the other."""
    on, c = constants_of(device)
    each = [predicted(f, c) for f in found]
    limits = [max(bounds(f, c), key=bounds(f, c).__getitem__) for f in found]
    longest = max(range(len(found)), key=each.__getitem__, default=None)
    report = tuple(x for f, us in zip(found, each, strict=True) for x in lines(f, us, c, device))
    fitted = f"constants fitted on {on}" if on else "constants from published figures, fitted on no GPU"
    return Estimate(
        sum(each), limits[longest] if longest is not None else "nothing is launched", "nvidia", VERSION,
        f"a first model for ranking, {fitted}", report,
        {"kernels": [f.to_dict() for f in found]},
    )  # fmt: skip


def lines(f: Features, us: float, c: Constants, device: Device) -> list[str]:
    by = bounds(f, c)
    first = max(by, key=by.__getitem__)
    shown = ", ".join(f"{v:.1f} us {k}" for k, v in sorted(by.items(), key=lambda x: -x[1]) if v >= 0.05)
    said = [
        f"{f.kernel}: about {us:.1f} us on {device.title} (estimate), bound by {first}",
        f"  {f.blocks} blocks of {f.threads} threads, {f.rounds} rounds; {f.registers} registers; "
        f"occupancy {f.occupancy:.0%}, limited by {f.limiter}",
        f"  {f.instructions:.3g} instructions of warps, {f.tensor_flops:.3g} FLOP on tensor cores, {f.flops:.3g} beside them, "
        f"{f.global_bytes:.3g} B asked for, {f.memory_bytes:.3g} B of memory",
        f"  bounds: {shown}",
    ]
    if f.doubts:
        said.append(f"  note: branches on loaded data at lines {', '.join(map(str, f.doubts))}: not taken")
    return said


def footprint(names: set[str], source: Source, sequence: DispatchSequence) -> float:
    """Bytes of the arrays that a launch is given, where all their sizes are known; else 0."""
    sizes: dict[str, float] = dict(sequence.temporaries)
    for a in source.arrays:
        if isinstance(a.type, BufferType) and all(isinstance(n, int) for n in a.type.shape):
            sizes[a.name] = math.prod(int(n) for n in a.type.shape) * DTYPES[a.dtype].bytes  # type: ignore[arg-type]
    mine = {n for n in names if n}
    return float(sum(sizes[n] for n in mine)) if mine <= set(sizes) else 0.0


def boxes(source: Source, kernel: str) -> list[float]:
    """Bytes that the copy engine moves at a time, of each of a launch's maps."""
    dtypes = {a.name: a.dtype for a in source.arrays}
    maps = [m for x in source.launches if x.kernel == kernel for m in x.maps]
    return [float(math.prod(m.box) * DTYPES[dtypes[m.array]].bytes) for m in maps if m.array in dtypes]


def product_of(device: Device) -> Device:
    """The product that is estimated: the one asked for, else its instruction set's own."""
    known = _devices()
    return known[device.product if device.product in known else known[device.isa].default_product]


@cache
def _devices() -> dict[str, Device]:
    return load_devices(Path(__file__).parents[1] / "devices")
