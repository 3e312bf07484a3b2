"""Which dims of a tensor program run together: every dim of every value gets the iteration axis it belongs to.

Elementwise operations, broadcasts, transposes, reductions and contractions tie the dims of their operands to those of
their result.  An input ties nothing where a contraction uses it, or where it would meet itself along two axes: there
each use of it is a load of its own, so ``x @ x.T`` has three axes and not one.  Coordinates (iota) are unshared before,
since one of them may be wanted along several axes.  The result is what the families lower by: two values with the same
axes can share tiles.
"""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from portakern.ir.core import Arg, Block, Op
from portakern.ir.core import Yield as Give
from portakern.ir.size import Size
from portakern.ir.tensor import (
    ArgFold,
    AssociativeScan,
    BitConvert,
    Contract,
    Convert,
    Cumulate,
    DimSize,
    Expand,
    Fold,
    Gather,
    Iota,
    KeySort,
    Literal,
    Map,
    Reshape,
    SegmentContract,
    SegmentFold,
    TensorProgram,
    TensorType,
    Transpose,
    Windows,
    tensor_type,
)  # fmt: skip
from portakern.lower.pairs import pairs_of
from portakern.lower.uses import needed


@dataclass(frozen=True, eq=False)
class AxisClass:
    """One iteration axis: its name and extent."""

    name: str
    extent: Size

    def __str__(self) -> str:
        return f"{self.name}:{self.extent}"


