"""What is reduced or multiplied in parts that offsets mark: bags, sparse rows, experts, sequences of any length."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import production


def _offsets(s: FuzzScope) -> Var:
    """Ascending ones; some that begin anywhere and descend, which is defined as well."""
    lines = (s.dim() + 1,)
    return s.input(lines, pick(s.draw, ("i32", "i64")), "offsets", below=pick(s.draw, (0, 0, 40)))


@production(4.0)
def segments(s: FuzzScope) -> Var:
    """A reduction of the segments of one dim, of an array or of what is computed from it."""
    x = s.operand(lambda v: v.rank in (1, 2, 3) and v.is_number, lambda: s.input(s.shape((2, 1, 3))))
    axis, offsets = s.axis(x), _offsets(s)
    fn = pick(s.draw, ("sum", "max", "min", "mean", "sum"))
    text = f"pk.{pick(s.draw, ('abs', 'exp'))}(pk.tanh({x}))" if chance(s.draw, 30) else str(x)
    y = s.let(f"pk.segment_{fn}({text}, {offsets}{f', axis={axis}' if axis else ''})", x.range.summed() | Range(0.0, 3e3))
    return s.let(f"pk.where(pk.abs({y}) < 1e30, {y}, 0.0)", y.range) if fn != "sum" else y  # of nothing infinite, or NaN


@production(2.0)
def sparse_product(s: FuzzScope) -> Var:
    """Rows of a dense matrix by their numbers, scaled and summed: a sparse matrix times it."""
    b = s.number((2,), within=Range(-100.0, 100.0))
    count = s.fresh_dim()
    columns = s.input((count,), pick(s.draw, ("i32", "i64")), "columns", below=b.shape[0])
    values = s.input((count,), hint="values")
    terms = f"{values}[:, None] * pk.take({b}, {columns})"
    return s.let(f"pk.segment_sum({terms}, {_offsets(s)})", (values.range * b.range).summed())


@production(2.0)
def grouped_product(s: FuzzScope) -> Var:
    """Rows by group, each times the matrix of its group."""
    x = s.number((2,), within=Range(-100.0, 100.0))
    groups = s.fresh_dim()
    w = s.input((groups, x.shape[1], s.dim(x.shape)), x.dtype, "w")
    offsets = s.input((groups + 1,), pick(s.draw, ("i32", "i64")), "offsets", below=pick(s.draw, (0, 0, 40)))
    return s.let(f"pk.grouped_matmul({x}, {w}, {offsets})", (x.range * w.range).summed())
