"""The door to lowering: everything that cannot be lowered is known first, then every stage becomes a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

from portakern.backend import Missing
from portakern.dtypes import DTYPES
from portakern.errors import IRError, LoweringError, LoweringGap, MissingRuleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Loc, Op, Result, Yield
from portakern.ir.planes import Planes, never
from portakern.ir.program import Array, ArrayFacts, Computed, Program, Repeat, verify_program
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.size import Size, Sym, product, quotients
from portakern.lower import at_once, held, regular, searches, shown_sums, steps
from portakern.lower.asked import asked_only
from portakern.lower.associative import lower_associative
from portakern.lower.attention import lower_attention
from portakern.lower.chain import lower_chain
from portakern.lower.classes import axis_classes, meeting_themselves
from portakern.lower.contraction import lower_contraction, lower_pair
from portakern.lower.cuts import ANCHORS, program_of
from portakern.lower.domain import array_types, of_result
from portakern.lower.elementwise import lower_elementwise
from portakern.lower.grouped import lower_grouped
from portakern.lower.halves import with_halves
from portakern.lower.held import step_of
from portakern.lower.held_axes import held_axes
from portakern.lower.kernel import Choose, Joins, Lowered, NoSchedule, Request, always
from portakern.lower.loops import Loop, parts
from portakern.lower.placing import Line, Placed
from portakern.lower.recurrence import lower_recurrence
from portakern.lower.rolls import rolled_in_place
from portakern.lower.row_parts import lower_rows_or_parts
from portakern.lower.scan import lower_scan
from portakern.lower.segments import lower_segments
from portakern.lower.simplify import simplify
from portakern.lower.sort import lower_sort
from portakern.lower.split import Stage, stages
from portakern.lower.thin import Multiplies, Units, as_rows, without_products
from portakern.lower.tiles import wide

LOWERED = (tt.Literal, tt.DimSize, tt.Iota, tt.Map, tt.Convert, tt.BitConvert, tt.Expand, tt.Reshape, tt.Transpose,
           tt.Slice, tt.Flip, tt.Fold, tt.SegmentFold, tt.Cumulate, tt.AssociativeScan, tt.KeySort, tt.Contract,
           tt.SegmentContract, tt.Gather, tt.Windows, tt.Assemble)

Facts = Mapping[str, ArrayFacts]


def unsupported(block: Block) -> list[Missing]:
    """Every operation of ``block`` that no family lowers, with the operator's line."""
    known = (*LOWERED, tt.Recur, Yield, Result)
    found = [Missing(_why_not(op), str(op.loc or "")) for op in block.ops if not isinstance(op, known)]
    return found + [m for op in block.ops if isinstance(op, tt.Recur) for m in unsupported(op.step)]


def _why_not(op: Op) -> str:
    if isinstance(op, tt.ArgFold):
        return f"arg{op.fn} along a dim of 0 elements, which has no {'largest' if op.fn == 'max' else 'smallest'}"
    return f"no lowering of {op.mnemonic()} yet"


def _check_reshapes(program: tt.TensorProgram) -> None:
    """Raises :class:`LoweringError` for a reshape that keeps the elements of some sizes of open dims only."""
    for op in program.body.walk():
        if isinstance(op, tt.Reshape) and product(tt.tensor_type(op.x).shape) != product(op.shape):
            shapes = [f"[{', '.join(map(str, s))}]" for s in (tt.tensor_type(op.x).shape, op.shape)]
            asked = {f"{q.numerator} is a multiple of {q.divisor}": f'"{q.divisor}*H" for {q.numerator}'
                     for s in (*tt.tensor_type(op.x).shape, *op.shape) for q in quotients(s)}  # fmt: skip
            raise LoweringError(f"a reshape from {shapes[0]} to {shapes[1]} is right only where {' and '.join(asked)}, and an "
                                f"open dim need not be",
                                hint=f"declare it so ({', '.join(asked.values())} in the annotation), or build for given sizes",
                                where=str(op.loc or ""))


def _said(missing: Missing) -> str:
    where, instead = missing.where and f" ({missing.where})", missing.alternative and f"; instead: {missing.alternative}"
    return f"{missing.what}{where}{instead}"


