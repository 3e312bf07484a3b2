"""An estimate in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .figures import Core, OperationTime

KernelProfiles = Mapping[str, Mapping[str, Any]]

SMALL_BLOCK = 32 * 1024
"""Bytes of a block below which a copy is mostly latency, which the profile takes as fixed."""

SHORT_STEP = 1000
"""Cycles of a step below which the pipeline's own work is much of it; there the profile errs most (docs/tpu.md)."""

WELL_SEEN = 0.9

_FEW = 3
"""Operations of XLA that are listed one by one."""

_SMALL = 0.02
"""Share of the time below which an operation of XLA is listed with others."""


def limiter(longest: OperationTime | None, kernels: KernelProfiles) -> str:
    """What bounds the operation that takes longest."""
    if longest is None:
        return "nothing is launched"
    if longest.bound == "bytes":
        return "HBM bandwidth"
    kernel = kernels.get(longest.name)
    if kernel is None:
        return f"cycles of XLA's {longest.name}"
    waits = waiting(kernel)
    unit = busiest(kernel)
    if waits > 0.5:
        return "latency of copies that are waited for"
    return f"{unit} slots" if unit else "cycles"


def waiting(kernel: Mapping[str, Any]) -> float:
    """The share of a kernel's cycles that go by waiting for copies."""
    return kernel["waits"] / max(kernel["part_cycles"], 1)


def busiest(kernel: Mapping[str, Any]) -> str:
    used = {u: share for u, share in kernel["utilisation"].items() if u != "copies"}
    return max(used, key=lambda u: used[u]) if used else ""


def confidence(profile: Mapping[str, Any], parts: Sequence[OperationTime], core: Core) -> str:
    """``low: why`` or ``medium: why``; never more, since nothing of it was measured."""
    why = []
    for k in profile["kernels"]:
        if k["by_data"]:
            why.append(f"{k['name']}: data decide which blocks or branches it takes")
        if k["manual"]:
            why.append(f"{k['name']}: it copies by itself: bytes as the profile of {math.prod(k['part'])} of its "
                       f"{k['steps']} steps shows them")  # fmt: skip
        if k["smallest_block"] < SMALL_BLOCK and k["steps"] > 1 and k["waits"] > 0.25 * k["part_cycles"]:
            why.append(f"{k['name']}: blocks of {k['smallest_block'] / 1024:.0f} KiB, whose copies are mostly latency")
        elif waiting(k) > 0.5:
            why.append(f"{k['name']}: waits for copies {waiting(k):.0%} of its cycles")
        if k["steps"] > 1 and k["cycles"] / k["steps"] < SHORT_STEP:
            why.append(f"{k['name']}: steps of {k['cycles'] / k['steps']:.0f} cycles, much of them the pipeline's own")
        if k["seen"] < WELL_SEEN:
            why.append(f"{k['name']}: {1 - k['seen']:.0%} of its steps are of a kind that the profiled part has not")
    operations = profile["operations"]
    why += _named([o["name"] for o in operations if o["times"] is None], "how often it runs is not known")
    why += _named([o["name"] for o in operations if o["cycles"] is None and not o["begun"]], "no cycles known")
    if why:
        return "low: " + "; ".join(dict.fromkeys(why))
    return "medium: the compiler's own schedule, no contention between copies beyond the memory's bandwidth"


def _named(operations: Sequence[str], what: str) -> list[str]:
    """``operations`` of which the same is to be said; of many the first."""
    if len(operations) > _FEW:
        return [f"{operations[0]} and {len(operations) - 1} other operations: {what}"]
    return [f"{name}: {what}" for name in operations]


def lines(us: float, parts: Sequence[OperationTime], kernels: KernelProfiles, core: Core) -> Iterator[str]:
    yield (f"~{us:.1f} us on {core.cores} of {core.of} TensorCore{'s' if core.of > 1 else ''} at {core.clock / 1e9:g} GHz, "
           f"{core.bandwidth / 1e9:.0f} GB/s")  # fmt: skip
    small = [p for p in parts if p.name not in kernels and p.us < _SMALL * us]
    if len(small) > _FEW:
        parts = [p for p in parts if p not in small]
        yield f"{len(small)} operations of XLA around the kernels: {sum(p.us for p in small):.1f} us in all"
    for p in parts:
        yield (
            f"{p.name}: {p.us:.1f} us ({p.bound}), {p.cycles:.0f} cycles are {p.cycles / core.clock * 1e6:.1f} us, "
            f"{p.bytes / 1e6:.2f} MB are {p.bytes / core.bandwidth * 1e6:.1f} us{f', {p.times} times' if p.times > 1 else ''}"
        )
        if (k := kernels.get(p.name)) is not None:
            yield from _kernel_lines(k)


def _kernel_lines(k: Mapping[str, Any]) -> Iterator[str]:
    grid, part = ("x".join(map(str, k[n])) or "1" for n in ("grid", "part"))
    yield f"  grid {grid}, profiled {part}: {k['part_cycles']} cycles; {k['seen']:.0%} of the steps are of a kind seen there"
    used = ", ".join(f"{u} {share:.0%}" for u, share in sorted(k["utilisation"].items(), key=lambda x: -x[1]) if share >= 0.01)
    yield f"  slots used: {used or 'not known'}"
    yield f"  critical path: {path_words(k)}"
    spilled = f"vector registers spilled by {k['spills']} stores and {k['fills']} loads of the code"
    yield f"  {spilled}; VMEM {k['vmem_bytes'] / 2**20:.1f} MiB"


def path_words(k: Mapping[str, Any]) -> str:
    """Where the cycles of a kernel go: bundles issued one after the other, and waits by what is waited for."""
    total = max(k["part_cycles"], 1)
    waits = {"copies": k["waits"], **k["stalls"]}
    stalled = sum(waits.values())
    words = [f"{1 - stalled / total:.0%} issuing bundles"]
    words += [f"{n / total:.0%} waiting for {u}" for u, n in
              sorted(waits.items(), key=lambda x: -x[1]) if n / total >= 0.01]  # fmt: skip
    return ", ".join(words)


def details(parts: Sequence[OperationTime], kernels: KernelProfiles, core: Core) -> dict[str, Any]:
    return {
        "operations": [p.__dict__ for p in parts],
        "kernels": [dict(k) for k in kernels.values()],
        "core": core.__dict__,
    }