class Classes:
    """Axis classes by (operation, dim).  ``names`` gives names to the axes of arguments' dims.

    Values in ``apart`` tie nothing: each use of one is a load of its own.  :func:`axis_classes` finds which arguments must be.
    """

    def __init__(self, program: TensorProgram, names: Mapping[str, tuple[str, ...]], apart: frozenset[Op]) -> None:
        self.apart = apart
        self.parent: list[int] = []  # of each node, by its number
        self.sizes: list[Size] = []
        self.first: dict[Op, int] = {}  # the node of a value's first dim, which the others follow
        self.by_use: dict[tuple[Op, int], range] = {}
        self.found: dict[int, AxisClass] = {}
        self.hints: dict[int, str] = {}
        self.sorts: dict[object, Op] = {}  # the first result of each
        for op in program.body.ops:
            self._tie(op, names)
        for first, second in pairs_of(program):  # both walk the array that they share
            for d in first.lhs_axes:
                self._join(self.by_use[(first, 0)][d], self.by_use[(second, 0)][d])
        self._name(program)

    # ---- union-find

    def _nodes(self, shape: tuple[Size, ...]) -> range:
        """New nodes for dims of these sizes."""
        start = len(self.parent)
        nodes = range(start, start + len(shape))
        self.parent += nodes
        self.sizes += shape
        return nodes

    def _dims(self, op: Op) -> range:
        """The nodes of the dims of a value."""
        shape = op.type.shape if isinstance(op.type, TensorType) else ()
        start = self.first.get(op)
        if start is None:
            nodes = self._nodes(shape)
            self.first[op] = nodes.start
            return nodes
        return range(start, start + len(shape))

    def _root(self, node: int) -> int:
        parent = self.parent
        while (above := parent[node]) != node:
            parent[node] = node = parent[above]
        return node

    def _join(self, a: int, b: int) -> None:
        self.parent[self._root(a)] = self._root(b)

    def _tie(self, op: Op, names: Mapping[str, tuple[str, ...]]) -> None:
        mine = self._dims(op)
        for number, operand in enumerate(op.operands):
            is_arg = isinstance(operand, Arg)
            is_leaf = operand in self.apart or (is_arg and isinstance(op, Contract | SegmentContract | Give))
            # A leaf's dims are nodes of this use alone.
            nodes = self._nodes(tensor_type(operand).shape) if is_leaf else self._dims(operand)
            if is_arg and operand.name in names:
                self.hints.update(zip(nodes, names[operand.name], strict=False))
            for d, node in enumerate(nodes):
                target = tied_dim(op, number, d)
                if target is not None:
                    self._join(node, mine[target])
            self.by_use[(op, number)] = nodes
        self._suggest(op)
        if isinstance(op, Contract):
            for i, j in zip(op.lhs_axes, op.rhs_axes, strict=True):
                self._join(self.by_use[(op, 0)][i], self.by_use[(op, 1)][j])
        if isinstance(op, SegmentContract):
            self._join(self.by_use[(op, 0)][1], self.by_use[(op, 1)][1])
        if isinstance(op, KeySort):
            for number in range(1, len(op.xs)):
                self._join(self.by_use[(op, 0)][op.axis], self.by_use[(op, number)][op.axis])
            self._join(mine[op.axis], self._dims(self.sorts.setdefault(op.whole, op))[op.axis])

    def _suggest(self, op: Op) -> None:
        """Names for new axes by those of the dims that they were: of joined dims both, of windows o(ut) and k(ernel)."""
        if not isinstance(op, Reshape | Windows):
            return
        before, mine = [self.hints.get(n, "") for n in self.by_use[(op, 0)]], self._dims(op)
        if isinstance(op, Windows):
            rank = len(before)
            for number, d in enumerate(op.dims):
                if name := before[d]:
                    self.hints[mine[d]], self.hints[mine[rank + number]] = f"o{name.split('_')[0]}", f"k{name}"
            for d in range(rank):
                if d not in op.dims and before[d]:
                    self.hints[mine[d]] = before[d]
            return
        inner, outer = tensor_type(op.x).shape, op.shape
        first = _alike(inner, outer)
        last = min(_alike(inner[::-1], outer[::-1]), len(inner) - first, len(outer) - first)
        for d in range(len(outer)):
            kept = d if d < first else d - len(outer) + len(inner) if d >= len(outer) - last else None
            if kept is not None and before[kept]:
                self.hints[mine[d]] = before[kept]
        if first + last == len(outer) - 1 and (joined := "_".join(filter(None, before[first : len(inner) - last]))):
            self.hints[mine[first]] = joined

    def _name(self, program: TensorProgram) -> None:
        hints: dict[int, str] = {}
        for node, hint in self.hints.items():
            hints.setdefault(self._root(node), hint)
        taken = {*keyword.kwlist, *(a.name for a in program.args)}  # indices are written, and read back, as expressions
        letters = iter("ijklrstuvxyz")
        tried: dict[str, int] = {}
        extents: dict[int, Size] = {}
        for node, size in enumerate(self.sizes):
            if size != 1:
                extents.setdefault(self._root(node), size)
        for op in program.body.ops:
            for node in (*self._dims(op), *(n for i in range(len(op.operands)) for n in self.by_use[(op, i)])):
                root = self._root(node)
                if root not in self.found:
                    base = hints.get(root, "") or next(letters, "axis")
                    n = tried.get(base, 1)
                    name = base if n == 1 else f"{base}{n}"
                    while name in taken:
                        n += 1
                        name = f"{base}{n}"
                    taken.add(name)
                    tried[base] = n
                    self.found[root] = AxisClass(name, extents.get(root, 1))

    # ---- answers

    def of(self, op: Op) -> tuple[AxisClass, ...]:
        """The axes of the dims of a computed value, in order."""
        return tuple(self.found[self._root(node)] for node in self._dims(op))

    def of_operand(self, op: Op, number: int) -> tuple[AxisClass, ...]:
        """The axes of the dims of an operand as ``op`` uses it."""
        return tuple(self.found[self._root(node)] for node in self.by_use[(op, number)])


