"""Running values: the gradient of each element is a running value from the other end.

With y_i made of y_{i-1} and x_i, the gradient of y_i is its own plus that of y_{i+1} times dy_{i+1}/dy_i.  That is a recurrence
a h + b, which is associative, and is scanned as any other.  Nothing is divided by, so that zeros do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from portakern.gradients.rules import Contributions, Walk, rule
from portakern.ir import tensor as t
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import pieces, reductions, views
from portakern.spec.recurrences import associative_scan
from portakern.spec.traced import Traced, make

Matrix = Sequence[Sequence[Traced]]


def shifted(x: Traced, axis: int, up: bool, filler: float = 0.0) -> Traced:
    """``x`` moved by one element along ``axis``, towards higher coordinates or lower ones; ``filler`` comes in."""
    low, high = (1, 0) if up else (0, 1)
    padded = pieces.pad(x, [(low, high) if d == axis else (0, 0) for d in range(x.ndim)], filler)
    start = 0 if up else 1
    return padded[(*[slice(None)] * axis, slice(start, start + x.shape[axis]))]


@rule(t.Cumulate)
def _(op: t.Cumulate, g: Traced, walk: Walk) -> Contributions:
    x, axis = Traced(op.x), op.axis
    if op.fn == "sum":
        yield op.x, reductions.cumsum(g, axis, not op.reverse, op.exclusive)
        return
    g = shifted(g, axis, op.reverse) if op.exclusive else g
    y = make(t.Cumulate(op.fn, op.x, axis, op.reverse)) if op.exclusive else Traced(op)
    first = {"prod": 1.0, "max": float("-inf"), "min": float("inf")}[op.fn]
    before = shifted(y, axis, not op.reverse, first)
    if op.fn == "prod":
        kept, mine = x, before
    else:
        new = x >= before if op.fn == "max" else x <= before  # of equals the last, as in PyTorch
        kept, mine = ew.where(new, _like(x, 0.0), _like(x, 1.0)), ew.where(new, _like(x, 1.0), _like(x, 0.0))
    (whole,) = gathered([g], [[shifted(kept, axis, op.reverse)]], axis, not op.reverse)
    yield op.x, whole * mine


def _like(x: Traced, value: float) -> Traced:
    return views.full(x.shape, value, x.type.dtype)


def gathered(g: Sequence[Traced], to_next: Matrix, axis: int, reverse: bool) -> tuple[Traced, ...]:
    """h_i = g_i + A_i^T h_next, where A_i = ``to_next`` [next][own] says how the next value changes with this one."""
    n = len(g)
    numbers = range(n)

    def join(left: Sequence[Traced], right: Sequence[Traced]) -> tuple[Traced, ...]:
        a, b, v, w = left[: n * n], right[: n * n], left[n * n :], right[n * n :]
        both = [_sum([b[i * n + k] * a[k * n + j] for k in numbers]) for i in numbers for j in numbers]
        return (*both, *(_sum([w[i], *(b[i * n + k] * v[k] for k in numbers)]) for i in numbers))

    turned = [to_next[k][i] for i in numbers for k in numbers]
    return associative_scan(join, (*turned, *g), axis, reverse)[n * n :]


def _sum(terms: Sequence[Traced]) -> Traced:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


@rule(t.AssociativeScan)
def _(op: t.AssociativeScan, g: Traced, walk: Walk) -> Contributions:
    from portakern.gradients.reverse import of_block

    count, axis = len(op.xs), op.axis
    join = t.of_arrays(op.join, tensor_type(op).shape)
    runs = [make(t.AssociativeScan(op.xs, axis, op.join, n, op.reverse)) for n in range(count)]
    before = [shifted(h, axis, not op.reverse) for h in runs]
    given = [*before, *(Traced(x) for x in op.xs)]
    ones = [views.full(x.shape, 1.0, x.type.dtype) for x in runs]
    zeros = [views.zeros(x.shape, x.type.dtype) for x in runs]
    jacobian = [of_block(join, given, [ones[n] if m == n else None for m in range(count)]) for n in range(count)]

    def entry(n: int, m: int) -> Traced:
        """How result n changes with argument m, 0 before the first element."""
        found = jacobian[n][m]
        return zeros[m % count] if found is None else ew.where(_first(found, op), 0.0, found) if m < count else found

    to_next = [[shifted(entry(n, m), axis, op.reverse) for m in range(count)] for n in range(count)]
    whole = gathered([g if n == op.number else zeros[n] for n in range(count)], to_next, axis, not op.reverse)
    for m, x in enumerate(op.xs):
        if walk.active(x):
            mine = _sum([whole[n] * entry(n, count + m) for n in range(count)])
            yield x, ew.where(_first(mine, op), whole[m], mine)


def _first(x: Traced, op: t.AssociativeScan) -> Traced:
    """Whether an element is the one that a scan begins with."""
    begin = ew.size(x.shape[op.axis], "i32") - 1 if op.reverse else 0
    return views.iota(x.shape, op.axis) == begin
