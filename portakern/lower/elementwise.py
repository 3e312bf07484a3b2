"""The elementwise and transpose families: no reduction, every output element computed from loads at its coordinates."""

from __future__ import annotations

from portakern.ir import tensor as tt
from portakern.ir.tile import Kernel
from portakern.lower.classes import AxisClass
from portakern.lower.domain import Domain, Run, innermost, merge, of_result, real
from portakern.lower.kernel import Frame, Request, at_most, grid


def lower_elementwise(request: Request) -> Kernel:
    domain, family = elementwise_domain(request)
    live = 1 + sum(1 for a in request.program.args if tt.tensor_type(a).shape)
    schedule = request.choose(request.nest(family, domain, live))
    at_most(schedule, domain.runs, 2, "axes")
    frame = Frame(request, domain, grid(domain.runs, schedule), schedule, family)
    for number in range(len(request.program.outputs)):
        frame.store(number)
    return frame.finish()


def elementwise_domain(request: Request) -> tuple[Domain, str]:
    """The axes of a stage that reduces nothing, and whether its tiles are transposed on their way (the family)."""
    program, classes = request.program, request.classes
    order = real(c for number in range(len(program.results)) for c in of_result(program, classes, number))
    seen = request.accesses()
    inner = innermost(seen)
    target = order[-1] if order else None
    sources = [c for c in inner if c is not target]
    # Arrays contiguous along another axis than the output, and none that agrees with it: a transpose in the tile.
    big = [dims for dims in seen if set(real(dims)) == set(order)]
    source = next((real(d)[-1] for d in big if real(d) and real(d)[-1] is not target), None)
    apart = request.unmergeable() | request.lying_apart()
    if source is not None and sources:
        pair = {source, target}
        runs = merge(order, "parallel", seen, apart | pair)  # type: ignore[arg-type, operator]
        roles = {source: "source", target: "target"}
        runs = [Run(r.classes, roles.get(r.classes[0], "parallel") if len(r.classes) == 1 else "parallel") for r in runs]
        return Domain(runs, target), "transpose"
    keep_last = {target} if target is not None and len(order) > 1 and _long(target.extent) else set()
    return Domain(merge(order, "parallel", seen, apart | keep_last) or [ONE], target), "elementwise"


ONE = Run((AxisClass("i", 1),), "parallel")
"""The axis of a kernel that computes a single element."""


def _long(extent: object) -> bool:
    """Whether an innermost axis is long enough to be tiled by itself; a short one is merged with its neighbours."""
    return not isinstance(extent, int) or extent >= 64
