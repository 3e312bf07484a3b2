"""How near a time is to what the device can do: to its measured copy bandwidth, and to the peaks that its maker states.

Bytes are compulsory traffic (every input read and every output written once) and operations those of
:mod:`portakern.spec.cost`; a kernel that does more of either is further from the roof for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portakern.backend import Target
from portakern.device import Device, Figure
from portakern.dtypes import DTYPES
from portakern.errors import PortakernError
from portakern.ir import tensor as t
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.registry import registry
from portakern.spec.cost import cost
from portakern.timing.measure import Contender, Options, measure

if TYPE_CHECKING:
    from portakern import native

COPY_BYTES = 64 << 20, 1 << 30
"""Least and most that a copy moves, one way: eight times the cache within these, and within an eighth of the memory."""

COPY_BUDGET_S = 0.5


@dataclass(frozen=True)
class Copy:
    """The driver's own copy from and to the device's memory: bytes read and written per second."""

    bytes_per_s: float
    method: str


_copies: dict[tuple[str, int, str], Copy | None] = {}


def measured_copy(device: native.Device, again: bool = False, budget_s: float = COPY_BUDGET_S) -> Copy | None:
    """The copy bandwidth of a device, measured once per process; ``None`` where it has no room or no copy.  With ``again`` it
    is measured once more, and the greater one counts from then on.  ``budget_s`` is that of what is held against it: who has
    little time for a row has no more for the copy."""
    key = device.driver, device.ordinal, device.facts.name
    if key not in _copies or again:
        found = [c for c in (_copies.get(key), _measure_copy(device, min(budget_s, COPY_BUDGET_S))) if c is not None]
        _copies[key] = max(found, key=lambda c: c.bytes_per_s, default=None)
    return _copies[key]


def _measure_copy(device: native.Device, budget_s: float) -> Copy | None:
    least, most = COPY_BYTES
    size = max(least, min(most, 8 * (device.facts.cache_bytes or least)))
    size = min(size, (device.facts.memory_bytes or 8 * size) // 8) // 4096 * 4096
    places: list[int] = []
    try:
        places += [device.allocate(size), device.allocate(size)]
        device.fill(places[0], 1, size)
        device.fill(places[1], 2, size)
        to, source = places
        one = Contender("copy", lambda i: device.copy(to, source, size))
        found = measure(device, [one], Options(budget_s=budget_s, min_samples=10, max_samples=200, width=0.005))
        device.synchronize()
    except PortakernError:
        return None
    finally:
        for p in places:
            device.free(p)
    (timing,) = found.timings
    if not timing.median_us > 0:
        return None
    samples = len(timing.samples_us)
    return Copy(2 * size / timing.median_us * 1e6,
                f"the driver's copy of {size >> 20} MiB, read and written, {samples} samples in this process")  # fmt: skip


def product_of(target: Target, device_name: str) -> Device | None:
    """The product that a target stands for: the one it names, else the only one that the silicon's name fits."""
    if target.device.product:
        return target.device
    language = registry().language(target.language)
    found = []
    for name, device in registry().devices(target.language).items():
        if device.product and device.isa == target.device.isa and name.split("-")[0] in device_name.lower().replace(" ", ""):
            runtime = language.runtime
            if runtime is not None and runtime.available(Target(target.language, device)):
                found.append(device)
    return found[0] if len(found) == 1 else None


def roofline(
    program: TensorProgram, median_us: float, copy: Copy | None, product: Device | None
) -> dict[str, Any] | None:
    """The ``roofline`` of a row's time.

    Args:
        program: with every dim bound.
        median_us: the time on the device.
        copy: the measured copy bandwidth.
        product: whose description states the peaks.
    """
    needs = cost(program)
    moved, flops = needs.bytes, needs.flops
    if not isinstance(moved, int) or not isinstance(flops, int) or not median_us > 0:
        return None
    seconds = median_us / 1e6
    stated, shares = _stated(program, product, moved, flops, seconds)
    measured = moved / copy.bytes_per_s / seconds if copy else None
    return {
        "share_of_measured_copy": measured,
        "measured_copy_gbs": copy.bytes_per_s / 1e9 if copy else None,
        "measured_copy": copy.method if copy else None,
        "share_of_stated_peak": max(shares.values(), default=None),
        "stated": stated,
        "limiter": _limiter(measured, shares),
        "bytes": moved,
        "flops": flops,
        "gbs": moved / seconds / 1e9,
        "gflops": flops / seconds / 1e9,
    }


def _stated(program: TensorProgram, product: Device | None, moved: int, flops: int, seconds: float
            ) -> tuple[dict[str, Any] | None, dict[str, float]]:  # fmt: skip
    """The peaks that count, with their sources, and the share reached of each."""
    if product is None:
        return None, {}
    stated: dict[str, Any] = {"product": product.product}
    shares: dict[str, float] = {}
    peak = peak_name(program)
    for name, word, amount in (("bandwidth", "memory", moved), (peak, "arithmetic", flops)):
        figure: Figure | None = product.figures.get(name)
        if figure is not None and figure.value > 0:
            shares[word] = amount / figure.value / seconds
            stated[name] = {"value": figure.value, "unit": figure.unit, "share": shares[word], "source": figure.source}
    return stated, shares


def peak_name(program: TensorProgram) -> str:
    """The figure that bounds the arithmetic: that of the products' operands, else of the widest float computed in."""
    products = [tensor_type(op.lhs).dtype for op in program.body.walk() if isinstance(op, t.Contract | t.SegmentContract)]
    products += [tensor_type(op.x).dtype for op in program.body.walk() if isinstance(op, t.Convolve)]
    if products:
        return f"peak_{products[0]}"
    kinds = t.Map | t.Fold | t.SegmentFold | t.Cumulate | t.AssociativeScan
    computed = (op for op in program.body.walk() if isinstance(op, kinds))
    floats = [tensor_type(op).dtype for op in computed]
    widest = max((d for d in floats if DTYPES[d].is_float), key=lambda d: DTYPES[d].bits, default="f32")
    # Elementwise arithmetic on narrow floats is done in f32, outside the matrix units that their peaks speak of.
    return "peak_f64" if widest == "f64" else "peak_f32"


def _limiter(measured: float | None, shares: dict[str, float]) -> str | None:
    """What the operator would wait for on a perfect kernel."""
    memory = shares.get("memory", measured)
    arithmetic = shares.get("arithmetic")
    if memory is None:
        return None
    return "arithmetic" if arithmetic is not None and arithmetic > memory else "memory"
