"""Steps that follow each other: recurrences whose lanes stay apart, and those that a product or a reduction ties."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.products import right_of
from portakern.fuzz.grammar.ranges import UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import production

NEAR = Range(-100.0, 100.0)
LANES = ("pk.tanh(h_ * 0.5 + x_)", "pk.where(h_ > x_, h_ * 0.5, pk.sigmoid(x_))",
         "pk.sigmoid(x_) * h_ + (1.0 - pk.sigmoid(x_))", "pk.maximum(h_ - 0.25, pk.tanh(x_))")  # fmt: skip
TIED = ("pk.softmax(h_ + x_, axis=-1)", "pk.tanh(h_ - pk.max(x_, axis=-1, keepdims=True))", "pk.tanh(pk.flip(h_, -1) + x_)")
SHOWN = ("h_", "h_ * x_", "pk.sum(h_, axis=-1)", "pk.sum(pk.tanh(x_), axis=-1)", "pk.tanh(x_)")
MOST = (3, 2, 4, 1)
"""How many steps there are: every one is a launch of its own, which simulators take long for."""


@dataclass(frozen=True)
class Line:
    """A sequence of a few steps along an axis of ``x``."""

    x: Var
    steps: int
    axis: int

    @property
    def text(self) -> str:
        return f"{self.x}[{':, ' * self.axis}:{self.steps}]"

    @property
    def first(self) -> str:
        return f"{self.x}[{':, ' * self.axis}0]"

    @property
    def needs(self) -> list[Need]:
        return [Need(self.x.shape[self.axis], self.steps)]


def _line(s: FuzzScope) -> Line:
    x = s.number((2, 3), within=NEAR)
    return Line(x, pick(s.draw, MOST), 1 if x.rank > 2 and chance(s.draw, 40) else 0)


def _how(s: FuzzScope, line: Line) -> str:
    return f"{', reverse=True' if chance(s.draw, 35) else ''}{f', axis={line.axis}' if line.axis else ''}"


def _scanned(s: FuzzScope, line: Line, new: str) -> Var:
    shown = pick(s.draw, SHOWN)
    shown = shown.replace("h_", f"({new})") if chance(s.draw, 70) else shown  # the state after the step, or before it
    start = f"pk.zeros({line.first}.shape, {line.x}.dtype)" if chance(s.draw, 60) else f"{line.first} * 0.5"
    how, result = _how(s, line), pick(s.draw, (1, 0))
    return s.let(f"pk.scan(lambda h_, x_: ({new}, {shown}), {start}, {line.text}{how})[{result}]",
                 UNIT | line.x.range.summed(), needs=line.needs)  # fmt: skip


@production(2.0)
def lanes_in_steps(s: FuzzScope) -> Var:
    return _scanned(s, _line(s), pick(s.draw, LANES))


@production(1.5)
def tied_in_steps(s: FuzzScope) -> Var:
    return _scanned(s, _line(s), pick(s.draw, TIED))


BESIDE = ("pk.pad(h_[..., :-1], ({0}(1, 0)), value=0.25)", "pk.pad(h_[..., 1:], ({0}(0, 1)), value=-0.5)",
          "pk.roll(h_, 1, -1)", "pk.concat([h_[..., 1:], h_[..., :1]], -1)",
          "(pk.roll(h_, -1, -1) - pk.roll(h_, 1, -1))", "pk.flip(h_, -1)")  # fmt: skip
MOVED = ("pk.tanh(h_ * 0.5 + {0} + x_)", "pk.maximum({0}, h_ - 0.25)", "pk.where({0} > h_, pk.tanh(x_), {0} * 0.5)",
         "pk.where(x_ > 0.0, {0}, h_)")  # fmt: skip


@production(2.0)
def neighbours_in_steps(s: FuzzScope) -> Var:
    """A state of which a step reads what lies beside each element, as alignments and waves do."""
    line = _line(s)
    beside = pick(s.draw, BESIDE).format("(0, 0), " * (line.x.rank - 2))
    return _scanned(s, line, pick(s.draw, MOVED).format(beside))


HANDED = ("(pk.tanh(x_ + h_[2]), h_[0], h_[1])", "(h_[1], h_[0], pk.tanh(x_ - h_[2]))", "(h_[2], h_[0], h_[1])",
          "(h_[1], pk.tanh(h_[2] + x_), h_[0])", "(h_[0], pk.tanh(h_[1] + x_), h_[1])",
          "(pk.roll(h_[1], 1, -1), h_[0], pk.sum(h_[2], axis=-1, keepdims=True) * 0.01 + h_[1])")  # fmt: skip


@production(2.0)
def states_handed_on(s: FuzzScope) -> Var:
    """States that become one another as they were: delay lines, and what goes round."""
    line = _line(s)
    one = f"pk.tanh({line.first})"
    shown = pick(s.draw, ("h_[0] + h_[1] * 2.0 - h_[2]", "h_[2] * x_", "h_[1]"))
    start = f"({one}, {one} * 0.5, -{one})"
    return s.let(f"pk.scan(lambda h_, x_: ({pick(s.draw, HANDED)}, {shown}), {start}, {line.text}{_how(s, line)})[1]",
                 UNIT.summed() | line.x.range, needs=line.needs)  # fmt: skip


@production(2.0)
def states_in_steps(s: FuzzScope) -> Var:
    """A state of several numbers for every lane, which a step reads before it writes there, or shows a sum of."""
    line = _line(s)
    x, w = line.x, s.like((s.dim(line.x.shape),), within=NEAR, dtype=line.x.dtype)
    read = f"pk.sum(h_ * {w}, axis=-1)"
    given = pick(s.draw, (f"pk.tanh(x_)[..., None] * {w}", f"pk.tanh(x_ - {read})[..., None] * pk.tanh({w})"))
    new = f"h_ * 0.5 + {given}"
    shown = pick(s.draw, (f"pk.sum(({new}) * {w}, axis=-1)", f"pk.max({new}, axis=-1)", read, new, "pk.tanh(x_)"))
    start = f"pk.zeros((*{line.first}.shape, {w}.shape[0]), {x}.dtype)"
    return s.let(f"pk.scan(lambda h_, x_: ({new}, {shown}), {start}, {line.text}{_how(s, line)})[{pick(s.draw, (1, 0))}]",
                 UNIT.summed() | w.range.summed(), needs=line.needs)  # fmt: skip


@production(1.0)
def numbers_in_steps(s: FuzzScope) -> Var:
    """A single number that is joined with all of an element, and what is made of that."""
    line = _line(s)
    new = pick(s.draw, ("pk.tanh(pk.mean(x_ * h_))", "pk.max(pk.tanh(x_) - h_)", "pk.sigmoid(h_) * pk.min(pk.tanh(x_))"))
    shown = pick(s.draw, ("h_", f"x_ * ({new})", "pk.max(x_) - h_"))
    start = f"pk.cast(pk.full((), 0.5), {line.x}.dtype)"
    return s.let(f"pk.scan(lambda h_, x_: ({new}, {shown}), {start}, {line.text}{_how(s, line)})[1]",
                 UNIT | line.x.range.summed(), needs=line.needs)  # fmt: skip


BALANCED = ("h_ / (1.0 + pk.sum(pk.abs(h_), axis={0}, keepdims=True))", "pk.tanh(h_ - pk.max(h_, axis={0}, keepdims=True))",
            "h_ * 0.5 + pk.where(pk.iota(h_.shape, {0}) == i_, pk.sum(h_, axis={0}, keepdims=True), 0.25)")  # fmt: skip


@production(1.5)
def matrices_in_steps(s: FuzzScope) -> Var:
    """A matrix whose rows and columns meet in turns; every step knows its number."""
    x = s.number((2, 3), within=UNIT)
    first, second = (pick(s.draw, BALANCED).format(axis) for axis in ((-1, -2) if chance(s.draw, 50) else (-2, -1)))
    step = f"lambda h_, i_: ((lambda h_: {second})({first}), pk.sum(h_, axis=-1))"
    how = ", reverse=True" if chance(s.draw, 35) else ""
    return s.let(f"pk.scan({step}, {x}, pk.arange({pick(s.draw, MOST)}){how})[{pick(s.draw, (0, 0, 1))}]", UNIT.summed())


@production(2.0)
def products_in_steps(s: FuzzScope) -> Var:
    """A recurrent layer: its input through a matrix, and its state through another one."""
    x = s.number((3,), within=NEAR)
    w, steps = right_of(s, x), pick(s.draw, MOST)
    u = s.input((w.shape[1], w.shape[1]), hint="u")
    new = f"pk.tanh(x_ @ {w} + h_ @ {u})"
    start = f"pk.zeros(({x}.shape[1], {w}.shape[1]), {x}.dtype)"
    shown, result = pick(s.draw, (new, "h_", "pk.sum(h_, axis=-1)")), pick(s.draw, (1, 0))
    how = ", reverse=True" if chance(s.draw, 35) else ""
    return s.let(f"pk.scan(lambda h_, x_: ({new}, {shown}), {start}, {x}[:{steps}]{how})[{result}]", UNIT.summed(),
                 needs=[Need(x.shape[0], steps)])  # fmt: skip


# ---- steps in any grouping ------------------------------------------------------------------------------------------------

LARGER = "pk.where(r[0] > l[0], r[{0}], l[{0}])"
PAIRED = {
    "lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1])": "pk.sigmoid({x}), {y}",
    f"lambda l, r: ({LARGER.format(0)}, {LARGER.format(1)})": "pk.where({x} > -2.0, {x}, -2.0), {y}",
    "lambda l, r: (pk.where(r[1] > 0.0, r[0], l[0]), pk.maximum(l[1], r[1]))": "{x}, pk.cast({y} > 0.5, {y}.dtype)",
}
"""Recurrences h -> a h + b, the largest so far with what goes with it, and the last one that counts: how two neighbours are
joined, and what of.  Of NaN the largest would depend on the grouping."""

ALONE = ("lambda l, r: l + r", "lambda l, r: pk.maximum(l, r)", "lambda l, r: l + r + l * r")


@production(2.0)
def joined_in_any_grouping(s: FuzzScope) -> Var:
    """An associative scan, of one array or of two at once."""
    x = s.number((2, 1, 3), within=NEAR)
    how = ", reverse=True" if chance(s.draw, 30) else ""
    if chance(s.draw, 30):
        return s.let(f"pk.associative_scan({pick(s.draw, ALONE)}, pk.tanh({x}) * 0.1, {s.axis(x)}{how})", UNIT.summed())
    y = s.like(x.shape, within=NEAR, dtype=x.dtype)
    join = pick(s.draw, [*PAIRED])
    of, result = PAIRED[join].format(x=x, y=y), pick(s.draw, (1, 0))
    return s.let(f"pk.associative_scan({join}, ({of}), {s.axis(x)}{how})[{result}]", y.range.summed())
