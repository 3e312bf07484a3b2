"""Running values for code that goes from element to element: the tile of a scan, without what goes on to the next tile."""

from __future__ import annotations

from portakern.ir.core import Op, Result, Type
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Binary, Kernel, Reduce, Scan, starts_anew, tile_type

JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}

rules = Rules()


class Running(Op):
    """Running ``fn`` of ``x`` along ``axis``, joined to what came ``before`` (``None``: nothing)."""

    fn: str
    x: Op
    axis: str
    before: Op | None
    reverse: bool
    exclusive: bool

    def infer(self) -> Type:
        return tile_type(self.x)


@rules.on(Result)
def result_of_scan(op: Result) -> Op | None:
    """A scan's tile runs from element to element; its total is a reduction, which shares that loop."""
    scan = op.source
    if not isinstance(scan, Scan):
        return None
    if op.index == 0:
        before = None if starts_anew(scan) else scan.carry
        return Running(scan.fn, scan.x, scan.axis, before, scan.reverse, scan.exclusive, loc=scan.loc)
    return Binary(JOIN[scan.fn], scan.carry, Reduce(scan.fn, scan.x, scan.axis, loc=scan.loc), loc=scan.loc)


def without_scans(kernel: Kernel) -> Kernel:
    return canonicalise(kernel, rules) if any(isinstance(op, Scan) for op in kernel.body.walk()) else kernel


__all__ = ["JOIN", "Running", "without_scans"]
