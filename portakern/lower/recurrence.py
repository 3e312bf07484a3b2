"""The recurrence family: a step whose lanes do not meet, walked by one kernel that carries every lane from step to step.

The lanes are cut up as elementwise work is; along the steps tiles are of one element, so that nothing is exchanged and nothing
is stored between two steps but what a step shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.lower.elementwise import elementwise_domain
from portakern.lower.kernel import Frame, Request, at_most, grid
from portakern.lower.loops import Loop


def lower_recurrence(request: Request, loop: Loop, line: str) -> t.Kernel:
    """The kernel of a walked loop, in which the steps run along the axis ``line``."""
    program, count = request.program, len(loop.before)
    domain, family = elementwise_domain(request)
    live = 1 + sum(1 for a in program.args if tt.tensor_type(a).shape)
    schedule = request.choose(request.nest(family, domain, live))
    at_most(schedule, domain.runs, 2, "axes")
    schedule = replace(schedule, tiles=(*schedule.tiles, (line, 1)))
    frame = Frame(request, domain, [*grid(domain.runs, schedule), t.Axis(line, "loop", loop.length, 1)], schedule, "recurrence")
    b, w, dims = frame.b, frame.w, frame.b.dims(*(r.name for r in domain.runs))

    def tile(op: Op, number: int) -> Op:
        return b.fit(w.value(op, domain.coords(frame.classes_of(number))), dims)

    def body(carried: tuple[Op, ...]) -> Sequence[Op]:
        w.push()
        w.known.update(zip(loop.carries, carried, strict=True))
        new = [tile(program.results[n], n) for n in range(count)]
        for n in range(count, len(program.results)):
            frame.store(n)
        w.pop()
        return new

    first = [(name, tile(loop.begins.get(name, carry), n))
             for n, (name, carry) in enumerate(zip(loop.before, loop.carries, strict=True))]  # fmt: skip
    last = b.loop(line, first, body)
    w.known.update(zip(program.results[:count], last, strict=True))
    for n, name in enumerate(loop.after):
        if name not in loop.unasked:
            frame.store(n)
    return frame.finish()
