"""A program is statements one after the other; then its outputs are taken, its dims get sizes, and the text is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from portakern.dtypes import DTYPES as KNOWN
from portakern.fuzz.case import FuzzCase
from portakern.fuzz.grammar.draws import Draw, chance, pick
from portakern.fuzz.grammar.scope import FuzzScope, Refused, Var, tokens
from portakern.fuzz.grammar.sizes import LARGE, REAL, Budget, choose, there_are
from portakern.fuzz.grammar.table import TABLE
from portakern.fuzz.grammar.text import live, named, named_dims, render
from portakern.ir.core import Op

MOST_STATEMENTS = 8
DTYPES = {"f32": 50.0, "bf16": 30.0, "f16": 10.0, "f64": 2.0}
ASPECTS = ("open_dim", "zero_dim", "unit_dim", "several_outputs", "large", "real", "gradient", *DTYPES)
"""What a program is tried with, beside the productions that made it."""


@st.composite
def statement(draw: Draw, scope: FuzzScope) -> bool:
    """Writes what one production makes; false where the program is to end.

    Whether to go on and what with are drawn in one strategy, so that shrinking takes a statement out as a whole.
    """
    if scope.vars and pick(draw, (False, True), (1, 5)) is False:
        return False
    weights = [p.weight * scope.weights.get(p.name, 1.0) for p in TABLE.values()]
    found = pick(draw, [*TABLE.values()], weights)
    scope.production = found.name
    try:
        found.make(scope)
    except Refused as refused:
        scope.refused.append(refused)
    return True


@st.composite
def programs(draw: Draw, weights: Mapping[str, float]) -> FuzzScope:
    """A scope with a few statements."""
    dtype = pick(draw, [*DTYPES], [w * weights.get(d, 1.0) for d, w in DTYPES.items()])
    scope = FuzzScope(draw, dtype, weights)
    for _ in range(MOST_STATEMENTS):
        if not draw(statement(scope)):
            break
    return scope


@st.composite
def cases(draw: Draw, weights: Mapping[str, float]) -> FuzzCase:
    """A case of a drawn program."""
    scope = draw(programs(weights))
    outputs = _outputs(draw, scope, weights)
    kept = live(scope.vars, outputs)
    dims, names = named_dims(kept), named(kept)
    real = weights.get("real", 0.0) > 0
    scale = REAL if real else LARGE if chance(draw, weights.get("large", 1.0)) else 1
    ops = _ops(outputs)
    needs = [*(n for v in kept for n in scope.needs.get(v.number, ())), *there_are(ops)]
    budget = Budget.of(ops)
    sizes = choose(draw, [*dims], budget, needs, scale, weights)
    if not budget.allows(sizes, scale):  # the least that its needs leave: a line that is longer than what a tile sorts, say
        scale = max(scale, LARGE)
    # An open dim is read off an array: one that is only a factor of others cannot be.
    plain = {str(size) for v in kept if v.kind == "input" for size in v.shape}
    wished = {str(size) for size in scope.open}
    share = 10 * weights.get("open_dim", 1.0)
    opened = frozenset(n for d, n in dims.items() if d in plain and (d in wished or chance(draw, share)))
    params = {names[v.number]: v.value for v in kept if v.kind == "param"}
    gradient = _has_gradient(kept, outputs) and chance(draw, 14 * weights.get("gradient", 1.0))
    text = render(kept, outputs, names, dims, gradient)
    case = FuzzCase(text, {dims[d]: n for d, n in sizes.items()}, scope.dtype, opened, params)
    return replace(case, features=_features(case, kept, outputs, scale) | ({"gradient"} if gradient else set()))


def _has_gradient(kept: Sequence[Var], outputs: Sequence[Var]) -> bool:
    """Whether there are floats to differentiate, and to differentiate for."""
    arrays = [v for v in kept if v.kind == "input"]
    return all(any(KNOWN[v.value.type.dtype].is_float for v in side) for side in (arrays, outputs))


def _outputs(draw: Draw, scope: FuzzScope, weights: Mapping[str, float]) -> list[Var]:
    """The last value, and perhaps others."""
    values = [v for v in scope.vars if v.kind == "local"]
    if not values:  # every statement was refused, or is an input
        x = scope.input(scope.shape())
        scope.production = "neg"
        return [scope.write(f"-{x}", -x.range)]
    *others, last = values
    outputs = [last]
    if others and chance(draw, 50 * weights.get("several_outputs", 1.0)):
        # Mostly what nothing else is made of: a pattern whose insides are outputs is lowered piece by piece.
        inside = {n for v in values for n in tokens(v.text)}
        ends = [v for v in others if v.number not in inside]
        preferred = ends if ends and not chance(draw, 20) else others
        outputs = [*dict.fromkeys(pick(draw, preferred[::-1]) for _ in range(pick(draw, (1, 2, 3)))), last]
    return [*outputs, *_handed_on(scope, outputs)]


def _handed_on(scope: FuzzScope, outputs: Sequence[Var]) -> list[Var]:
    """Values of the inputs of which only the shape or dtype was used: the language wants more use of them."""
    reached = set(_ops(outputs))
    unused = [v for v in live(scope.vars, outputs) if v.kind in ("input", "scalar") and v.value.op not in reached]
    scope.production = ""
    return [scope.write(_shown(x), x.range) for x in unused]


def _shown(x: Var) -> str:
    """An array made of an input and no more."""
    if x.kind == "scalar":
        return f"pk.zeros([2]) + pk.cast({x}, pk.f32)"
    return f"-{x}" if x.is_number else f"pk.cast({x}, pk.f32)"


def _ops(outputs: Sequence[Var]) -> list[Op]:
    found: dict[Op, None] = {}

    def visit(op: Op) -> None:
        if op not in found:
            for o in op.operands:
                visit(o)
            found[op] = None

    for v in outputs:
        visit(v.value.op)
    return [*found]


def _features(case: FuzzCase, kept: Sequence[Var], outputs: Sequence[Var], scale: int) -> frozenset[str]:
    aspects = {
        "open_dim": bool(case.open_dims),
        "zero_dim": 0 in case.dims.values(),
        "unit_dim": 1 in case.dims.values(),
        "several_outputs": len(outputs) > 1,
        "large": scale == LARGE,
        "real": scale == REAL,
        case.dtype: True,
    }
    made_by = {v.production for v in kept if v.kind == "local"} - {""}
    return frozenset(made_by | {a for a, held in aspects.items() if held})