def _alike(inner: tuple[Size, ...], outer: tuple[Size, ...]) -> int:
    """How many dims two shapes begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(inner, outer, strict=False)) if a != b), min(len(inner), len(outer)))


def tied_dim(op: Op, number: int, d: int) -> int | None:
    """The dim of the result of ``op`` that dim ``d`` of its operand ``number`` runs along, if it does."""
    operand = op.operands[number]
    match op:
        case Give():
            return None
        case Map():
            return d if tensor_type(operand).shape else None
        case Convert() | BitConvert() | Cumulate() | AssociativeScan():
            return d
        case KeySort():
            return None if d == op.axis and op.count and not op.run else d
        case Expand():
            return op.dims[d] if tensor_type(operand).shape[d] == op.shape[op.dims[d]] else None
        case Transpose():
            return op.order.index(d)
        case Fold():
            return None if d in op.axes else d - sum(a < d for a in op.axes)
        case ArgFold():
            return None if d == op.axis else d - (op.axis < d)
        case SegmentFold():
            return d if number == 0 and d != op.axis else None
        case Contract():
            return _contract_dim(op, number, d)
        case SegmentContract():
            if number == 2:
                return 0 if op.by_rows else None
            return {(0, 0): 0, (1, 2): 1}.get((number, d))
        case Gather():
            return _gather_dim(op, number, d)
        case Windows():
            return None if d in op.dims else d
        case Reshape():
            return matched_dims(tensor_type(operand).shape, op.shape).get(d)
    return None


def _contract_dim(op: Contract, number: int, d: int) -> int | None:
    batch, free, first = ((op.lhs_batch, op.lhs_free, len(op.lhs_batch)),
                          (op.rhs_batch, op.rhs_free, len(op.lhs_batch) + len(op.lhs_free)))[number]
    if d in batch:
        return batch.index(d)
    return first + free.index(d) if d in free else None


def _gather_dim(op: Gather, number: int, d: int) -> int | None:
    if number == 1:
        return d if op.zipped else op.axis + d
    if d == op.axis:
        return None  # walked by the indices
    return d if op.zipped or d < op.axis else d + tensor_type(op.indices).rank - 1


def matched_dims(inner: tuple[Size, ...], outer: tuple[Size, ...]) -> dict[int, int]:
    """Dims that a reshape between these shapes leaves alone, where dims of 1 are all that comes or goes; else none."""
    a = [i for i, s in enumerate(inner) if s != 1]
    b = [i for i, s in enumerate(outer) if s != 1]
    same = [inner[i] for i in a] == [outer[j] for j in b]
    return dict(zip(a, b, strict=True)) if same else {}


def is_thin(op: Reshape) -> bool:
    """Whether a reshape only puts in dims of 1 or takes them out."""
    shape = tensor_type(op.x).shape
    return len(matched_dims(shape, op.shape)) == sum(s != 1 for s in shape)


def axis_classes(program: TensorProgram, names: Mapping[str, tuple[str, ...]], stored: Iterable[Op] = ()) -> Classes:
    """The axis classes of ``program``, with every argument apart that would otherwise meet itself along two axes, and the
    values in ``stored``, as if they were arrays that are loaded."""
    apart: frozenset[Op] = frozenset(stored)
    while True:
        classes = Classes(program, names, apart)
        doubled = {c for op in program.body.ops for c in repeats(classes, op)}
        more = frozenset(
            operand for op in program.body.ops for i, operand in enumerate(op.operands)
            if isinstance(operand, Arg) and operand not in apart and doubled & set(classes.of_operand(op, i)))
        if not more:
            return classes
        apart |= more


def repeats(classes: Classes, op: Op) -> set[AxisClass]:
    """The axes that a value runs along twice."""
    if not isinstance(op.type, TensorType):
        return set()
    mine = classes.of(op)
    if isinstance(op, Contract):
        mine = (*mine, *(classes.of_operand(op, 0)[i] for i in op.lhs_axes))
    if isinstance(op, SegmentContract):
        mine = (*mine, *classes.of_operand(op, 1)[:2])
    if isinstance(op, SegmentFold):
        mine = (*mine, classes.of_operand(op, 0)[op.axis])
    return {c for i, c in enumerate(mine) if c in mine[:i]} if len(set(mine)) < len(mine) else set()


def unshared(program: TensorProgram, names: Mapping[str, tuple[str, ...]]) -> TensorProgram:
    """``program`` with copies of what costs nothing and would tie axes together; equal values are one again after any rewriting
    to the canonical form."""
    return _unshare_moves(_unshare_coordinates(program), names)


def _unshare_coordinates(program: TensorProgram) -> TensorProgram:
    """``program`` with a copy of every value made of coordinates alone for each of its uses: they cost nothing, and one
    of them along two axes would tie those axes together."""
    free: set[Op] = set()
    for op in program.body.ops[:-1]:
        if isinstance(op, Iota) or (op.operands and all(o in free or not tensor_type(o).shape for o in op.operands)
                                    and any(o in free for o in op.operands)):
            free.add(op)
    return unshare(program, free)


def _unshare_moves(program: TensorProgram, names: Mapping[str, tuple[str, ...]]) -> TensorProgram:
    """``program`` with copies of the moves through which a value meets itself along two axes (``x.T`` along other axes in both
    operands): an array is then loaded once for each, and a computed value is moved out of its array.  A product has the moves
    of arrays to itself, as it has arrays: what is added to it may be seen in the same way."""
    of_arrays = {op for op in program.body.ops if is_move(op) and isinstance(moved(op), Arg)}
    products = (Contract, SegmentContract)
    program = unshare(program, of_arrays, frozenset(op for op in program.body.ops if isinstance(op, products)))
    classes = axis_classes(program, names)
    meeting = meeting_themselves(program, classes)
    if not meeting:
        return program
    behind = needed(meeting)
    axes = {c for op in meeting for c in repeats(classes, op)}
    moves = {op for op in behind if is_move(op) and not axes.isdisjoint(classes.of(op))}
    return unshare(program, moves, frozenset(behind))


def meeting_themselves(program: TensorProgram, classes: Classes) -> list[Op]:
    """The operations that run along an axis twice: what they are computed from ties two dims that are none."""
    kinds = Map | Contract | SegmentContract | SegmentFold
    return [op for op in program.body.ops if isinstance(op, kinds) and repeats(classes, op)]


def is_counted(op: Op) -> bool:
    """Whether ``op`` picks elements at places that are known beforehand, as integers of four bits are out of their bytes."""
    if not isinstance(op, Gather):
        return False
    left = [op.indices]
    while left:
        o = left.pop()
        if not isinstance(o, Map | Convert | Expand | Iota | Literal | DimSize):
            return False
        left += o.operands
    return True


def is_move(op: Op) -> bool:
    """Whether ``op`` only says where the elements of its operand go, or in which dtype: an array has any shape."""
    return isinstance(op, Transpose | Expand | Convert) or (isinstance(op, Reshape) and (isinstance(op.x, Arg) or is_thin(op)))


def moved(op: Op) -> Op:
    """What ``op`` is a move of."""
    while is_move(op):
        (op,) = op.operands
    return op


def unshare(program: TensorProgram, free: Collection[Op], users: Collection[Op] | None = None) -> TensorProgram:
    """``program`` with a copy of every value in ``free`` for each of its uses by ``users`` (by all where ``None``).  What one
    elementwise computation uses several times runs along the same axes each time, and is copied once for it."""
    new: dict[Op, Op] = {}
    ops: list[Op] = []
    of_scans: dict[object, dict[Op, Op]] = {}  # what several results of one scan or sort are computed from

    def use(op: Op, copied: dict[Op, Op]) -> Op:
        if op not in free:
            return new.get(op, op)
        if op not in copied:
            copy = operands_used(op, copied)
            copied[op] = replace(copy) if copy is op else copy
            ops.append(copied[op])
        return copied[op]

    def operands_used(op: Op, copied: dict[Op, Op]) -> Op:
        together = isinstance(op, Map | Convert | BitConvert | AssociativeScan | KeySort)
        return op.remap(lambda o: use(o, copied if together else {}))

    for op in program.body.ops:
        if users is None and op in free:
            continue
        copied = of_scans.setdefault(op.whole, {}) if isinstance(op, AssociativeScan | KeySort) else {}
        new[op] = operands_used(op, copied) if users is None or op in users else op.remap(lambda o: new.get(o, o))
        ops.append(new[op])
    return replace(program, body=Block(program.body.args, tuple(ops)))
