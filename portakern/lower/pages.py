"""Keys and values that an attention of few queries reads where they lie: picked by a table, page by page.

``reshape(take(pages, table), ..)`` gives every sequence its keys in a row.  To copy them there first takes as long as to attend
to them, three times, and the copies go to the end of the table where a walk goes to the sequence's.  So the walk's own loads
pick: of key s the page is ``table[b, s // 16]`` and the place in it ``s % 16``, whatever transposes stand between.  Where many
queries attend to the same keys every block of them would pick these again, and the copy engines bring no single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size, product, quotient
from portakern.ir.tensor import (
    Contract,
    Convert,
    Expand,
    Gather,
    Iota,
    Map,
    Reshape,
    Slice,
    TensorProgram,
    Transpose,
    tensor_type,
)  # fmt: skip
from portakern.lower.classes import is_thin
from portakern.lower.joining import joined_dims
from portakern.lower.online import Attention, match_attention

Shape = tuple[Size, ...]

FEW = 128
"""Queries that attend to the same keys, up to which a block has them all."""


@dataclass(frozen=True)
class Piece:
    """What dim ``dim`` of a reshape says about a dim of its operand: ``scale * (coordinate // div % mod)``, no remainder where
    ``mod`` is 0."""

    dim: int
    scale: Size
    div: int
    mod: int


def taken_apart(inner: Shape, outer: Shape) -> list[list[Piece]] | None:
    """For each dim of ``inner`` the pieces of coordinates in a reshape of it to ``outer`` that add up to its own; None where
    its dims and those of ``outer`` have no common parts of known sizes."""
    found: list[list[Piece]] = [[] for _ in inner]
    ins, outs = ([(d, n) for d, n in enumerate(shape) if n != 1] for shape in (inner, outer))
    scale: Size = 1  # of what is left of the last dim of ``inner``
    div: Size = 1  # what the last dim of ``outer`` has given away
    while ins and outs:
        (i, left), (o, right) = ins.pop(), outs.pop()
        part = left if quotient(right, left) is not None else right
        rest_in, rest_out = quotient(left, part), quotient(right, part)
        if rest_in is None or rest_out is None or not isinstance(div, int):
            return None
        if rest_out != 1 and not isinstance(part, int):
            return None
        found[i].append(Piece(o, scale, div, part if rest_out != 1 else 0))  # type: ignore[arg-type]
        scale, div = scale * part if rest_in != 1 else 1, div * part if rest_out != 1 else 1
        ins += [(i, rest_in)] if rest_in != 1 else []
        outs += [(o, rest_out)] if rest_out != 1 else []
    return None if ins or outs else found


rules = Rules()


@rules.on(Reshape)
def scores_of_pages(op: Reshape) -> Op | None:
    """Scores of every page that are put in a row: those of keys that were put in a row before."""
    product_, work = op.x, list[Op]()
    while isinstance(product_, Convert | Map) and sum(bool(tensor_type(o).shape) for o in product_.operands) == 1:
        work.append(product_)
        product_ = next(o for o in product_.operands if tensor_type(o).shape)
    groups = joined_dims(tensor_type(op.x).shape, op.shape) if isinstance(product_, Contract) else None
    if groups is None:
        return None
    assert isinstance(product_, Contract)
    made: Op | None = _of_rows(product_, groups)
    if made is None:
        return None
    for step in reversed(work):
        made = _with_operand(step, made)
    return made


def _with_operand(op: Op, new: Op) -> Op:
    """``op`` with ``new`` in the place of its only operand that is no number."""
    return op.remap(lambda o: new if tensor_type(o).shape else o)


def _of_rows(op: Contract, groups: Sequence[range]) -> Contract | None:
    """``op`` with ``groups`` of its dims joined, where they are free dims of one side, which is picked."""
    batch, free = len(op.lhs_batch), len(op.lhs_batch) + len(op.lhs_free)
    sides = ((op.lhs, op.lhs_batch, op.lhs_free, op.lhs_axes, batch, free),
             (op.rhs, op.rhs_batch, op.rhs_free, op.rhs_axes, free, tensor_type(op).rank))  # fmt: skip
    made: list[tuple[Op, int]] = []
    for x, batches, own, axes, begin, end in sides:
        mine = [g for g in groups if len(g) and begin <= g.start and g.stop <= end]
        rest = sum(len(g) for g in mine) == end - begin
        if not rest or (len(mine) < len(own) and not _is_picked(x)):
            return None
        order = (*batches, *own, *axes)
        shape = tensor_type(x).shape
        sizes = (*(shape[d] for d in batches), *(product(tuple(shape[own[d - begin]] for d in g)) for g in mine),
                 *(shape[d] for d in axes))  # fmt: skip
        made.append((Reshape(Transpose(x, order), sizes), len(mine)))
    if any(len(g) != 1 for g in groups if g.start < batch) or len(groups) != batch + made[0][1] + made[1][1]:
        return None
    first, last = tuple(range(batch)), len(op.lhs_axes)
    left, right = (tuple(range(batch + n, batch + n + last)) for _, n in made)
    return Contract(made[0][0], made[1][0], first, first, left, right, op.dtype, op.precision, loc=op.loc)


def _is_picked(op: Op) -> bool:
    while isinstance(op, Transpose | Convert):
        op = op.x
    return isinstance(op, Gather) and not op.zipped


def picked_in_place(program: TensorProgram, users: dict[Op, list[Op]], picks: Callable[[Gather], bool]) -> set[Op]:
    """The reshapes and gathers in the keys and values of attentions of few queries, where ``picks`` says that a load can do
    each of the gathers."""
    found: set[Op] = set()
    for op in program.body.ops:
        attention = match_attention(op, users) if isinstance(op, Contract) else None
        scores = _scores(attention) if attention is not None else None
        if attention is None or scores is None:
            continue
        moves: set[Op] = set()
        inside: set[Op] = {scores, attention.out}
        for keys in _walked(attention, scores):
            mine = _moves_of(keys, picks)
            moves, inside = moves | (mine[0] if mine else set()), inside | (mine[1] if mine else set())
        if not _is_seen_outside(moves, inside, program, users):
            found |= moves
    return found


def _is_seen_outside(moves: set[Op], inside: set[Op], program: TensorProgram, users: Mapping[Op, list[Op]]) -> bool:
    """Whether anything that is not ``inside`` of an attention uses what ``moves`` lead to: it needs that as an array."""
    led = set(moves)
    for op in program.body.ops:
        if op in inside and any(o in led for o in op.operands):
            led.add(op)
    ends = (op for op in led if not isinstance(op, Contract))
    return any(user not in inside for op in ends for user in users.get(op, ()))


def _scores(found: Attention) -> Contract | None:
    """The only product that the scores are made of."""
    seen: set[Op] = set()
    frontier: list[Op] = [found.weights.softmax.s]
    while frontier:
        op = frontier.pop()
        if op not in seen and isinstance(op, Map | Convert | Expand | Reshape | Transpose):
            frontier += op.operands
        seen.add(op)
    products = [op for op in seen if isinstance(op, Contract)]
    return products[0] if len(products) == 1 else None


def _walked(found: Attention, scores: Contract) -> Iterator[Op]:
    """The operands of both products that run along the keys, where few rows share them."""
    out, side = found.out, found.weights_side
    if not _few(((out.lhs, out.lhs_free), (out.rhs, out.rhs_free))[side]):
        return
    yield (out.rhs, out.lhs)[side]
    shape, axis = tensor_type(found.weights.softmax.s).shape, found.weights.softmax.axis
    for keys, mine, other in ((scores.lhs, scores.lhs_free, scores.rhs_free), (scores.rhs, scores.rhs_free, scores.lhs_free)):
        sizes = [tensor_type(keys).shape[d] for d in mine if tensor_type(keys).shape[d] != 1]
        queries = scores.rhs if keys is scores.lhs else scores.lhs
        if sizes == [shape[axis]] and _few((queries, other)):
            yield keys


def _few(rows: tuple[Op, Sequence[int]]) -> bool:
    value, dims = rows
    count = product(tuple(tensor_type(value).shape[d] for d in dims))
    return isinstance(count, int) and count <= FEW


def _moves_of(operand: Op, picks: Callable[[Gather], bool]) -> tuple[set[Op], set[Op]] | None:
    """The reshapes and gathers that lead from an array to ``operand``, with elementwise work alone beside, and all that is on
    the way; None where a load cannot do all of that."""
    found: set[Op] = set()
    frontier, seen = [(operand, True)], set[tuple[Op, bool]]()  # and whether its coordinates are those of the attention still
    while frontier:
        op, plain = frontier.pop()
        if (op, plain) in seen:
            continue
        seen.add((op, plain))
        match op:
            case Map() | Convert() | Transpose() | Expand() | Iota():
                pass
            case Reshape(x=x) if is_thin(op) or not x.operands:  # of arrays one is a view
                pass
            case Slice(starts=starts, steps=steps):
                plain = plain and not any(starts) and set(steps) == {1}
            case Reshape(x=x):
                if not plain or taken_apart(tensor_type(x).shape, op.shape) is None:
                    return None
                plain = False
                found.add(op)
            case Gather(zipped=False, axis=axis) if axis < tensor_type(op.x).rank - 1 and picks(op):
                found.add(op)  # rows, each side by side in memory
                frontier.append((op.indices, plain))
                continue
            case _ if op.operands:
                return None
        frontier += [(o, plain) for o in op.operands]
    return found, {op for op, _ in seen}
