"""Loops over steps between the stages of a program.

A loop takes its sequences and what it captures as arrays, and leaves its results in arrays: what comes before it is one
program, what comes after it another.  A step whose lanes do not meet, or only where a block holds them, is *walked* by one
kernel that carries tiles (:mod:`portakern.lower.recurrence`).  Any other one is *repeated*: its stages become kernels of their
own, which run once a step; carries lie in two arrays each, one that the step reads and one that it writes, which change places
after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from portakern.ir.core import Arg, Op, Result, Yield
from portakern.ir.size import Size
from portakern.ir.tensor import Expand, Iota, Literal, Recur, Reshape, TensorProgram, TensorType, Transpose, tensor_type
from portakern.lower.cuts import program_of, stored_for
from portakern.lower.steps import is_walked, on_arguments
from portakern.lower.uses import users_of


@dataclass(frozen=True)
class Sequence:
    """An array of type ``of`` whose elements along dim ``axis`` belong to a step each."""

    of: TensorType
    axis: int = 0


@dataclass(frozen=True)
class Loop:
    """A loop whose operands are arrays: ``step`` is the program of one step, its arguments and outputs named by arrays.

    Its outputs are the new carries, then what it shows.  Of the arrays in ``sequences`` it has one element.  ``before`` and
    ``after`` name the carries that it takes and gives.  ``begins`` says what carries of a walked loop begin with, where these
    are constants and no arrays; ``unasked`` are outputs that nobody reads; ``numbers`` are arguments of a
    walked step that are no arrays but how many others lie before it in sequences.
    """

    length: Size
    reverse: bool
    walked: bool
    step: TensorProgram
    sequences: Mapping[str, Sequence]
    before: tuple[str, ...]
    after: tuple[str, ...]
    begins: Mapping[str, Op]
    unasked: frozenset[str]
    numbers: tuple[Arg, ...] = ()

    @property
    def carries(self) -> tuple[Op, ...]:
        """The step's arguments that are carries."""
        return self.step.args[: len(self.before)]


Part = TensorProgram | Loop


def parts(program: TensorProgram, fresh: Iterator[str], holds: Callable[[Recur], bool]) -> list[Part]:
    """``program`` cut at its loops, in order.  Arrays between the parts are named by ``fresh`` unless they are outputs.
    ``holds`` says whether blocks can hold what meets in a loop."""
    loops = [op for op in program.body.ops if isinstance(op, Recur)]
    return _Parts(program, loops, fresh, holds).all() if loops else [program]


