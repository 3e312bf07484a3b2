"""The loops of a kernel as Pallas sees them: a sequence of phases, each a nest of loops, over one grid.

A Pallas grid runs in order on a core, its last dims fastest, so a ``For`` becomes grid dims and what it carries lives in
scratch between steps.  Several ``For`` in a row become *phases*: a grid dim that says which of them is running.  A loop
of a single step needs no grid dim; its body is written straight into its surroundings.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from portakern.ir.core import Block, Op, Result, yielded
from portakern.ir.program import Array
from portakern.ir.rewrite import canonicalise
from portakern.ir.tile import Axis, For, Kernel

from .constants import integer
from .straight_code import STRAIGHT
from .taps import TapLoop

ReportMissing = Callable[[str, Op | Array | None, str], None]
"""Takes what is missing, the operation it comes from, and what to do instead."""


@dataclass(frozen=True)
class Phase:
    """The loops of one phase, outermost first, and what stands around them.

    ``before[d]`` are the operations run before loop ``d`` starts, inside loop ``d - 1``; ``after[d]`` those run once it
    has ended; ``inside`` the body of the innermost loop.  ``then`` are loops that go on where the innermost one ends, over
    the same axis and with what it carried: they share its grid dim and its scratch.
    """

    loops: tuple[For, ...]
    before: tuple[tuple[Op, ...], ...]
    after: tuple[tuple[Op, ...], ...]
    inside: tuple[Op, ...]
    then: tuple[For, ...] = ()

    @property
    def every(self) -> tuple[For, ...]:
        return (*self.loops, *self.then)

    def bounds(self, loop: For) -> tuple[Op | None, Op | None]:
        """Where the walk that ``loop`` begins starts and ends."""
        return loop.lo, self.then[-1].hi if self.then and loop is self.loops[-1] else loop.hi


def straighten(kernel: Kernel) -> Kernel:
    """``kernel`` with every loop of one step replaced by its body, and every loop of none by what it starts from."""
    env: dict[Op, Op] = {}
    results: dict[Op, tuple[Op, ...]] = {}

    def visit(block: Block) -> list[Op]:
        out: list[Op] = []
        for op in block.ops:
            if isinstance(op, Result) and op.source in results:
                env[op] = results[op.source][op.index]
            elif isinstance(op, For) and (steps := _steps(op, kernel.axis)) == 0:
                results[op] = tuple(env.get(v, v) for v in op.init)
            elif isinstance(op, For) and steps == 1:
                env.update({a: env.get(v, v) for a, v in zip(op.body.args, op.init, strict=True)})
                *inner, last = visit(op.body)
                out += inner
                results[op] = last.operands
            else:
                new = op.remap(lambda o: env.get(o, o), lambda b: Block(b.args, tuple(visit(b))) if b.ops else b)
                env[op] = new
                out.append(new)
        return out

    straight = replace(kernel, body=Block(kernel.body.args, tuple(visit(kernel.body))))
    return canonicalise(straight, STRAIGHT) if results else kernel


def _steps(loop: For, axes: Mapping[str, Axis]) -> int | None:
    """How often a loop runs, where that is certain to be never or once."""
    axis = axes[loop.axis]
    if not isinstance(axis.extent, int):
        return None
    low = 0 if loop.lo is None else integer(loop.lo, axes)
    high = axis.extent if loop.hi is None else integer(loop.hi, axes)
    if low is None or high is None:
        return 0 if axis.extent == 0 else None
    if min(high, axis.extent) <= low // axis.tile * axis.tile:
        return 0
    return 1 if axis.steps == 1 else None


def phases_of(body: Block, report: ReportMissing) -> tuple[Phase, ...]:
    """The phases of a straightened kernel; one phase without loops when it has none."""
    segments, loops = _split(body.ops)
    if not loops:
        return (Phase((), (), (), body.ops),)
    found = []
    groups = _walks(loops)
    for number, (first, *then) in enumerate(groups):
        nest, before = [loops[first]], [tuple(op for n in (first, *then) for op in segments[n])]
        after = [segments[-1] if number == len(groups) - 1 else ()]
        while True:
            parts, inner = _split(nest[-1].body.ops)
            if not inner:
                break
            if len(inner) > 1:
                report("several loops inside a loop", inner[1], "")
            nest.append(inner[0])
            before.append(parts[0])
            after.append(parts[-1])
        found.append(Phase(tuple(nest), tuple(before), tuple(after), nest[-1].body.ops, tuple(loops[n] for n in then)))
    return tuple(found)


def _walks(loops: Sequence[For]) -> list[list[int]]:
    """The numbers of the loops, those together that are one walk cut in two."""
    groups: list[list[int]] = []
    for number, loop in enumerate(loops):
        if groups and _goes_on(loops[number - 1], loop):
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _goes_on(first: For, second: For) -> bool:
    """Whether ``second`` starts where ``first`` ends, over the same axis, from all that it carried."""
    if first.axis != second.axis or first.hi is None or second.lo is not first.hi or len(first.init) != len(second.init):
        return False
    if any(isinstance(op, For) for loop in (first, second) for op in loop.body.ops):
        return False
    return all(isinstance(x, Result) and x.source is first and x.index == n for n, x in enumerate(second.init))


def _split(ops: tuple[Op, ...]) -> tuple[list[tuple[Op, ...]], list[For]]:
    """The operations between the loops of a block, and the loops."""
    segments: list[list[Op]] = [[]]
    loops: list[For] = []
    for op in ops:
        if isinstance(op, For) and not isinstance(op, TapLoop):
            loops.append(op)
            segments.append([])
        else:
            segments[-1].append(op)
    return [tuple(s) for s in segments], loops


def carried_through(outer: For, inner: For) -> dict[int, int]:
    """Values that ``inner`` carries on for ``outer``: position in ``inner`` -> position in ``outer``.

    They can share one scratch buffer: ``inner`` starts from what ``outer`` carries, which nothing else reads, and
    ``outer`` hands on what ``inner`` ends with.
    """
    ends = yielded(outer.body)
    uses = [o for op in outer.body.walk() for o in op.operands]
    shared = {}
    for position, start in enumerate(inner.init):
        for place, arg in enumerate(outer.body.args):
            end = ends[place]
            if (start is arg and uses.count(arg) == 1 and isinstance(end, Result) and end.source is inner
                    and end.index == position):
                shared[position] = place
    return shared


def loops_before(loop: TapLoop, known: Container[Op]) -> list[Op]:
    """What loops over taps outside of ``loop`` end with and its body needs, save what is ``known``.

    Values are written where they are asked for first; a loop that is asked for in another one would run at each of its steps.
    """
    inside = {*loop.body.args, *loop.body.walk()}
    inside |= {arg for op in loop.body.walk() for block in op.regions for arg in block.args}
    found: list[Op] = []
    waiting = [o for op in loop.body.walk() for o in op.operands]
    while waiting:
        op = waiting.pop()
        if op in inside or op in known:
            continue
        inside.add(op)
        if isinstance(op, Result) and isinstance(op.source, TapLoop):
            found.append(op)
        else:
            waiting += op.operands
    return found