def lower(program: tt.TensorProgram, choose: Choose, names: Mapping[str, tuple[str, ...]] | None = None,
          facts: Facts | None = None, reach: bool = False, picks: bool = True, run: int = 1024,
          shares: bool = True, step: int = 16, columns: bool = True, halves: bool = True, heads: bool = True,
          units: Units = always, planes: Planes = never, multiplies: Multiplies = always,
          joins: Joins = always, default: Choose | None = None, holds_parts: bool = True,
          picks_columns: bool = True) -> Program:  # fmt: skip
    """Kernels for ``program`` with the schedule that ``choose`` answers for each nest.

    ``names`` gives names of the axes of arguments' dims; ``facts`` what is known of arrays that are not contiguous and
    16-byte aligned; ``reach`` is whether loads may take pixels of convolutions one by one, some of them outside of their array,
    ``columns`` whether few channels of them are put side by side with their neighbours' first, ``picks`` whether loads may take
    single elements at computed coordinates, ``run`` how many elements a tile sorts, ``shares`` whether kernels may store to one
    part of an array that others read another part of (see :class:`portakern.backend.Language`), ``step`` the smallest groups
    that products walk, ``halves`` whether halves of a product that meet are products of their own, ``heads`` halves of heads
    as well (:mod:`halves`), ``units`` of which dtypes of 16 bits any multiply matrices (:mod:`thin`), ``planes`` for
    which convolutions loads take pixels of planes with all their taps, ``multiplies`` whether products of integers of one dtype
    are summed in another: those of others are sums of rows, ``joins`` whether two neighbouring dims of an array may be seen as
    one, by their sizes and how many dims lie inside of them.  ``default`` answers as ``choose`` does, for a nest that is only
    asked about, before it is known whether there will be such a kernel, and ``holds_parts`` is whether a block that walks steps
    may have a part of an axis that it sums along (:mod:`held_axes`).  ``picks_columns`` is whether neighbours in a row may be
    picked one by one as fast as they are copied side by side (:mod:`rolls`).

    Raises :class:`MissingRuleError` listing every operation that has no lowering, and :class:`LoweringError` or
    :class:`IRError` for what no kernel can be made of.
    """
    _check_reshapes(program)
    loops = steps.rules + held.rules + at_once.rules + (shown_sums.rules if holds_parts else Rules())
    rules = loops if picks else loops + searches.rules + regular.rules
    stepped = canonicalise(rolled_in_place(program, picks_columns) if picks else program, rules)
    while (smaller := asked_only(stepped)) is not stepped:
        stepped = canonicalise(smaller, rules)
    simplified = simplify(stepped, reach, picks, run, shares, step, columns, planes)
    if halves and (halved := with_halves(simplified, heads)) is not simplified:
        simplified = simplify(halved, reach, picks, run, shares, step, columns, planes)
    if (summed := without_products(simplified, multiplies)) is not simplified:  # those of convolutions are among them by now
        simplified = simplify(summed, reach, picks, run, shares, step, columns, planes)
    missing = unsupported(simplified.body)
    if missing:
        raise MissingRuleError(f"{program.name} cannot be lowered",
                               missing=tuple(map(_said, missing)))
    hints = {a: tuple(n.lower() for n in dims) for a, dims in (names or {}).items()}
    arrays = _arrays(program, frozenset(program.scalars), facts)
    making = _Making(program, choose, facts, hints, {a.name for a in arrays}, shares, picks, units, joins,
                     default or choose, holds_parts)
    making.all(making.planned(_peel(simplified), {}))
    arrays = [replace(a, init=making.pieces[a.name].fill) if a.name in making.pieces else a for a in arrays]
    result = Program(program.name, (*arrays, *making.between(program.outputs)), tuple(making.kernels), tuple(making.repeats),
                     tuple(making.computed))
    verify_program(result)
    return result


@dataclass(frozen=True)
class Planned:
    """A stage, or a loop that one kernel walks along the axis ``line``.

    ``lines`` are arrays that it has one element of, since it is inside of a loop; ``outputs`` those of the program that it is a
    part of.
    """

    stage: Stage
    lines: Lines
    outputs: tuple[str, ...]
    loop: Loop | None = None
    line: str = ""


@dataclass(frozen=True)
class Turns:
    """What is repeated."""

    loop: Loop
    step: str
    plan: tuple[Planned | Turns, ...]


Plan = Sequence[Planned | Turns]
Lines = Mapping[str, Line]


