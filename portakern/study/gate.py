"""A gate: cases measured before and now, and a verdict on each, so that a CI of kernels can say whether something got worse.

Two runs were not taken in turns, so nothing that slows a machine down for a while cancels out: verdicts go by the intervals of
both medians and leave a margin, and what differs between the runs' machines, clocks and toolchains is said beside them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from portakern.study.row import Row
from portakern.study.table import case_text

MARGIN = 0.03
"""How much slower is no regression, unless asked otherwise: two runs of the same kernel differ by some percent."""

CLOCK_MARGIN = 0.05
"""How far clocks may differ before that is said."""

VERDICTS = ("regressed", "now wrong", "now failing", "missing", "undecided", "same", "improved", "now right")
"""Worst first."""

FAILING = ("regressed", "now wrong", "now failing")
"""What a gate does not let through."""

NOT_HERE = ("no-silicon", "no-device", "not-timed", "timing-disturbed", "tool-missing", "device-lost", "worker-start",
            "cancelled", "deadline")  # fmt: skip
"""Kinds of errors that say something of this machine and nothing of the kernel."""


@dataclass(frozen=True)
class GateVerdict:
    """One case before and now.  ``ratio`` is the time now over the time before, with its interval; ``why`` says what there is
    to say beside that, ``differs`` what is another machine, clock or toolchain."""

    operator: str
    target: str
    case: str
    dtype: str | None
    verdict: str
    before_us: float | None = None
    now_us: float | None = None
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    why: str = ""
    differs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"differs": list(self.differs)}


Case = tuple[str, ...]
"""What makes two rows the same question: operator, target, dtype, sizes, parameters, how caches are treated, and a schedule
that was asked for."""


def case_of(row: Row) -> Case:
    asked = row.schedule or "" if row.schedule_from == "given" else ""
    return row.operator, row.target, row.dtype or "", _text(row.shape), _text(row.params), cache_of(row), asked


def _text(value: Any) -> str:
    return json.dumps(value or {}, sort_keys=True)


def cache_of(row: Row) -> str:
    """``cold`` or ``warm``; '' for a row without a time."""
    return str((row.time or {}).get("mode", "")).partition(":")[0]


def newest(rows: Iterable[Row]) -> dict[Case, Row]:
    """The last row of each case, of those that a later one can be held against: with a time, or found right or wrong."""
    ordered = sorted((r for r in rows if r.time or r.correct is not None), key=taken)
    return {case_of(r): r for r in ordered}


def taken(row: Row) -> str:
    return str(((row.time or {}).get("provenance") or {}).get("taken") or "")


def gate(before: Iterable[Row], now: Iterable[Row], margin: float = MARGIN, why: Mapping[Case, str] | None = None,
         ) -> tuple[GateVerdict, ...]:  # fmt: skip
    """A verdict for each case of ``before``, in its order.

    Args:
        before, now: rows; the newest of each case counts.
        margin: a slowdown up to this is no regression.
        why: of cases that ``now`` lacks, what kept them from being measured.
    """
    known, found, reasons = newest(before), list(now), why or {}
    answers = {case_of(r): r for r in sorted(found, key=taken)}
    # A row that failed before it was timed does not say how caches would have been treated.
    untimed = {case_of(r)[:5]: r for r in found if not r.time}
    return tuple(verdict(a, answers.get(c) or untimed.get(c[:5]), margin, reasons.get(c, "")) for c, a in known.items())


def verdict(before: Row, now: Row | None, margin: float = MARGIN, why: str = "") -> GateVerdict:
    def said(word: str, why: str = "", ratio: tuple[float, float, float] | None = None) -> GateVerdict:
        a, b = ((row.time or {}).get("median_us") if row is not None else None for row in (before, now))
        middle, low, high = ratio or (None, None, None)
        differs = differences(before, now) if now is not None else ()
        return GateVerdict(before.operator, before.target, case_text(before), before.dtype, word, a, b, middle, low, high, why,
                           differs)  # fmt: skip

    if now is None:
        return said("missing", why or "there is no row of it now")
    error = f"{now.error['kind']}: {now.error['message']}" if now.error else ""
    if before.correct and now.correct is False:
        return said("now wrong", error or "its results are not the operator's")
    if before.correct is False:
        return said("now right" if now.correct else "same", "" if now.correct else "wrong before and now")
    if now.error and now.error["kind"] not in NOT_HERE:
        return said("now failing", error)
    if not before.time:
        return said("same", "right before and now, not timed") if now.correct else said("missing", error or "not checked")
    if not now.time:
        return said("missing", error or "not timed now")
    ratio = ratio_of(before.time, now.time)
    return said(word_of(ratio, margin), "", ratio)


def ratio_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[float, float, float]:
    """Time now over time before, with its interval from those of both medians.

    On the logarithm the interval of a difference follows from two that are independent (Zou and Donner, Construction of
    confidence limits about effect measures, 2008): the distances on the sides that count are added as squares.
    """
    (a, a_low, a_high), (b, b_low, b_high) = _logs(before), _logs(now)
    middle = b - a
    low = middle - math.hypot(b - b_low, a_high - a)
    high = middle + math.hypot(b_high - b, a - a_low)
    return math.exp(middle), math.exp(low), math.exp(high)


def _logs(time: Mapping[str, Any]) -> tuple[float, float, float]:
    """Of the median and the ends of its interval.  Without an interval nothing is decided."""
    middle = math.log(time["median_us"])
    low, high = time.get("ci_low_us"), time.get("ci_high_us")
    return middle, math.log(low) if low else -math.inf, math.log(high) if high else math.inf


def word_of(ratio: tuple[float, float, float], margin: float) -> str:
    _, low, high = ratio
    if low > 1 + margin:
        return "regressed"
    if high < 1 / (1 + margin):
        return "improved"
    return "same" if low >= 1 / (1 + margin) and high <= 1 + margin else "undecided"


# ---- what differs -----------------------------------------------------------------------------------------------------------


def differences(before: Row, now: Row) -> tuple[str, ...]:
    """Other machine, silicon, driver, clock or toolchain, in words."""
    a, b = _facts(before), _facts(now)
    found = [f"{name} {a[name]} -> {b[name]}" for name in a if a[name] and b.get(name) and a[name] != b[name]]
    clocks = [_clock(row) for row in (before, now)]
    if all(clocks) and abs(clocks[0] / clocks[1] - 1) > CLOCK_MARGIN:
        found.append(f"clock {clocks[0]:g} -> {clocks[1]:g} MHz")
    marked = [(row.time or {}).get("throttled") or 0 for row in (before, now)]
    if any(marked):
        found.append(f"throttled samples {marked[0]} -> {marked[1]}")
    return tuple(found)


def _facts(row: Row) -> dict[str, Any]:
    here, made = row.environment or {}, (row.time or {}).get("provenance") or {}
    device = made.get("device") or {}
    return {"machine": here.get("machine_id"), "silicon": row.device, "driver": device.get("version"),
            "toolchain": made.get("fingerprint"),
            "budget": ((row.time or {}).get("options") or {}).get("budget_s")}  # fmt: skip


def _clock(row: Row) -> float:
    after = ((row.time or {}).get("clocks") or {}).get("after") or {}
    return float(after.get("clock_mhz") or 0)


# ---- in words ----------------------------------------------------------------------------------------------------------


def passes(verdicts: Sequence[GateVerdict], strict: bool = False) -> bool:
    """Whether nothing got worse, and something could be told.  ``strict`` wants every case decided."""
    words = [v.verdict for v in verdicts]
    if any(w in FAILING for w in words) or all(w == "missing" for w in words):
        return False
    return not strict or not any(w in ("missing", "undecided") for w in words)


def counts(verdicts: Sequence[GateVerdict]) -> dict[str, int]:
    words = [v.verdict for v in verdicts]
    return {w: words.count(w) for w in VERDICTS if w in words}


def common(verdicts: Sequence[GateVerdict]) -> dict[str, int]:
    """What differs, with the number of cases it differs in."""
    found: dict[str, int] = {}
    for v in verdicts:
        for text in v.differs:
            found[text] = found.get(text, 0) + 1
    return found
