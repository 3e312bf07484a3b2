"""Running values for code that goes from element to element: the tile of a scan, without what goes on to the next tile."""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.ir.core import Op, Result, Type
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import (
    Binary,
    Broadcast,
    Compare,
    Const,
    Coord,
    Kernel,
    Reduce,
    Scan,
    ScanBy,
    Select,
    Start,
    starts_anew,
    tile_type,
)

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


last_values = Rules()


@last_values.on(Result)
def last_of_scan(op: Result) -> Op | None:
    """The last running value of a tile, picked by its coordinate: for languages whose scans give the tile alone."""
    scan = op.source
    if not isinstance(scan, ScanBy) or op.index < len(scan.xs):
        return None
    running = Result(scan, op.index - len(scan.xs))
    dim = next(d for d in tile_type(running).dims if d[0] == scan.axis)
    last = Binary("add", Start(scan.axis), Const(dim[1] - 1, "i32"))
    here = Broadcast(Compare("eq", Coord(scan.axis, (dim,)), last), tile_type(running).dims)
    if tile_type(running).dtype == "bool":
        return Reduce("any", Binary("and", here, running), scan.axis, loc=scan.loc)
    zero = 0.0 if DTYPES[tile_type(running).dtype].is_float else 0
    return Reduce("sum", Select(here, running, Const(zero, tile_type(running).dtype)), scan.axis, loc=scan.loc)


def with_last_values_picked(kernel: Kernel) -> Kernel:
    return canonicalise(kernel, last_values) if any(isinstance(op, ScanBy) for op in kernel.body.walk()) else kernel


def without_scans(kernel: Kernel) -> Kernel:
    return canonicalise(kernel, rules) if any(isinstance(op, Scan) for op in kernel.body.walk()) else kernel


__all__ = ["JOIN", "Running", "with_last_values_picked", "without_scans"]
