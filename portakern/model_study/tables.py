"""A study as tables of cells, for the terminal and for the page alike.

Times, estimates and bounds never share a column, and where one is beside the share of a target its sign says which it is.
"""

from __future__ import annotations

from collections.abc import Callable

from portakern.model_study.places import Cell, side_by_side
from portakern.model_study.study import KernelRow, ModelStudy, TargetPlan
from portakern.study.table import bytes_text, resources_text, us_text

NAMES = {"time": "time us", "estimate": "~estimate us", "bound": "roofline us"}
"""What a column of each basis is called; an estimate and a bound have a sign before every figure, too."""
SIGNS = {"time": "", "estimate": "~", "bound": ">="}

Table = list[list[str]]


def heading(study: ModelStudy) -> str:
    return (f"{study.model}, {study.shape}: {count_text(study.needs.flops)}FLOP, {bytes_text(study.needs.bytes)} of inputs and "
            f"outputs, {bytes_text(study.weights)} of that weights")  # fmt: skip


def targets_table(study: ModelStudy) -> Table:
    """One line per target: what is known of the whole, each kind of figure in a column of its own."""
    head = ["target", "device", "evidence", "launches", "whole call us", "kernels us", "~estimate us", "roofline us", "gain"]
    return [head, *map(_target_line, study.plans)]


def _target_line(p: TargetPlan) -> list[str]:
    bound = p.total("bound")
    whole = us_text(p.whole["median_us"]) if p.whole else ""
    roof = figure(bound, "bound") if bound else ""
    return [p.target, p.device, (p.evidence or "-") + (" !" if p.error else ""), str(p.launches or ""), whole,
            _total(p, "time"), _total(p, "estimate"), roof, times_text(p.gain(p.rows))]  # fmt: skip


def _total(p: TargetPlan, basis: str) -> str:
    total = p.total(basis)
    if total is None or p.basis != basis:
        return ""
    pieces = sum(r.count for r in p.rows)
    return figure(total, basis) + (f" ({pieces - p.unknown()} of {pieces})" if p.unknown() else "")


def places_table(study: ModelStudy, rows: int) -> Table:
    """One line per place of the model, equal layers together; the share of each target's whole."""
    plans = [p for p in study.plans if p.rows]
    found = side_by_side(plans)
    lines = [[name, *map(_cell, cells)] for name, cells in found[:rows]]
    if len(found) > rows:
        rest = [Cell.together([cells[n] for _, cells in found[rows:]]) for n in range(len(plans))]
        lines.append([f"{len(found) - rows} more", *map(_cell, rest)])
    return [["us of all layers, share of the target", *(p.target for p in plans)], *lines]


def _cell(cell: Cell) -> str:
    if cell.us is None:
        return "-"
    return figure(cell.us, cell.basis) + (f" {cell.share:4.0%}" if cell.share is not None else "")


def kernels_table(p: TargetPlan, rows: int) -> Table:
    """The kernels that take longest, each figure of one of its ``n``; and all others in one line."""
    columns = _columns(p)
    ranked = p.ranked
    lines = [[of(r) for _, of in columns] for r in ranked[:rows]]
    if rest := ranked[rows:]:
        total, share = sum((r.us(p.basis) or 0.0) * r.count for r in rest), sum(p.share(r) or 0.0 for r in rest)
        told = {"kernel": f"{len(rest)} more, all of them", "n": str(sum(r.count for r in rest)),
                NAMES[p.basis]: figure(total, p.basis), "share": f"{share:.1%}"}  # fmt: skip
        lines.append([told.get(name, "") for name, _ in columns])
    return [[name for name, _ in columns], *lines]


def _columns(p: TargetPlan) -> list[tuple[str, Callable[[KernelRow], str]]]:
    """What is shown of each kernel: gains where there is more than a bound, resources where there is no time."""
    def share(r: KernelRow) -> str:
        part = p.share(r)
        return "" if part is None else f"{part:.1%}"

    def reached(r: KernelRow) -> str:
        us = r.us(p.basis)
        return f"{r.bound.us / us:.0%}" if r.bound and us else ""

    basis = [(NAMES[p.basis], lambda r: figure(r.us(p.basis), p.basis))] if p.basis != "bound" else []
    gains = [("reached", reached), ("gain", lambda r: times_text(p.gain([r])))] if p.basis != "bound" else []
    uses = [("resources", lambda r: resources_text(r.row))] if p.basis != "time" else []
    return [
        ("kernel", lambda r: r.name), ("#", lambda r: str(r.number)), ("what", what), ("n", lambda r: str(r.count)), *basis,
        ("share", share), ("bytes", lambda r: bytes_text(r.needs.bytes)), ("FLOP", lambda r: count_text(r.needs.flops)),
        (NAMES["bound"], lambda r: figure(r.bound.us, "bound") if r.bound else ""),
        ("by", lambda r: r.bound.limiter if r.bound else ""), *gains, *uses,
    ]  # fmt: skip


def what(r: KernelRow) -> str:
    words = f"{r.what} of {r.launches} launches" if r.launches > 1 else r.what
    return f"{words} (weights)" if r.weights_only else words


# ---- figures -------------------------------------------------------------------------------------------------------------


def figure(us: float | None, basis: str) -> str:
    """Microseconds with the sign of their kind."""
    return "?" if us is None else f"{SIGNS[basis]}{us_text(us)}"


def times_text(gain: float | None) -> str:
    """``1.24x``; nothing for what is no gain."""
    if gain is None or gain < 1.005:
        return ""
    return f"{gain:.2f}x" if gain < 10 else f"{gain:.0f}x"


def count_text(count: float) -> str:
    for unit in ("", "K", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} T"