class _Making:
    """Kernels of a program under construction."""

    def __init__(self, program: tt.TensorProgram, choose: Choose, facts: Facts | None, names: Mapping[str, tuple[str, ...]],
                 taken: set[str], shares: bool, picks: bool, units: Units, joins: Joins, default: Choose,
                 holds_parts: bool) -> None:  # fmt: skip
        self.shares, self.picks, self.units, self.joins, self.default = shares, picks, units, joins, default
        self.holds_parts = holds_parts
        self.name, self.choose, self.facts = program.name, choose, facts
        self.scalars = frozenset(program.scalars)
        self.names = dict(names)
        self.taken = taken | set(program.dims)  # by what steps cannot be called
        self.fresh = _fresh(taken)
        self.kernels: list[t.Kernel] = []
        self.repeats: list[Repeat] = []
        self.computed: list[Computed] = []
        self.temporaries: dict[str, Array] = {}
        self.extra: list[Array] = []
        self.pieces: dict[str, Placed] = {}  # arrays that are stored piece by piece
        self.unrounded: dict[str, str] = {}

    # ---- what there is to make

    def planned(self, program: tt.TensorProgram, lines: Lines) -> list[Planned | Turns]:
        """The stages of ``program`` in order, and its loops."""
        found: list[Planned | Turns] = []
        made = parts(program, self.fresh, self._holds)
        carries = frozenset(n for part in made if isinstance(part, Loop) and not part.walked for n in part.before)
        for part in made:
            if isinstance(part, Loop):
                found += self._loop(part, lines, program.outputs)
                continue
            part, copies = self._without_filled_carries(part, carries)
            for each in (part, *copies):
                found += self._stages(each, lines, program.outputs)
        return found

    def _holds(self, loop: tt.Recur) -> bool:
        """Whether the backend has tiles in which blocks hold what meets in ``loop``."""
        step = step_of(loop)
        if step is None:
            return False
        request = Request(self.name, step, axis_classes(step, {}), self.default, self.scalars, self.facts, joins=self.joins)
        return held_axes(request, len(loop.init), loop.length, self.holds_parts) is not None

    def _stages(self, program: tt.TensorProgram, lines: Lines, outputs: tuple[str, ...]) -> list[Planned]:
        names = self._names_in(lines)
        made = stages(program, names, self.fresh, shares=self.shares, picks=self.picks)
        return [Planned(as_rows(s, names, self.units), lines, (*outputs, *program.outputs)) for s in made if _work(s)]

    def _names_in(self, lines: Lines) -> dict[str, tuple[str, ...]]:
        """What dims of arrays are called, of those in ``lines`` the dims that a step has."""
        inside = {n: line.own(self.names[n]) for n, line in lines.items() if n in self.names}
        return {**self.names, **inside}

    def _loop(self, loop: Loop, lines: Lines, outputs: tuple[str, ...]) -> list[Planned | Turns]:
        line = self._line_name(loop, lines)
        place = self._place(loop, line)
        inner = {**lines, **{n: lines.get(n, Line.whole(s.of)).at(s.axis, place) for n, s in loop.sequences.items()}}
        if loop.walked:
            stage = Stage(loop.step, "recurrence")
            return [Planned(stage, inner, outputs, loop, line)] if _work(stage) else []
        for name, op in zip((*loop.before, *loop.after), (*loop.carries, *loop.step.results), strict=False):
            of = tt.tensor_type(op)
            self.temporaries[name] = Array(name, t.BufferType(of.shape, of.dtype), "temporary", loc=op.loc)
        step, copies = self._without_filled_carries(_peel(simplify(loop.step)), frozenset(loop.after))
        plan = [item for program in (step, *copies) for item in self.planned(program, inner)]
        return [Turns(loop, line, tuple(plan))] if plan else []

    def _without_filled_carries(self, program: tt.TensorProgram, carries: frozenset[str]
                                ) -> tuple[tt.TensorProgram, list[tt.TensorProgram]]:  # fmt: skip
        """``program``, and copies after it: an array that is filled once around pieces cannot be a carry, which changes places
        with another."""
        copies: list[tt.TensorProgram] = []
        outputs = list(program.outputs)
        for n, (op, name) in enumerate(zip(program.results, program.outputs, strict=True)):
            if isinstance(op, tt.Assemble) and op.fill is not None and name in carries:
                outputs[n] = next(self.fresh)
                pieces = Arg(outputs[n], op.type)
                copies.append(tt.TensorProgram(program.name, Block((pieces,), (Yield((pieces,)),)), (name,)))
        return replace(program, outputs=tuple(outputs)), copies

    def _line_name(self, loop: Loop, lines: Lines) -> str:
        """What the steps are called: as the dim of a sequence, if nothing else is, no other dim of what a step takes either."""
        known = self._names_in(lines)
        along = {n: s.axis for n, s in loop.sequences.items()}
        others = {d for a in loop.step.args for i, d in enumerate(known.get(a.name, ())) if i != along.get(a.name)}
        called = next((dims[axis] for n, axis in along.items() if (dims := known.get(n))), "step")
        called = "step" if called in others else called
        line = next(n for n in chain([called], (f"{called}{i}" for i in count(2))) if n not in self.taken)
        self.taken.add(line)
        return line

    def _place(self, loop: Loop, line: str) -> t.Index:
        """Where in a sequence the element of a step is."""
        if loop.walked:
            return t.Index((t.Term(line, -1),), loop.length - 1) if loop.reverse else t.Index.of(line)
        step = Sym.named(line)
        return t.Index((), loop.length - 1 - step if loop.reverse else step)

    # ---- making it

    def all(self, plan: Plan) -> None:
        numbers = count(1)
        single = sum(1 for _ in _leaves(plan)) == 1
        self._make(plan, lambda: "" if single else f"_{next(numbers)}")

    def _make(self, plan: Plan, suffix: Callable[[], str], times: Size = 1) -> None:
        for item in plan:
            if isinstance(item, Planned):
                self._kernels(item, suffix(), times)
                continue
            first = len(self.kernels)
            self._make(item.plan, suffix, times * item.loop.length)
            swaps = tuple(zip(item.loop.before, item.loop.after, strict=True))
            self.repeats.append(Repeat(first, len(self.kernels), item.loop.length, item.step, swaps))

    def _kernels(self, item: Planned, suffix: str, times: Size) -> None:
        stage, names = item.stage, self._names_in(item.lines)
        try:
            self.unrounded |= _unrounded(stage, item.outputs)
            made = self._lowered(self.name + suffix, item, names)
        except NoSchedule as error:
            if stage.family not in ("attention", "chain", "pair"):
                error.where = error.where or str(_line(stage) or "")
                raise
            # What cannot go together goes by itself.
            for n, s in enumerate(stages(stage.program, names, self.fresh, False, self.shares, stage.placed, self.picks), 1):
                self._kernels(replace(item, stage=as_rows(s, names, self.units)), f"{suffix}_{n}", times)
            return
        except (LoweringError, IRError) as error:
            error.where = error.where or str(_line(stage) or "")
            raise
        first = len(self.kernels)
        self.kernels += made.kernels
        steps_of = times if item.loop is None else times * item.loop.length
        self.computed.append(Computed(first, len(self.kernels), stage.program, steps_of))
        self.extra += made.temporaries
        self._note_results(item, names)

    def _lowered(self, name: str, item: Planned, names: Mapping[str, tuple[str, ...]]) -> Lowered:
        stage = item.stage
        classes = axis_classes(stage.program, names, stage.apart)
        if met := meeting_themselves(stage.program, classes):  # one kernel would take two dims for one, silently
            raise LoweringGap(f"{met[0].mnemonic()} in {name} meets one value along two dims, which one kernel takes for one",
                              where=str(met[0].loc or ""), hint="make one of the two uses an operator of its own")
        request = Request(name, stage.program, classes, self.choose, self.scalars, self.facts, dict(self.unrounded),
                          stage.placed, item.lines, self.joins)  # fmt: skip
        if item.loop is not None:
            return lower_recurrence(request, item.loop, item.line, self.default, self.holds_parts)
        if stage.family == "attention":
            return lower_attention(request, stage)
        return FAMILIES[stage.family](request)

    def _note_results(self, item: Planned, names: Mapping[str, tuple[str, ...]]) -> None:
        """The arrays that a stage has made, and what their dims are called."""
        stage, lines = item.stage, item.lines
        for number, (out, op) in enumerate(zip(stage.program.outputs, stage.program.results, strict=True)):
            if (place := stage.placed.get(out)) is not None:
                self.pieces[place.array] = replace(place, of=lines[place.array].of) if place.array in lines else place
                classes = axis_classes(stage.program, names)
                axes = of_result(stage.program, classes, number)
                self.names.setdefault(place.array, _called(lines, place.array, [c.name for c in axes]))
                continue
            of = lines[out].of if out in lines else tt.tensor_type(op)
            if item.loop is None or out not in item.loop.unasked:
                dtype = self.unrounded.get(out, of.dtype)
                self.temporaries.setdefault(out, Array(out, t.BufferType(of.shape, dtype), "temporary", loc=op.loc))
            if out in self.names or (isinstance(op, Arg) and op.name not in names):
                continue
            inside = names[op.name] if isinstance(op, Arg) else (c.name for c in axis_classes(stage.program, names).of(op))
            called = _called(lines, out, inside)
            if len(called) == len(of.shape):  # a result is stored in the shape of what it reshapes
                self.names[out] = called

    def between(self, outputs: Sequence[str]) -> list[Array]:
        """The arrays that are neither inputs nor outputs."""
        pieces = [Array(n, t.BufferType(p.of.shape, p.of.dtype), "temporary", p.fill) for n, p in self.pieces.items()
                  if n not in self.temporaries]  # fmt: skip
        return [*(a for a in (*self.temporaries.values(), *pieces) if a.name not in outputs), *self.extra]


