"""Sums of products that a walk carries, each step of which is one multiply-add, as in products of matrices.

Compilers may not fuse on their own (docs/lowering.md, "What may be fused"), so what should be is written.  A sum that is
carried on is no value that anything else computes once more, so that it is rounded once a step changes no difference.
"""

from __future__ import annotations

from portakern.ir.core import Block, Op, Yield, yielded
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Binary, Fma, For, Kernel, tile_type

rules = Rules()


def with_fused_sums(kernel: Kernel) -> Kernel:
    """``kernel`` with the sums of products that its loops of f32 carry as multiply-adds."""
    return canonicalise(kernel, rules) if kernel.family == "rows" else kernel


@rules.on(For)
def each_step_at_once(op: For) -> Op | None:
    *ops, _ = op.body.ops
    now = yielded(op.body)
    fused = tuple(_fused(new, old) for new, old in zip(now, op.body.args, strict=True))
    if fused == now:
        return None
    more = [made for made, before in zip(fused, now, strict=True) if made is not before]
    body = Block(op.body.args, (*ops, *more, Yield(fused)))
    return For(op.axis, op.lo, op.hi, op.init, body, op.combine, loc=op.loc)


def _fused(new: Op, old: Op) -> Op:
    if not isinstance(new, Binary) or new.fn != "add" or tile_type(new).dtype != "f32":
        return new
    product = next((x for x, other in ((new.lhs, new.rhs), (new.rhs, new.lhs)) if other is old), None)
    if not isinstance(product, Binary) or product.fn != "mul" or tile_type(product).dims != tile_type(new).dims:
        return new
    return Fma(product.lhs, product.rhs, old, loc=new.loc)
