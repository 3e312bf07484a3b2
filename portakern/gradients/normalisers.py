"""Softmax and its kin, found by their dataflow: their gradients are shorter than those of their parts, and the maximum that
shifts the exponentials has none.

For y = softmax(s): ds = y * (dy - sum(dy * y)).  Where y goes into one product o = y v alone, the sum over all columns
sum(dy * y) is that of do * o over the features, which is read in place of the columns (Dao et al. 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.gradients.rules import Contributions, Walk
from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import reductions, views
from portakern.spec.traced import Traced


@dataclass(frozen=True)
class Shifted:
    """``top``, the maximum of ``s`` along ``axes``, and ``total``, the sum of exponentials of ``s - top``."""

    s: Op
    axes: tuple[int, ...]
    total: t.Fold


@dataclass(frozen=True)
class Normaliser:
    """``op`` is softmax, log_softmax or logsumexp of ``s`` along ``axes``."""

    kind: str
    op: Op
    s: Op
    axes: tuple[int, ...]
    total: Op


def normaliser(op: Op) -> Normaliser | None:
    """What ``op`` is, if it is one of the three."""
    if not isinstance(op, t.Map) or op.fn not in ("div", "sub", "add"):
        return None
    left, right = op.args
    if op.fn == "div":
        found = _shifted(_moved(right))
        return Normaliser("softmax", op, found.s, found.axes, found.total) if found and left is found.total.x else None
    if op.fn == "sub":
        found = _logarithm(_moved(right))
        same = found is not None and isinstance(found.total.x, t.Map) and found.total.x.args[0] is left
        return Normaliser("log_softmax", op, found.s, found.axes, found.total) if found and same else None
    for logarithm, top in ((left, right), (right, left)):
        found = _logarithm(_moved(logarithm))
        if found and _is_top(_moved(top), found):
            return Normaliser("logsumexp", op, found.s, found.axes, found.total)
    return None


def _moved(op: Op) -> Op:
    """What ``op`` repeats, or has dims of 1 more than."""
    while isinstance(op, t.Expand | t.Reshape):
        op = op.x
    return op


def _logarithm(op: Op) -> Shifted | None:
    return _shifted(_moved(op.args[0])) if isinstance(op, t.Map) and op.fn == "log" else None


def _shifted(total: Op) -> Shifted | None:
    """``total`` as the sum of ``exp(s - max(s))``."""
    if not isinstance(total, t.Fold) or total.fn != "sum" or not isinstance(total.x, t.Map) or total.x.fn != "exp":
        return None
    difference = total.x.args[0]
    if not isinstance(difference, t.Map) or difference.fn != "sub":
        return None
    s, top = difference.args[0], _moved(difference.args[1])
    found = Shifted(s, total.axes, total)
    return found if _is_top(top, found) else None


def _is_top(op: Op, shifted: Shifted) -> bool:
    return isinstance(op, t.Fold) and op.fn == "max" and op.x is shifted.s and op.axes == shifted.axes


# ---- their gradients --------------------------------------------------------------------------------------------------------


def of_normaliser(found: Normaliser, g: Traced, walk: Walk) -> Contributions:
    y, s, axes = Traced(found.op), Traced(found.s), found.axes
    if found.kind == "softmax":
        met = _met_in_product(found, walk)
        total = met if met is not None else reductions.sum(g * y, axes, keepdims=True)
        yield found.s, y * (g - total)
    elif found.kind == "log_softmax":
        yield found.s, g - ew.exp(y) * reductions.sum(g, axes, keepdims=True)
    else:
        yield found.s, _along(g, s, axes) * ew.exp(s - _along(y, s, axes))


def _along(x: Traced, s: Traced, axes: tuple[int, ...]) -> Traced:
    """``x``, a number for each line of ``s``, beside every element of ``s``."""
    kept = [d for d in range(s.ndim) if d not in axes]
    rows = views.reshape(x, tuple(s.shape[d] for d in kept))
    return ew.expand_at(rows, s.shape, kept)


def _met_in_product(found: Normaliser, walk: Walk) -> Traced | None:
    """sum(dy * y) by the product that alone uses y, with dims of 1 for the columns; ``None`` where there is no such product."""
    op: Op = found.op
    users = walk.consumers(op)
    while len(users) == 1 and isinstance(users[0][0], t.Convert):
        op = users[0][0]
        users = walk.consumers(op)
    if len(users) != 1 or not isinstance(users[0][0], t.Contract):
        return None
    product, g = users[0]
    assert isinstance(product, t.Contract) and g is not None
    left = product.lhs is op
    axes = product.lhs_axes if left else product.rhs_axes
    if tuple(axes) != found.axes or not DTYPES[product.dtype].is_float:
        return None
    rows = (*product.lhs_batch, *product.lhs_free) if left else (*product.rhs_batch, *product.rhs_free)
    return _row_sums(product, g, rows, left, found)


def _row_sums(product: t.Contract, g: Traced, rows: Sequence[int], left: bool, found: Normaliser) -> Traced:
    """Sums of the product times its gradient over the features, as rows of ``found.op``."""
    n, m = len(product.lhs_batch), len(product.lhs_batch) + len(product.lhs_free)
    features = tuple(range(m, g.ndim)) if left else tuple(range(n, m))
    dtype = tensor_type(found.op).dtype
    total = reductions.sum(ew.cast(g, dtype) * ew.cast(Traced(product), dtype), features)
    ascending = sorted(rows)
    total = views.transpose(total, *(rows.index(d) for d in ascending))
    return views.expand_dims(total, found.axes)
