"""Scans by a function of the operator's own, with the elementwise work before and after them.

They go along their lines as running sums do (:mod:`portakern.lower.scan`), but for two things.  The function has no identity
that is known: what the first tile finds is joined with nothing.  And nothing can be put where a line has no elements: a line
that is scanned from its end is read and written through flipped indices, so that it is the end of the walk that is ragged.
"""

from __future__ import annotations

from collections.abc import Sequence

from portakern.dtypes import DTYPES
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result
from portakern.lower.domain import Run, real
from portakern.lower.kernel import Frame, Request, along, at_most, covered, grid
from portakern.lower.rows import operand_coords
from portakern.lower.scan import from_the_end, scan_domain
from portakern.lower.tiles import wide

Together = list[tt.AssociativeScan]
"""The results of one scan that somebody asks for."""


def lower_associative(request: Request) -> t.Kernel:
    scans = _together(request.program)
    domain = scan_domain(request, scans[0][0])
    (line,), parallel = domain.role("scanned"), domain.role("parallel")
    live = sum(1 for dims in request.accesses() if len(real(dims)) == len(domain.runs))
    schedule = request.choose(request.nest("associative", domain, max(2, live)))
    at_most(schedule, parallel, 1, "parallel axes")
    frame = Frame(request, domain, [*grid(parallel, schedule), along(line, schedule)], schedule, "associative")
    if scans[0][0].reverse:
        from_the_end(domain, line)
    if covered(line, schedule):
        _step(frame, line, scans, ())
        return frame.finish()
    carried = [(f"{name}_so_far", _nothing(frame, line, x))
               for scan, *_ in scans for name, x in zip(_names(scan), scan.xs, strict=True)]  # fmt: skip

    def body(so_far: tuple[Op, ...]) -> Sequence[Op]:
        frame.w.push()
        new = _step(frame, line, scans, so_far)
        frame.w.pop()
        return new

    frame.b.loop(line.name, carried, body)
    return frame.finish()


def _together(program: tt.TensorProgram) -> list[Together]:
    found: dict[object, Together] = {}
    for op in program.body.ops:
        if isinstance(op, tt.AssociativeScan):
            found.setdefault(op.whole, []).append(op)
    return list(found.values())


def _names(scan: tt.AssociativeScan) -> list[str]:
    """What its arrays are called in its function."""
    return [a.name.removesuffix("_left") for a in scan.join.args[: len(scan.xs)]]  # type: ignore[attr-defined]


def _nothing(frame: Frame, line: Run, x: Op) -> Op:
    """What a line begins with, which nobody reads."""
    dtype = wide(tt.tensor_type(x).dtype)
    kind = DTYPES[dtype]
    zero = 0.0 if kind.is_float else 0 if kind.is_int else False
    return frame.b.full(zero, dtype, frame.b.dims(*(r.name for r in frame.domain.runs if r is not line)))


def _step(frame: Frame, line: Run, scans: Sequence[Together], so_far: Sequence[Op]) -> list[Op]:
    """One tile of every scan, then what is stored of it; gives what goes on to the next tile.  Without ``so_far`` the tile is
    the whole line."""
    b, w = frame.b, frame.w
    dims, left = b.dims(*(r.name for r in frame.domain.runs)), list(so_far)
    first = b.compare("eq", b.add(t.Start(line.name)), b.const(0, "i32")) if left else None
    ends: list[Op] = []
    for together in scans:
        scan, n = together[0], len(together[0].xs)
        xs = [b.fit(w.value(x, operand_coords(frame, scan, i)), dims) for i, x in enumerate(scan.xs)]
        tiles, totals = _scanned(frame, line, scan, xs)
        before, left = left[:n], left[n:]
        if first is not None:
            joined = w.apply(scan.join, (*(b.broadcast(c, dims) for c in before), *tiles))
            tiles = [b.select(first, x, y) for x, y in zip(tiles, joined, strict=True)]
            both = w.apply(scan.join, (*before, *totals))
            totals = [b.select(first, x, y) for x, y in zip(totals, both, strict=True)]
        w.known.update((op, tiles[op.number]) for op in together)
        ends += totals
    for number in range(len(frame.request.program.outputs)):
        frame.store(number)
    return ends


def _scanned(frame: Frame, line: Run, scan: tt.AssociativeScan, xs: Sequence[Op]) -> tuple[list[Op], list[Op]]:
    """Running values within a tile, and the last of them."""
    if frame.b.axis[line.name].tile == 1:
        return list(xs), list(xs)
    both = frame.b.add(t.ScanBy(tuple(xs), line.name, _in_tiles(frame, scan), loc=scan.loc))
    results: list[Op] = [frame.b.add(Result(both, i)) for i in range(2 * len(xs))]
    return results[: len(xs)], results[len(xs) :]


def _in_tiles(frame: Frame, scan: tt.AssociativeScan) -> Block:
    """The function of ``scan`` on scalars of the dtypes that are computed in."""
    types = [(a.name, t.TileType((), wide(tt.tensor_type(a).dtype))) for a in scan.join.args]  # type: ignore[attr-defined]
    return frame.b.block(types, lambda args: frame.w.apply(scan.join, args))
