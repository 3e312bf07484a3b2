"""The scan family: running sums (products, extremes) along one axis, with the elementwise work before and after them.

A line that fits in a tile is scanned at once; a longer one is walked, and the running value so far is carried from tile to
tile.  Where the axis is not contiguous its tile is mostly one coordinate: then the scan is the carried value itself, and
neighbouring lines go down side by side.  A line that is walked from its end is read and written through flipped indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op, Result
from portakern.ir.schedule import Schedule
from portakern.lower.domain import Domain, Run, innermost, merge, real
from portakern.lower.kernel import Frame, Lowered, Request, along, at_most, covered, grid
from portakern.lower.parts import parts_of
from portakern.lower.rows import COMBINE, operand_coords
from portakern.lower.scan_parts import ScanInParts, depends
from portakern.lower.simplify import identity
from portakern.lower.tiles import wide


def lower_scan(request: Request, in_parts: bool = True) -> Lowered:
    """One kernel, or three where the schedule asks for parts of lines."""
    scans = [op for op in request.program.body.ops if isinstance(op, tt.Cumulate)]
    domain = scan_domain(request, scans[0])
    (line,), parallel = domain.role("scanned"), domain.role("parallel")
    live = sum(1 for dims in request.accesses() if len(real(dims)) == len(domain.runs))
    schedule = request.choose(request.nest("scan", domain, max(2, live), passes=2 if depends(scans) else 1))
    at_most(schedule, parallel, 1, "parallel axes")
    if in_parts and (parts := parts_of(schedule)) > 1:
        if scans[0].reverse:
            from_the_end(domain, line)

        def store(frame: Frame, carried: tuple[Op, ...]) -> Sequence[Op]:
            return _step(frame, line, scans, carried, False)

        totals = partial(lower_scan, in_parts=False)
        return ScanInParts(request, domain, schedule, scans, parts, totals).lowered(store)
    return Lowered((_whole(request, domain, schedule, scans),))


def _whole(request: Request, domain: Domain, schedule: Schedule, scans: Sequence[tt.Cumulate]) -> t.Kernel:
    """Blocks that each have whole lines."""
    (line,), parallel = domain.role("scanned"), domain.role("parallel")
    frame = Frame(request, domain, [*grid(parallel, schedule), along(line, schedule)], schedule, "scan")
    if covered(line, schedule):
        _step(frame, line, scans, _start(frame, line, scans), scans[0].reverse)
        return frame.finish()
    if scans[0].reverse:
        from_the_end(domain, line)

    def body(carried: tuple[Op, ...]) -> Sequence[Op]:
        frame.w.push()
        totals = _step(frame, line, scans, carried, False)
        frame.w.pop()
        return totals

    names = [f"total{n or ''}" for n in range(len(scans))]
    frame.b.loop(line.name, list(zip(names, _start(frame, line, scans), strict=True)), body)
    return frame.finish()


def from_the_end(domain: Domain, line: Run) -> None:
    """Let what walks ``line`` see its last element first."""
    domain.place[line.classes[0]] = t.Index((t.Term(line.name, -1),), line.extent - 1)


def scan_domain(request: Request, scan: tt.Cumulate | tt.AssociativeScan) -> Domain:
    """The axis ``scanned`` along, and those of the lines beside each other."""
    classes = request.classes
    line = classes.of(scan)[scan.axis]
    seen, apart = request.accesses(), request.unmergeable()
    runs = merge([c for c in real(classes.of(scan)) if c is not line], "parallel", seen, apart)
    inner = innermost(d for d in seen if len(real(d)) == len(real(classes.of(scan))))
    contiguous = inner[0] if inner else line
    along = Run((line,), "scanned")
    # The contiguous axis is the last dim of a tile.
    return Domain([*runs, along] if contiguous is line or not runs else [*runs[:-1], along, runs[-1]], contiguous)


def _start(frame: Frame, line: Run, scans: Sequence[tt.Cumulate]) -> list[Op]:
    """Nothing so far, for every line."""
    dims = frame.b.dims(*(r.name for r in frame.domain.runs if r is not line))
    return [frame.b.full(identity(s.fn, _dtype(s)), _dtype(s), dims) for s in scans]


def _dtype(scan: tt.Cumulate) -> str:
    return wide(tt.tensor_type(scan).dtype)


def _step(frame: Frame, line: Run, scans: Sequence[tt.Cumulate], carried: Sequence[Op], reverse: bool) -> list[Op]:
    """One tile of every scan, then what is stored of it; gives what goes on to the next tile."""
    b, axis = frame.b, frame.b.axis[line.name]
    dims = b.dims(*(r.name for r in frame.domain.runs))
    totals: list[Op] = []
    for scan, carry in zip(scans, carried, strict=True):
        x = b.fit(frame.w.value(scan.x, operand_coords(frame, scan)), dims)
        if axis.tile == 1:
            totals.append(b.binary(COMBINE[scan.fn], carry, x))
            frame.w.known[scan] = carry if scan.exclusive else totals[-1]
            continue
        if axis.ragged:
            x = b.add(t.Mask(x, line.name, identity(scan.fn, _dtype(scan))))
        both = b.add(t.Scan(scan.fn, x, line.name, carry, reverse, scan.exclusive, loc=scan.loc))
        frame.w.known[scan] = b.add(Result(both, 0))
        totals.append(b.add(Result(both, 1)))
    for number in range(len(frame.request.program.outputs)):
        frame.store(number)
    return totals