class _Parts:
    def __init__(self, program: TensorProgram, loops: list[Recur], fresh: Iterator[str], holds: Callable[[Recur], bool]
                 ) -> None:  # fmt: skip
        self.program, self.loops, self.fresh = program, loops, fresh
        self.walked = {loop for loop in loops if is_walked(loop) or holds(loop)}
        self.level = _levels(program)
        users = users_of(program)
        self.landed = {op: self._lands(op, users[op]) for op in program.body.ops if isinstance(op, Result)}
        self.results = list(self.landed.values())
        self.outputs = list(zip(program.results, program.outputs, strict=True))
        self.names = self._names()
        self.stored = stored_for(program, self._whole(), self.level)
        # What a repeated loop begins with is stored for it alone, and so is a sequence that it also reads whole.
        self.own: dict[tuple[Recur, Op, int], str] = {}
        for loop in loops:
            first = enumerate(loop.init) if loop not in self.walked else ()
            both = ((-1, c) for c in loop.captured if c in loop.xs)
            self.own |= {(loop, op, number): next(fresh) for number, op in (*first, *both)}
        for op in (*self.stored, *self.results):
            if op not in self.names:
                self.names[op] = self._ends(op) or next(fresh)

    def all(self) -> list[Part]:
        found: list[Part] = []
        for n in range(1 + max(self.level.values())):
            wanted = [(op, name) for op, name in self.outputs if self.level.get(op, 0) == n and self._unstored(op, name)]
            wanted += [(op, self.names[op]) for op in self.stored
                       if self.level[op] == n and op not in self.program.results and op not in self.results]
            wanted += [(op, name) for (loop, op, _), name in self.own.items() if self.level[loop] == n]
            if wanted:
                earlier = {op: self.names[op] for op in (*self.stored, *self.results) if self._is_there(op, n)}
                found.append(program_of(self.program, [op for op, _ in wanted], [name for _, name in wanted], earlier))
            found += [self._loop(loop) for loop in self.loops if self.level[loop] == n]
        return found

    def _names(self) -> dict[Op, str]:
        """Arrays that are inputs, or outputs that are stored where they are made: a repeated carry lies in one of two."""
        names: dict[Op, str] = {a: a.name for a in self.program.args}
        for op, name in self.outputs:
            carry = isinstance(op, Result) and op.index < len(op.source.init) and op.source not in self.walked  # type: ignore[attr-defined]
            if not carry:
                names.setdefault(op, name)
        return names

    def _ends(self, op: Op) -> str:
        """Where a repeated carry lies when its loop has ended: places have changed by then, names have not."""
        if not isinstance(op, Result) or not isinstance(loop := op.source, Recur) or op.index >= len(loop.init):
            return ""
        return self.own.get((loop, loop.init[op.index], op.index), "")

    def _whole(self) -> set[Op]:
        """Values that loops read as arrays."""
        read = {self._lies(x, loop) for loop in self.loops for x in loop.xs if not self._counts(x, loop)}
        read |= {c for loop in self.loops for c in loop.captured}
        read |= {c for loop in self.walked for c in loop.init if not _constant(c)}
        return {o for o in read if not isinstance(o, Arg | Result) and o not in self.results}

    def _lies(self, x: Op, loop: Recur) -> Op:
        """Where a sequence of ``loop`` lies in memory: one kernel walks an array along any of its dims, as it is, if along this
        one alone."""
        inside = dict(zip(loop.xs, loop.given[1], strict=True))[x]
        if loop not in self.walked or not isinstance(x, Transpose) or not _keeps_others(x) or _is_reshaped(inside, loop):
            return x
        read = [*loop.captured, *loop.init, *(o.x if isinstance(o, Transpose) else o for o in loop.xs if o is not x)]
        return x.x if (isinstance(x.x, Arg) or x.x in self.results) and x.x not in read else x

    def _counts(self, x: Op, loop: Recur) -> bool:
        """Whether the elements of a sequence are the numbers of the steps, which one kernel knows."""
        return loop in self.walked and isinstance(x, Iota) and len(x.shape) == 1

    def _lands(self, result: Result, users: list[Op]) -> Op:
        """What is stored of ``result``: of what a walked loop shows, the view that everyone asks for who has its steps along
        another dim."""
        loop = result.source
        if loop not in self.walked or result.index < len(loop.init):  # type: ignore[attr-defined]
            return result
        view = users[0] if len(users) == 1 else None
        return view if isinstance(view, Transpose) and _puts_in(view) else result

    def _unstored(self, op: Op, name: str) -> bool:
        """Whether an output is not stored by the loop that makes it."""
        return op not in self.results or self.names[op] != name

    def _is_there(self, op: Op, n: int) -> bool:
        return self.level[op] < n or (self.level[op] == n and op in self.results)

    def _loop(self, loop: Recur) -> Loop:
        walked, mine = loop in self.walked, {r.index: op for r, op in self.landed.items() if r.source is loop}  # type: ignore[attr-defined]
        carries, elements, captured = loop.given
        new, shown = loop.gives
        constants = {c for c in loop.init if walked and _constant(c)}
        before = tuple(next(self.fresh) if c in constants else self.names[c] if walked else self.own[loop, c, n]
                       for n, c in enumerate(loop.init))  # fmt: skip
        after = tuple(self.names[mine[n]] if walked and n in mine else next(self.fresh) for n in range(len(new)))
        args: dict[Op, Op] = {a: Arg(name, a.type) for a, name in zip(carries, before, strict=True)}
        shared: dict[object, Arg] = {}
        numbers = {e: Arg(next(self.fresh), e.type) for e, x in zip(elements, loop.xs, strict=True) if self._counts(x, loop)}
        args.update(numbers)
        lie = {x: self._lies(x, loop) for x in loop.xs if not self._counts(x, loop)}
        for inside, outside in (*((e, lie[x]) for e, x in zip(elements, loop.xs, strict=True) if x in lie),
                                *zip(captured, loop.captured, strict=True)):  # fmt: skip
            own = self.own.get((loop, outside, -1)) if inside in captured else None
            name = own or self.names[outside]
            args[inside] = shared.setdefault((name, inside.type), Arg(name, inside.type))
        asked = [(v, mine[n]) for n, v in enumerate(shown, len(new)) if n in mine]
        outputs = (*after, *(self.names[r] for _, r in asked))
        step = on_arguments(self.program, args, [*new, *(v for v, _ in asked)], outputs, walked)
        sequences = {self.names[o]: Sequence(tensor_type(o), 0 if o is x else _to_front(x)) for x, o in lie.items()}
        sequences |= {self.names[r]: Sequence(tensor_type(r), _from_front(r)) for _, r in asked}
        return Loop(
            loop.length, loop.reverse, walked, step, sequences, before, after,
            {name: c for name, c in zip(before, loop.init, strict=True) if c in constants},
            frozenset(name for n, name in enumerate(after) if walked and n not in mine), tuple(numbers.values()),
        )  # fmt: skip


def _levels(program: TensorProgram) -> dict[Op, int]:
    """For every value, how many loops lie one after the other on the longest way to it."""
    level: dict[Op, int] = {}
    for op in program.body.ops:
        if not isinstance(op, Yield):
            level[op] = max((level.get(o, 0) + isinstance(o, Recur) for o in op.operands), default=0)
    return level


def _constant(op: Op) -> bool:
    return isinstance(op, Literal) or (isinstance(op, Expand) and isinstance(op.x, Literal))


def _to_front(op: Op) -> int:
    """Which dim of its operand a view has in front of the others."""
    return op.order[0] if isinstance(op, Transpose) else 0


def _from_front(op: Op) -> int:
    """Where a view has the first dim of its operand."""
    return op.order.index(0) if isinstance(op, Transpose) else 0


def _keeps_others(view: Transpose) -> bool:
    """Whether ``view`` puts one dim in front of the others, which stay in order."""
    return list(view.order[1:]) == sorted(view.order[1:])


def _puts_in(view: Transpose) -> bool:
    """Whether ``view`` puts the first dim behind some of the others, which stay in order."""
    rest = [d for d in view.order if d]
    return rest == sorted(rest)


def _is_reshaped(element: Op, loop: Recur) -> bool:
    """Whether a step sees its ``element`` of a sequence in a shape of other sizes."""
    def sizes(op: Op) -> list[Size]:
        return [s for s in tensor_type(op).shape if s != 1]

    return any(isinstance(op, Reshape) and op.x is element and sizes(op) != sizes(element) for op in loop.step.ops)
