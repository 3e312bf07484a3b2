"""Reductions, running values, extremes and products as expressions of their operands."""

from __future__ import annotations

from portakern.emit.running import JOIN, Running
from portakern.ir.core import Op
from portakern.ir.tile import ArgReduce, Dot, Reduce, identity, tile_type

from ..planning.constants import filled_with
from ..planning.layout import LayoutAssignment
from ..syntax import operations
from ..syntax.expressions import BlockAxes, PlacedExpr
from .shapes import Shapes


def kept(place: BlockAxes, side: int) -> BlockAxes:
    """Where a tile at ``place`` ends up when one of its dims is folded."""
    return (None, place[1]) if side == 0 else (place[0], None)


def reduced(op: Reduce, x: PlacedExpr, place: BlockAxes) -> PlacedExpr:
    side = place.index(op.axis)
    return PlacedExpr(f"{operations.REDUCTIONS[op.fn]}({x.text}, axis={side}, keepdims=True)", kept(place, side))


def running(op: Running, x: PlacedExpr, place: BlockAxes) -> PlacedExpr:
    """Running values within a block."""
    dtype = tile_type(op.x).dtype
    nothing = operations.number(identity(op.fn, dtype), dtype)
    how = f"{', reverse=True' if op.reverse else ''}{', exclusive=True' if op.exclusive else ''}"
    return PlacedExpr(f"running({operations.JOINS[op.fn]}, {x.text}, {place.index(op.axis)}, {nothing.text}{how})", place)


def joined(op: Running, before: PlacedExpr, made: PlacedExpr) -> PlacedExpr:
    """Running values that go on from those before the block."""
    return operations.binary(JOIN[op.fn], before, made, tile_type(op.x).dtype)


def starts_fresh(op: Running) -> bool:
    """Whether nothing comes before the block."""
    if op.before is None:
        return True
    fill = filled_with(op.before)
    return fill is not None and fill.value == identity(op.fn, tile_type(op.x).dtype)


def extreme(op: ArgReduce, x: PlacedExpr, place: BlockAxes) -> PlacedExpr:
    side = place.index(op.axis)
    return PlacedExpr(f"jnp.{op.fn}({x.text}, axis={side}, keepdims=True)", kept(place, side))


def where_extreme(op: ArgReduce, x: PlacedExpr, place: BlockAxes, at: PlacedExpr) -> PlacedExpr:
    """The lowest coordinate (of ``at``) that holds the extreme value, or a NaN."""
    hit = f"({x.text} == {extreme(op, x, place).text})"
    if tile_type(op.x).dtype == "f32":
        hit += f" | jnp.isnan({x.text})"
    side = place.index(op.axis)
    return PlacedExpr(f"jnp.min(jnp.where({hit}, {at.text}, {2**31 - 1}), axis={side}, keepdims=True)", kept(place, side))


def operands(op: Dot, layout: LayoutAssignment) -> tuple[Op, Op]:
    """The operands of a product, the one that gives the result's rows first."""
    want = layout.place(op)
    free = next((a for a in tile_type(op.rhs).axes if a != op.axis), None)
    swapped = free is not None and want[0] == free and want[1] != free
    return (op.rhs, op.lhs) if swapped else (op.lhs, op.rhs)


def product(op: Dot, lhs: Op, rhs: Op, a: PlacedExpr, b: PlacedExpr, layout: LayoutAssignment, shapes: Shapes) -> PlacedExpr:
    """The product of ``lhs`` and ``rhs``, which are ``a`` and ``b``."""
    sides = (layout.place(lhs).index(op.axis), layout.place(rhs).index(op.axis))
    if sides == (1, 1) and shapes.sizes(layout.place(rhs)).startswith("(1,"):
        # Pallas turns a product with a single row into one that Mosaic rejects for bf16; a column it takes.
        b, sides = PlacedExpr(f"{b.at(0)}.T", b.place), (1, 0)
    # At default precision the matrix unit would round f32 operands to bf16.
    exact = ", precision=jax.lax.Precision.HIGHEST" if tile_type(lhs).dtype == "f32" else ""
    kind = operations.JNP[tile_type(op.acc).dtype]
    if sides == (1, 0):
        text = f"jnp.dot({a.text}, {b.text}, preferred_element_type={kind}{exact})"
    else:
        dims = f"((({sides[0]},), ({sides[1]},)), ((), ()))"
        text = f"jax.lax.dot_general({a.text}, {b.text}, {dims}, preferred_element_type={kind}{exact})"
    left, right = (next((x for x in tile_type(side).axes if x != op.axis), None) for side in (lhs, rhs))
    return PlacedExpr(text, (left, right))
