"""Halves of one product that meet elementwise, as a pair of products (:mod:`pairs`): of the halves of an operand.

``y = x @ w``, then ``silu(y[:, :n]) * y[:, n:]``: gate and projection of weights that lie in one array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.rewrite import live
from portakern.ir.size import Size
from portakern.ir.tensor import Contract, Convert, Expand, Map, Reshape, Slice, TensorProgram, Transpose, tensor_type
from portakern.lower.joining import joined_dims, product_apart
from portakern.lower.pages import Piece, taken_apart
from portakern.lower.pairs import behind
from portakern.lower.uses import needed, users_of

LEAST = 64
"""Columns that a half of a head has at least, of which a block has no more."""


def with_halves(program: TensorProgram, heads: bool = True) -> TensorProgram:
    """``program`` with two products in the place of each one of which two halves alone are used, and meet; also halves of each
    of its ``heads``."""
    if not any(isinstance(op, Slice) for op in program.body.ops):
        return program
    users = users_of(program)
    for op in program.body.ops:
        slices = _halves(op, users) if isinstance(op, Contract) else None
        if slices is not None and not behind(slices[0], users).isdisjoint(behind(slices[1], users)):
            assert isinstance(op, Contract)
            if (made := _apart(program, op, slices, heads)) is not None:
                return with_halves(made, heads)
    return program


def _halves(product: Contract, users: Mapping[Op, list[Op]]) -> list[Slice] | None:
    """The two slices that alone use ``product``, with elementwise work and reshapes between: as long as each other, of one
    dim, without common elements."""
    found: dict[Slice, None] = {}
    frontier: list[Op] = [product]
    seen: set[Op] = set()
    while frontier:
        op = frontier.pop()
        if op in seen:
            continue
        seen.add(op)
        for user in users.get(op, ()):
            if isinstance(user, Slice):
                found[user] = None
            elif isinstance(user, Reshape | Transpose) or (isinstance(user, Map | Convert) and _same_shape(user, op)):
                frontier.append(user)
            else:
                return None
    if len(found) != 2:
        return None
    first, second = sorted(found, key=lambda s: [x if isinstance(x, int) else 0 for x in s.starts])
    cuts = [_cut(s) for s in (first, second)]
    alike = tensor_type(first).shape == tensor_type(second).shape and None not in cuts
    return [first, second] if alike and cuts[0][0] == cuts[1][0] and cuts[0][2] <= cuts[1][1] else None  # type: ignore[index]


def _same_shape(a: Op, b: Op) -> bool:
    return tensor_type(a).shape == tensor_type(b).shape


def _cut(op: Slice) -> tuple[int, int, int] | None:
    """The only dim of which ``op`` takes a part, from where, and to where."""
    shape = tensor_type(op.x).shape
    cut = [d for d, (a, b, n) in enumerate(zip(op.starts, op.stops, shape, strict=True)) if (a, b) != (0, n)]
    if len(cut) != 1 or set(op.steps) != {1}:
        return None
    (d,) = cut
    begin, end = op.starts[d], op.stops[d]
    return (d, begin, end) if isinstance(begin, int) and isinstance(end, int) else None


def _apart(program: TensorProgram, product: Contract, slices: list[Slice], heads: bool) -> TensorProgram | None:
    """``program`` with each of ``slices`` made of a product of its own; None where an operand cannot be cut so."""
    new: dict[Op, Op] = {}
    ops: list[Op] = []
    for op in program.body.ops:
        made = op.remap(lambda o: new.get(o, o))
        if op in slices and isinstance(made, Slice):
            cut = _cut(made)
            assert cut is not None
            part = _Part(product, ops, heads).of(made.x, *cut)
            if part is None:
                return None
            made = part
        if made not in ops:
            ops.append(made)
        new[op] = made
    return replace(program, body=Block(program.body.args, live(ops)))


class _Part:
    """What elementwise work makes of a part of ``product``; what is made on the way comes into ``ops``."""

    def __init__(self, product: Contract, ops: list[Op], heads: bool) -> None:
        self.products, self.ops, self.heads = {product}, ops, heads
        self.made: dict[tuple[Op, int, int, int], Op | None] = {}  # each once, in however many ways it is used

    def _add(self, op: Op) -> Op:
        self.ops.append(op)
        return op

    def of(self, op: Op, dim: int, begin: int, end: int) -> Op | None:
        """``op`` from ``begin`` to ``end`` along ``dim``."""
        key = op, dim, begin, end
        if key not in self.made:
            self.made[key] = self._of(op, dim, begin, end)
        return self.made[key]

    def _of(self, op: Op, dim: int, begin: int, end: int) -> Op | None:
        shape = tuple(end - begin if d == dim else n for d, n in enumerate(tensor_type(op).shape))
        match op:
            case Contract() if op in self.products:
                return self._product(op, dim, begin, end)
            case Map(args=args):
                made = [self.of(a, dim, begin, end) if tensor_type(a).shape else a for a in args]
                whole = [a for a in made if a is not None]
                return self._add(Map(op.fn, tuple(whole), loc=op.loc)) if len(whole) == len(made) else None
            case Convert(x=x, dtype=dtype):
                made = self.of(x, dim, begin, end)
                return self._add(Convert(made, dtype, loc=op.loc)) if made is not None else None
            case Transpose(x=x, order=order):
                made = self.of(x, order[dim], begin, end)
                return self._add(Transpose(made, order)) if made is not None else None
            case Expand(x=x, dims=dims):
                own = dims.index(dim) if dim in dims else -1
                made = self.of(x, own, begin, end) if own >= 0 and tensor_type(x).shape[own] != 1 else x
                return self._add(Expand(made, shape, dims)) if made is not None else None
            case Reshape(x=x) if not isinstance(x, Arg):
                inner = _same_dim(tensor_type(x).shape, op.shape, dim)
                if inner is None:
                    split = self._split(x, op.shape) if self.heads and end - begin >= LEAST else None
                    return self.of(split, dim, begin, end) if split is not None else None
                made = self.of(x, inner, begin, end)
                return self._add(Reshape(made, shape)) if made is not None else None
        return self._view(op, dim, begin, end)

    def _product(self, op: Contract, dim: int, begin: int, end: int) -> Op | None:
        batch, left = len(op.lhs_batch), len(op.lhs_batch) + len(op.lhs_free)
        if dim < batch:
            return None
        mine = op.lhs_free[dim - batch] if dim < left else op.rhs_free[dim - left]
        part = self.of(op.lhs if dim < left else op.rhs, mine, begin, end)
        if part is None:
            return None
        return self._add(replace(op, lhs=part) if dim < left else replace(op, rhs=part))

    def _split(self, op: Op, shape: tuple[Size, ...]) -> Op | None:
        """``op``, elementwise work on the product, in ``shape``, which splits its dims: those of heads, say."""
        groups = joined_dims(shape, tensor_type(op).shape)
        if groups is None:
            return None
        match op:
            case Contract() if op in self.products:
                batch, left = len(op.lhs_batch), len(op.lhs_batch) + len(op.lhs_free)
                sizes = [tuple(shape[i] for i in g) for g in groups]
                if any(len(s) != 1 for s in sizes[:batch]):
                    return None
                made = product_apart(op, {d: s for d, s in zip(op.lhs_free, sizes[batch:left], strict=True) if len(s) > 1},
                                     {d: s for d, s in zip(op.rhs_free, sizes[left:], strict=True) if len(s) > 1})  # fmt: skip
                if not isinstance(made, Reshape) or not isinstance(made.x, Contract):
                    return None
                self.ops += [o for o in needed([made.x]) if o not in self.ops and not isinstance(o, Arg)]
                self.products.add(made.x)
                return made.x
            case Convert(x=x, dtype=dtype):
                made = self._split(x, shape)
                return self._add(Convert(made, dtype, loc=op.loc)) if made is not None else None
        return None

    def _view(self, op: Op, dim: int, begin: int, end: int) -> Op:
        """Of whole parts of a dim one is a coordinate of a dim of its own: then the part begins at its first element."""
        shape, size = tensor_type(op).shape, end - begin
        whole = shape[dim]
        part = (*shape[:dim], size, *shape[dim + 1 :])
        if isinstance(whole, int) and size and whole % size == begin % size == 0 and isinstance(op, Arg | Reshape):
            several = self._add(Reshape(op, (*shape[:dim], whole // size, *part[dim:])))
            one = self._sliced(several, dim, begin // size, begin // size + 1)
            return self._add(Reshape(one, part))
        return self._sliced(op, dim, begin, end)

    def _sliced(self, op: Op, dim: int, begin: int, end: int) -> Op:
        shape = tensor_type(op).shape
        starts = tuple(begin if d == dim else 0 for d in range(len(shape)))
        stops = tuple(end if d == dim else n for d, n in enumerate(shape))
        return self._add(Slice(op, starts, stops, (1,) * len(shape)))


def _same_dim(inner: tuple[Size, ...], outer: tuple[Size, ...], dim: int) -> int | None:
    """The dim of ``inner`` that a reshape to ``outer`` leaves as its ``dim``."""
    pieces = taken_apart(inner, outer) or []
    alone = [i for i, found in enumerate(pieces) if found == [Piece(dim, 1, 1, 0)]]
    return alone[0] if alone and inner[alone[0]] == outer[dim] else None
