"""Loops over steps: the steps the other way round, each with the carry that it began with.

A loop that shows its carries runs first.  The one that goes back carries the gradients of the carries and shows those of the
elements.  What an array from outside gets is summed over the steps: where a step's share is a product or a sum, its operands
are shown and one product over all steps is taken behind the loop, as (x h)^T gates of an LSTM; else the loop carries the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portakern.dtypes import DTYPES
from portakern.gradients.linear import ADJOINTS
from portakern.gradients.rules import Contributions, Walk, rule
from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import reductions, views
from portakern.spec.recurrences import scan
from portakern.spec.traced import Traced, make


@rule(t.Recur)
def _(op: t.Recur, g: tuple[Traced | None, ...], walk: Walk) -> Contributions:
    if op.adjoint:
        yield from ADJOINTS[op.adjoint](op, g)
        return
    from portakern.gradients.reverse import replayed, shares_of_block

    n, m = len(op.init), len(op.xs)
    init, xs, captured = ([Traced(o) for o in ops] for ops in (op.init, op.xs, op.captured))

    def forward(carry: Sequence[Traced], x: Sequence[Traced]) -> tuple[Any, Any]:
        made = replayed(op.step, [*carry, *x, *captured])
        return tuple(made[:n]), tuple(carry)

    _, began = scan(forward, tuple(init), tuple(xs), op.length, op.reverse) if n else ((), ())
    floats = [i for i in range(n) if _is_float(op.init[i])]
    lasts = [_summed(g[i], op.init[i]) for i in floats]
    shown = [i for i, y in enumerate(g[n:]) if y is not None]
    outside = [c for c, o in enumerate(op.captured) if walk.active(o)]
    moving = [x for x, o in enumerate(op.xs) if walk.active(o)]
    totals: list[Traced] = [views.zeros(captured[c].shape, _wide(captured[c])) for c in outside]
    behind: list[tuple[int, Share]] = []

    def step(carry: Sequence[Traced], x: Sequence[Traced]) -> tuple[Any, Any]:
        of_carries, sums = carry[: len(floats)], list(carry[len(floats) :])
        args = [*x[:n], *x[n : n + m], *captured]
        given: list[Traced | None] = [None] * len(g)
        for place, i in enumerate(floats):
            given[i] = of_carries[place]
        for place, i in enumerate(shown):
            given[n + i] = x[n + m + place]
        shares = shares_of_block(op.step, args, given)
        new = [_summed(_total(shares[i]), op.init[i]) for i in floats]
        tell = [ew.cast(_given(_total(shares[n + i]), x[n + i].op), x[n + i].type.dtype) for i in moving]
        behind.clear()
        for place, c in enumerate(outside):
            for share in shares[n + m + c]:
                if (found := _deferred(share)) is not None:
                    behind.append((c, found))
                    tell += found.operands
                else:
                    sums[place] = sums[place] + ew.cast(share, _wide(share))
        return (*new, *sums), tuple(tell)

    lines = (*began, *xs, *(g[n + i] for i in shown))
    last, told = scan(step, (*lasts, *totals), lines, op.length, not op.reverse)
    for place, i in enumerate(floats):
        yield op.init[i], ew.cast(last[place], tensor_type(op.init[i]).dtype)
    for place, i in enumerate(moving):
        yield op.xs[i], told[place]
    for place, c in enumerate(outside):
        yield op.captured[c], ew.cast(last[len(floats) + place], tensor_type(op.captured[c]).dtype)
    stacked = iter(told[len(moving) :])
    for c, share in behind:
        yield op.captured[c], share.over([next(stacked) for _ in share.operands])


def _is_float(op: Op) -> bool:
    return DTYPES[tensor_type(op).dtype].is_float


def _wide(x: Traced) -> str:
    return x.type.dtype if DTYPES[x.type.dtype].bits >= 32 else "f32"


def _given(g: Traced | None, of: Op) -> Traced:
    return g if g is not None else views.zeros(tensor_type(of).shape, tensor_type(of).dtype)


def _summed(g: Traced | None, of: Op) -> Traced:
    """What is added to in every step, in the dtype that sums are made in, whatever those of its shares are."""
    found = _given(g, of)
    return ew.cast(found, _wide(Traced(of)))


def _total(shares: Sequence[Traced]) -> Traced | None:
    total: Traced | None = None
    for share in shares:
        total = share if total is None else total + share
    return total


# ---- shares that are taken behind the loop -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """A product or sum of ``operands`` that every step makes, and the moves and casts behind it, outermost first."""

    root: Op
    moves: tuple[Op, ...]

    @property
    def operands(self) -> list[Traced]:
        return [Traced(o) for o in self.root.operands]

    def over(self, lines: Sequence[Traced]) -> Traced:
        """The same of all steps at once, summed over them: ``lines`` has a first dim for the steps."""
        made = _all_steps(self.root, lines)
        for move in reversed(self.moves):
            made = ew.cast(made, move.dtype) if isinstance(move, t.Convert) else views.transpose(made, *move.order)  # type: ignore
        return made


def _deferred(share: Traced) -> Share | None:
    op, moves = share.op, []
    while isinstance(op, t.Convert | t.Transpose):
        moves.append(op)
        op = op.x
    if isinstance(op, t.Contract) or (isinstance(op, t.Fold) and op.fn == "sum"):
        return Share(op, tuple(moves))
    return None


def _all_steps(root: Op, lines: Sequence[Traced]) -> Traced:
    if isinstance(root, t.Fold):
        return reductions.sum(lines[0], (0, *(a + 1 for a in root.axes)))
    assert isinstance(root, t.Contract)
    batches = [tuple(d + 1 for d in dims) for dims in (root.lhs_batch, root.rhs_batch)]
    axes = [(0, *(d + 1 for d in dims)) for dims in (root.lhs_axes, root.rhs_axes)]
    return make(t.Contract(lines[0].op, lines[1].op, batches[0], batches[1], axes[0], axes[1], root.dtype, root.precision))
