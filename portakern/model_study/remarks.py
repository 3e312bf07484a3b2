"""What there is to say of a target beside its table: the call, the roofline, and where a performance engineer looks first."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.model_study.roof import words as roof_words
from portakern.model_study.study import KernelRow, TargetPlan
from portakern.model_study.tables import times_text
from portakern.study.table import bytes_text, us_text

OF = {"time": "of the time", "estimate": "of the estimate", "bound": "of the roofline time"}
LEAST = 0.01
"""Shares below it are not worth a remark."""


def remarks(p: TargetPlan) -> list[str]:
    """A sentence or two each."""
    found = []
    if p.error is not None:
        found.append(f"{p.error['kind']}: {p.error['message']}" + (f"; hint: {hint}" if (hint := p.error.get("hint")) else ""))
    return [*found, *_call(p), *_prepared(p), *_roofline(p), *_hints(p), *_lacking(p)] if p.rows else found


def _call(p: TargetPlan) -> list[str]:
    """Launches, queue and host apart from the time of the kernels."""
    total = p.total()
    if p.whole is None or total is None or p.basis != "time":
        launches = f"{p.launches} launch{'es' if p.launches > 1 else ''} a call; " if p.launches else ""
        return [f"{launches}what queueing and the host add is known where the device is"]
    w = p.whole
    between = w["median_us"] - total
    told = [f"a call takes {us_text(w['median_us'])} us [{us_text(w['ci_low_us'])}, {us_text(w['ci_high_us'])}]",
            f"its kernels one by one {us_text(total)} us"]  # fmt: skip
    told.append(f"launches, memory of temporaries and the rest {us_text(between)} us ({between / w['median_us']:.0%})"
                if between > 0 else "nothing is lost between them")  # fmt: skip
    if w.get("launch_us") is not None:
        told.append(f"the host is busy for {us_text(w['launch_us'])} us of it")
    if w.get("end_to_end_us") is not None:
        told.append(f"alone, from the host and back, {us_text(w['end_to_end_us'])} us")
    return ["; ".join(told), *([p.checked] if p.checked else [])]


def _prepared(p: TargetPlan) -> list[str]:
    kernels = f"{p.prepared} kernel{'s' if p.prepared > 1 else ''}"
    return [f"{kernels} on weights alone, in no figure here: done once, and again when weights change"] if p.prepared else []


def _roofline(p: TargetPlan) -> list[str]:
    bound, gain = p.total("bound"), p.gain(p.rows)
    if bound is None:
        return ["no roofline: nothing states the bandwidth of this device, or measured it"]
    asked = sorted({part.peak for r in p.rows for part in r.needs.parts if part.flops})
    absent = ", ".join(a.removeprefix("peak_") for a in asked if a not in p.roof.peaks)
    known = f"roofline of {roof_words(p.roof, asked)} ({p.roof.says}; launches are not in it)"
    known += f"; no {absent} peak is known: that arithmetic bounds nothing" if absent else ""
    told = f"all kernels at it {us_text(bound)} us"
    if gain:
        of = " (of kernels whose time or estimate is known)" if p.unknown() else ""
        told += f", and so a call {times_text(gain) or '1x'} as fast{of}"
    moved = sum(r.needs.bytes * r.count for r in p.rows)
    floor = f"; kernels move {bytes_text(moved)}; the model as one kernel, {us_text(p.floor.us)} us" if p.floor else ""
    return [f"{known}: {told}{floor}"]


def _hints(p: TargetPlan) -> list[str]:
    weights = [r for r in p.rows if r.weights_only]
    copies = [r for r in p.rows if r.what == "copy" and not r.weights_only]
    cached = [r for r in p.rows if p.basis == "time" and r.bound and r.bound.limiter == "memory" and _us(r) < r.bound.us]
    spilling = [r for r in p.rows if (r.row.resources or {}).get("spills") or (r.row.resources or {}).get("scratch_bytes")]
    told = (
        ("is work on weights alone, which could be done once", weights),
        ("is copies into another layout or place", copies),
        ("is in kernels faster than memory: caches hold what they read", cached),
        ("is in kernels that spill registers", spilling),
    )
    found = [f"{share:.0%} {OF[p.basis]} {words} ({_named(rows, p)})" for words, rows in told
             if (share := sum(p.share(r) or 0.0 for r in rows)) >= LEAST]  # fmt: skip
    moved = sum(r.needs.bytes * r.count for r in p.rows)
    if moved and p.rereads / moved >= 5 * LEAST:
        found.append(f"{p.rereads / moved:.0%} of the bytes are arrays read by a third kernel or a later one: what these "
                     "compute anew could be stored")  # fmt: skip
    return found


def _us(r: KernelRow) -> float:
    return r.us("time") or 0.0


def _named(rows: Sequence[KernelRow], p: TargetPlan) -> str:
    """How many kernels they are, and which of them takes longest."""
    first, count = max(rows, key=lambda r: p.share(r) or 0.0), sum(r.count for r in rows)
    return f"{count} kernels, #{first.number} first" if count > 1 else f"#{first.number}"


def _lacking(p: TargetPlan) -> list[str]:
    """Why kernels were not built, or have no estimate where others do; each reason once, with their numbers."""
    found: dict[str, list[KernelRow]] = {}
    for r in p.rows:
        if r.row.error is not None:
            found.setdefault(f"{r.row.error['kind']}: {r.row.error['message'].splitlines()[0]}", []).append(r)
        elif p.basis == "estimate" and r.us("estimate") is None:
            found.setdefault("no estimate: " + (r.row.method or "").partition("no estimate: ")[2], []).append(r)
    return [f"{', '.join(f'#{r.number}' for r in rows)}: {_short(why)}" for why, rows in found.items()]


def _short(text: str, most: int = 240) -> str:
    return text if len(text) <= most else f"{text[:most]}.. (the JSON has all of it)"
