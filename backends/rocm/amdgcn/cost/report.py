"""The model of a launch for readers, in lines, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .instructions import Unit
from .model import WAITS, KernelCost, LoopCost

_SHOWN = (Unit.MATRIX, Unit.VECTOR, Unit.SCALAR, Unit.LDS, Unit.VECTOR_MEMORY)


def lines(cost: KernelCost) -> list[str]:
    """What a reader wants to know of one kernel, the bound first."""
    d, u = cost.device, cost.use
    units = d.figure("units").unit  # CUs, or WGPs
    agprs = f" ({u.agprs} of them accumulation registers)" if u.agprs else ""
    spilled = u.vector_spills + u.scalar_spills
    spills = f", {spilled} registers spilled" if spilled else ", no spills"
    scratch = f", {u.scratch_bytes} B scratch" if u.scratch_bytes else ""
    found = [
        f"{cost.kernel}: at least {cost.us:.1f} us on {d.title or d.name} (estimate), bound by {cost.limiter}",
        f"  {cost.blocks} workgroups of {cost.threads} threads; {u.registers} registers{agprs}{spills}{scratch}, "
        f"{cost.shared_bytes} B LDS; occupancy {cost.fits.share:.0%} ({cost.fits.blocks} workgroups a {units.rstrip('s')}), "
        f"limited by {cost.fits.limiter}",
        f"  {cost.rounds:.3g} round{'s' if cost.rounds > 1 else ''} of {d.count('units')} {units} x {cost.resident}; "
        f"{cost.cycles:.0f} cycles a round with {cost.waves} wave{'s' if cost.waves > 1 else ''} on a SIMD; "
        f"{cost.instructions} instructions a wave: {_mix(cost.mix)}",
    ]
    for loop in cost.loops:
        found += _loop(loop)
    if sum(cost.exposed.values()) > 0.5:
        found.append(f"  exposed, of {cost.cycles:.0f} cycles: {_waits(cost.exposed)}")
    t = cost.traffic
    found.append(
        f"  bytes: {_bytes(t.l2)} asked of L2, {_bytes(t.last_level)} beyond it, {_bytes(t.memory)} of memory, "
        f"{_bytes(t.written)} written"
    )
    found.append(
        "  at least: "
        + ", ".join(f"{us:.1f} us {'to issue it' if k == 'issue' else 'for ' + k}" for k, us in cost.times.items())
    )
    return [*found, *(f"  note: {n}" for n in cost.notes)]


def _loop(x: LoopCost) -> list[str]:
    units = ", ".join(f"{u.value} {x.units.get(u, 0.0):.0f}" for u in _SHOWN if x.units.get(u))
    found = [
        f"  loop {x.label} (lines {x.lines[0]}-{x.lines[1]}), {x.rounds} rounds of {x.cycles:.0f} cycles, {x.waves} "
        f"wave{'s' if x.waves > 1 else ''} on a SIMD: {units}"
    ]
    if x.flops:
        found.append(f"    matrix cores busy {x.matrix_share:.0%}; {x.flops * x.waves / x.cycles:.0f} FLOP a cycle and SIMD")
    if x.lds_best:
        found.append(f"    LDS: {x.lds_best + x.conflicts:.0f} cycles a wave, {x.conflicts:.0f} of them bank conflicts")
    if sum(x.exposed.values()) > 0.5:
        found.append(f"    exposed in a round: {_waits(x.exposed)}")
    found.append(f"    instructions a wave and round: {_mix(x.mix)}")
    return found


def _mix(mix: Mapping[Unit, int]) -> str:
    return ", ".join(f"{n} {u.value}" for u, n in sorted(mix.items(), key=lambda kv: -kv[1]))


def _waits(exposed: Mapping[str, float]) -> str:
    return ", ".join(
        f"{cycles:.0f} {WAITS.get(reason, reason)}"
        for reason, cycles in sorted(exposed.items(), key=lambda kv: -kv[1])
        if cycles >= 0.5
    )


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.1f} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1000
    raise AssertionError


def details(cost: KernelCost) -> dict[str, Any]:
    """All of it as JSON."""

    def named(table: Mapping[Unit, float]) -> dict[str, float]:
        return {u.value: round(float(v), 1) for u, v in table.items()}

    t = cost.traffic
    return {
        "kernel": cost.kernel,
        "product": cost.device.name,
        "us": cost.us,
        "limiter": cost.limiter,
        "at_least_us": dict(cost.times),
        "blocks": cost.blocks,
        "threads": cost.threads,
        "resident_blocks": cost.resident,
        "waves_per_simd": cost.waves,
        "rounds": cost.rounds,
        "cycles": cost.cycles,
        "instructions": named(cost.mix),
        "unit_cycles": named(cost.unit_cycles),
        "exposed_cycles": dict(cost.exposed),
        "occupancy": cost.fits.share,
        "occupancy_limiter": cost.fits.limiter,
        "bytes": {"l2": t.l2, "last_level": t.last_level, "memory": t.memory, "written": t.written, "addresses_known": t.known},
        "loops": [
            {
                "label": x.label,
                "lines": list(x.lines),
                "rounds": x.rounds,
                "cycles": x.cycles,
                "waves": x.waves,
                "unit_cycles": named(x.units),
                "matrix_share": x.matrix_share,
                "exposed_cycles": dict(x.exposed),
                "instructions": named(x.mix),
                "lds_cycles": x.lds_best + x.conflicts,
                "lds_conflict_cycles": x.conflicts,
                "matrix_flops": x.flops,
            }
            for x in cost.loops
        ],
        "notes": list(cost.notes),
    }