def _called(lines: Lines, array: str, inside: Iterable[str]) -> tuple[str, ...]:
    """Names for the dims of ``array``, of which a step knows those that are called as ``inside`` says; none where these are
    not all."""
    names = tuple(inside)
    if array not in lines:
        return names
    places, left = lines[array].places, iter(names)
    return tuple("step" if p is not None else next(left) for p in places) if places.count(None) == len(names) else ()


def _leaves(plan: Plan) -> Iterator[Planned]:
    for item in plan:
        if isinstance(item, Planned):
            yield item
        else:
            yield from _leaves(item.plan)


FAMILIES: Mapping[str, Callable[[Request], Lowered]] = {
    "elementwise": lambda request: Lowered((lower_elementwise(request),)),
    "rows": lower_rows_or_parts,
    "segments": lambda request: Lowered((lower_segments(request),)),
    "scan": lower_scan,
    "associative": lambda request: Lowered((lower_associative(request),)),
    "sort": lambda request: Lowered((lower_sort(request),)),
    "contraction": lower_contraction,
    "pair": lower_pair,
    "chain": lower_chain,
    "grouped": lambda request: Lowered((lower_grouped(request),)),
}


def _arrays(program: tt.TensorProgram, scalars: frozenset[str], facts: Facts | None) -> list[Array]:
    types = array_types(program, scalars, facts)
    inputs = [Array(a.name, types[a.name], "scalar" if a.name in scalars else "input", loc=a.loc)
              for a in program.args]
    inputs.sort(key=lambda a: a.role == "scalar")
    return [*inputs, *(Array(o, types[o], "output", loc=op.loc)
                       for o, op in zip(program.outputs, program.results, strict=True))]


def _peel(program: tt.TensorProgram) -> tt.TensorProgram:
    """Outputs that are reshapes are stored in the shape of what they reshape: the array is seen under that shape."""
    results = []
    for op in program.results:
        while isinstance(op, tt.Reshape) and not isinstance(op.x, Arg):
            op = op.x
        results.append(op)
    return program_of(program, results, program.outputs)


def _fresh(taken: set[str]) -> Iterator[str]:
    n = 0
    while True:
        if (name := f"t{n}") not in taken:
            yield name
        n += 1


def _unrounded(stage: Stage, outputs: Sequence[str]) -> dict[str, str]:
    """The results of ``stage`` that are kept as they are computed, with that dtype: what reductions of rows give, which are
    few.  Only a conversion that the operator asks for rounds them."""
    program = stage.program
    of_rows: set[Op] = set()
    for op in program.body.ops:
        if isinstance(op, tt.Fold) or (isinstance(op, tt.Map) and any(o in of_rows for o in op.operands)):
            of_rows.add(op)
    return {name: wide(tt.tensor_type(op).dtype) for name, op in zip(program.outputs, program.results, strict=True)
            if op in of_rows and name not in outputs and name not in stage.placed and DTYPES[tt.tensor_type(op).dtype].is_float}


def _work(stage: Stage) -> bool:
    """Whether a stage stores anything: one whose outputs are all empty has no kernel."""
    return any(0 not in tt.tensor_type(r).shape for r in stage.program.results)


def _line(stage: Stage) -> Loc | None:
    """The line of what a stage is built around, for errors that know none."""
    ops = [op for op in stage.program.body.ops if op.loc is not None]
    return next((op.loc for op in ops if isinstance(op, ANCHORS)), ops[-1].loc if ops else None)
