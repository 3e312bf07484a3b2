"""Cuts a tensor program into levels, between which whole arrays must exist, and stores each such array once.

A value must exist as a whole array under a view that is no index map of a computed value, where windows are taken of it,
and where it would meet itself along two axes (``y @ y.T``).  So must what is compared with itself, as a sort compares: of two
ways to compute a value one may round otherwise, and then nothing would be its equal.  So must what is made of pieces, which
are stored one by one.  A value's level is the number of such arrays on the longest way to it: those of one level become one
program, whose results the later ones load.  What is computed from a reduction, a product or a scan of an earlier level is
stored there too, so that none of these is ever computed twice; elementwise work on inputs is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import prod

from portakern.dtypes import DTYPES
from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.functions import COMPARE, COSTLY
from portakern.ir.rewrite import live
from portakern.ir.size import product
from portakern.ir.tensor import (
    ArgFold,
    Assemble,
    AssociativeScan,
    Contract,
    Convert,
    Cumulate,
    DimSize,
    Expand,
    Flip,
    Fold,
    Gather,
    Iota,
    KeySort,
    Literal,
    Map,
    RandomBits,
    Recur,
    Reshape,
    SegmentContract,
    SegmentFold,
    Slice,
    TensorProgram,
    Transpose,
    Windows,
    tensor_type,
)  # fmt: skip
from portakern.lower.classes import Classes, axis_classes, is_counted, is_move, is_thin, repeats
from portakern.lower.growing import Inside, inside_others
from portakern.lower.online import match_weights
from portakern.lower.pages import picked_in_place
from portakern.lower.placing import Placed, pieces_of
from portakern.lower.recomputed import inner_products, recomputed
from portakern.lower.uses import needed, users_of

Names = Mapping[str, tuple[str, ...]]

ANCHORS = (Fold, SegmentFold, Contract, SegmentContract, ArgFold, Cumulate, AssociativeScan, KeySort)
"""What a kernel is built around: everything else is elementwise work or a view."""

MOST_TURNS = 8
"""Reductions over changing axes (rows, then columns, then rows) that a value may be computed from again in each kernel that
needs it: in a longer chain it is stored, since otherwise the n-th kernel would do the work of n."""

SUMMED = 3
"""Arrays of which a sum is read as often as it is written and read itself, by two that need it."""

BLOCK = 128
"""Columns of a product that a block has, as most schedules have it."""

OFTEN = 4
"""Blocks of rows that would each widen the numbers of few bits again that they multiply, from which on these are widened once:
4096^3 of bf16 by weights of 8 bits in groups of 128 took 631 us on an H200, and takes 190 on an H100."""

FEW_BITS = 8

LARGE = 1 << 20
"""Elements of an array of no input, beyond which it is computed where it is needed: to load it would take as long."""


def levels(program: TensorProgram, names: Names, fresh: Iterator[str], placed: dict[str, Placed], shares: bool = True,
           picks: bool = True, attention: bool = True) -> list[TensorProgram]:  # fmt: skip
    """Parts of ``program`` in order; arrays between them are named by ``fresh`` unless they are outputs.  Outputs of parts that
    are pieces of arrays are added to ``placed``.  ``shares``: an array may lie in a larger one (:mod:`growing`); ``picks``:
    operands of products may be picked element by element; ``attention``: what a softmax weighs goes with it into one kernel."""
    whole = _Wholes(program, names, picks, attention).find()
    if not whole:
        return [program]
    level = _levels(program, whole)
    inside = inside_others(program, program.results) if shares else {}
    # Each piece of an array is stored where it is computed, whatever the others wait for.
    pieced = {i.whole for i in inside.values()} | {op for op in (*program.results, *whole) if isinstance(op, Assemble)}
    stored = stored_for(program, whole, level, pieced | {op for op in inside if isinstance(op, Assemble)})
    names_of: dict[Op, str] = {}
    for op, name in zip(program.results, program.outputs, strict=True):
        if name not in placed:  # a piece of an array is no array, from which it could be loaded
            names_of.setdefault(op, name)
    wanted = list(zip(program.results, program.outputs, strict=True))
    for op in stored:
        if op not in inside and op not in names_of:
            names_of[op] = next(fresh)
            wanted.append((op, names_of[op]))
    due: dict[int, list[tuple[Op, str]]] = {}
    for op, name in wanted:
        for value, output in _in_pieces([(op, name)], placed):
            made = level.get(value if op in pieced else op, 0)
            # A piece that is an array of pieces itself is copied once it is whole.
            after = made + 1 if value is not op and value in stored and isinstance(value, Assemble) else made
            due.setdefault(after, []).append((value, output))
    parts: list[TensorProgram] = []
    for n in sorted(due):
        earlier = {op: _array(op, names_of, inside) for op in stored if level[op] < n}
        part = program_of(program, [op for op, _ in due[n]], [name for _, name in due[n]], earlier)
        parts += levels(part, names, fresh, placed, shares, picks, attention)
    return parts


def _array(op: Op, names: Mapping[Op, str], inside: Mapping[Op, Inside]) -> str | Slice:
    """What a later level loads ``op`` from: an array by its name, or a slice of a larger one."""
    if (place := inside.get(op)) is None:
        return names[op]
    return place.view(op, Arg(names[place.whole], place.whole.type))


def _in_pieces(wanted: Iterable[tuple[Op, str]], placed: dict[str, Placed]) -> Iterator[tuple[Op, str]]:
    """``wanted`` with the pieces of arrays in the place of these, each an output whose place is noted."""
    for op, name in wanted:
        if not isinstance(op, Assemble):
            yield op, name
            continue
        for part, output, place in pieces_of(op, name):
            placed[output] = place
            yield part, output


def program_of(program: TensorProgram, results: Iterable[Op], outputs: Iterable[str],
               arrays: Mapping[Op, str | Slice] | None = None) -> TensorProgram:
    """The part of ``program`` that computes ``results``, in which the values in ``arrays`` are arguments by that name, or
    slices of arguments."""
    results, arrays = tuple(results), arrays or {}
    args: dict[str, Arg] = {}
    done: dict[Op, Op] = {}
    ops: list[Op] = []
    for op in needed(results, arrays):
        seen = arrays.get(op)
        if isinstance(seen, Slice):
            assert isinstance(seen.x, Arg)
            done[op] = replace(seen, x=args.setdefault(seen.x.name, seen.x))
            ops.append(done[op])
            continue
        if isinstance(op, Arg) or seen is not None:
            name = op.name if isinstance(op, Arg) else str(seen)
            done[op] = args.setdefault(name, op if isinstance(op, Arg) else Arg(name, op.type))
            continue
        new = op.remap(done.__getitem__)
        done[op] = replace(new) if new is op else new  # a value of its own: programs share no operations
        ops.append(done[op])
    order = [a for a in program.args if a.name in args]
    rest = [a for a in args.values() if a not in order]
    body = Block((*order, *rest), live([*ops, Yield(tuple(done[r] for r in results))]))
    return TensorProgram(program.name, body, tuple(outputs), program.scalars)


class Flow:
    """Who uses the values of a program (what gives the results is a user), and where in the program every operation stands."""

    def __init__(self, program: TensorProgram) -> None:
        self.place = {op: n for n, op in enumerate(program.body.ops)}
        self.users = users_of(program)

    def end_of_chain(self, anchor: Op, joins: Callable[[Op, Op], bool]) -> Op:
        """The last value through which everything computed from ``anchor`` goes, with elementwise work alone on the way.

        ``joins(user, other)`` says whether the chain takes in ``user``, of which ``other`` is an operand from outside of it
        (``anchor`` where there is none).
        """
        end, inside = anchor, {anchor}
        left = {anchor: len(self.users.get(anchor, []))}  # users that are not inside, of values that have some
        waiting = [(self.place[u], u) for u in self.users.get(anchor, [])]
        heapify(waiting)
        while waiting:
            _, op = heappop(waiting)
            others = [o for o in op.operands if o not in inside] or [anchor]
            if not isinstance(op, Map | Convert) or tensor_type(op).shape != tensor_type(anchor).shape:
                return end
            if not all(joins(op, o) for o in others):
                return end
            for o in {o for o in op.operands if o in inside}:
                left[o] -= 1
                if not left[o]:
                    del left[o]
            inside.add(op)
            left[op] = len(self.users.get(op, []))
            for user in self.users.get(op, []):
                if not any(u is user for _, u in waiting):
                    heappush(waiting, (self.place[user], user))
            end = op if len(left) == 1 else end
        return end


def last_anchors(program: TensorProgram) -> dict[Op, int]:
    """For every value that depends on reductions, products or scans, the number of the last of them."""
    last: dict[Op, int] = {}
    for op in program.body.ops:
        number = max((last.get(o, -1) for o in op.operands), default=-1)
        if isinstance(op, ANCHORS):
            number = len(last)  # grows with every one of them
        if number >= 0:
            last[op] = number
    return last


def ends_of_chains(program: TensorProgram, kinds: tuple[type[Op], ...], joins: Callable[[Op, Op], bool]) -> set[Op]:
    """Where the elementwise chains behind ``kinds`` of operations end that lead nowhere else; a chain takes in what was
    computed before it.  ``joins(anchor, user)`` says whether it goes on to ``user``."""
    flow, last = Flow(program), last_anchors(program)
    return {flow.end_of_chain(op, lambda user, o, a=op: joins(a, user) and last.get(o, -1) <= last[a])
            for op in program.body.ops if isinstance(op, kinds)}  # fmt: skip


# ---- which arrays must be whole ------------------------------------------------------------------------------------------


class _Wholes:
    def __init__(self, program: TensorProgram, names: Names, picks: bool, attention: bool) -> None:
        self.program, self.names, self.picks = program, names, picks
        self.in_place: set[Op] = set()  # moves of keys and values that their attention makes itself
        if attention and picks:
            self.in_place = picked_in_place(program, Flow(program).users, lambda g: _can_be_picked_from(g.x, g.axis, g.fill))
        self.anchored = last_anchors(program).keys()
        self.ends = ends_of_chains(program, (Contract, SegmentContract), lambda anchor, user: True)

    def find(self) -> set[Op]:
        """The values that must be stored whole."""
        found = {o for op in self.program.body.ops for o in self._under_view(op)} | self._far_from_stored()
        found |= {op for op in self.program.body.ops if isinstance(op, Assemble)}
        found |= {v for op in self.program.body.ops for v in _compared_with_itself(op)}
        found |= self._tables() | self._normalised() | self._skipping() | self._widened_often()
        while True:
            doubled = self._doubled(found)
            if not doubled:
                return found
            more = {v for op in doubled if isinstance(op, Contract | SegmentContract) for v in self._products_below(op)} - found
            more = more or self._first_meeting(found) or {v for op in doubled for v in _bases(op)} - found
            if not more:
                return found
            found |= more

    def _under_view(self, op: Op) -> list[Op]:
        """The operand of a view that is no index map of it."""
        if op in self.in_place:
            return []
        if isinstance(op, Windows):
            return [] if _is_view(op.x) else [op.x]
        if isinstance(op, Slice | Flip):
            return [_seen(o) for o in op.operands if o in self.anchored and tensor_type(o).shape]
        if isinstance(op, Reshape) and not isinstance(op.x, Arg) and tensor_type(op.x).shape and not is_thin(op):
            return [op.x]
        if isinstance(op, Gather):
            table = [] if _can_be_picked_from(op.x, op.axis, op.fill) else [op.x]
            # Where loads take no single elements a line is sorted as a whole, and picked from place by place; and indices
            # that are computed from the numbers of an array are an array of their own.
            made = op.indices in self.anchored and bool(tensor_type(op.indices).shape)
            stored = not self.picks and (_sorted(op.indices) or _of_floats(op.indices) or made)
            return [*table, op.indices] if stored else table
        if isinstance(op, SegmentFold):
            return _looked_up(op)
        if isinstance(op, Contract | SegmentContract):
            return [*(g for o in op.operands for g in self._gathers_in(o)), *_weights_of_planes(op)]
        return []

    def _tables(self) -> set[Op]:
        """Values of no input that take long to compute and that products are made of: the roots of a Fourier transform, say,
        which every block would compute again."""
        costly: dict[Op, bool] = {}  # values of no input
        for op in self.program.body.ops:
            if not isinstance(op, RandomBits | Yield) and all(o in costly for o in op.operands):
                costly[op] = (isinstance(op, Map) and op.fn in COSTLY) or any(costly[o] for o in op.operands)
        found: set[Op] = set()
        frontier = [o for op in self.program.body.ops if isinstance(op, Contract) for o in op.operands]
        seen: set[Op] = set()
        while frontier:
            op = frontier.pop()
            if op in seen or op in self.anchored:
                continue
            seen.add(op)
            if costly.get(op) and not isinstance(op, Expand | Transpose):
                size = prod(n if isinstance(n, int) else LARGE + 1 for n in tensor_type(op).shape)
                found |= {op} if 1 < size <= LARGE else set()
            else:
                frontier += op.operands
        return found

    def _normalised(self) -> set[Op]:
        """Operands of products whose lines were reduced first, as a norm does it, where more columns than a block has need
        them: the kernel that reduces a line has it at hand, and every block of the product would compute it again."""
        found = {v: op for op in self.program.body.ops if isinstance(op, Contract) for v in _reduced_operands(op)}
        if not found:
            return set()
        classes, users = self._classes(set(), self.program.body.ops), Flow(self.program).users
        nobody_stores = recomputed(self.program, classes, users)
        return {v for v, op in found.items() if not inner_products(op, nobody_stores)}

    def _widened_often(self) -> set[Op]:
        """Operands of products that are made of numbers of few bits (weights with a scale for each group), where many blocks of
        rows would make them again, and none could have them brought as they lie."""
        found: set[Op] = set()
        for op in (x for x in self.program.body.ops if isinstance(x, Contract)):
            for value, other, free in ((op.lhs, op.rhs, op.rhs_free), (op.rhs, op.lhs, op.lhs_free)):
                rows = product(tuple(tensor_type(other).shape[d] for d in free))
                if isinstance(rows, int) and rows >= OFTEN * BLOCK and _is_widened(made := _seen(value)):
                    found.add(made)
        return found

    def _skipping(self) -> set[Op]:
        """Sums of several arrays that go past a product to be met again behind it, as residuals do, where no product stores
        them: in a network of n layers the last would add up n of them."""
        ops, users = self.program.body.ops, Flow(self.program).users
        found: set[Op] = set()
        arrays: dict[Op, frozenset[Op]] = {}  # as large as a value, that it is computed from
        for op in ops:
            if isinstance(op, Arg | Contract | SegmentContract) or op in self.ends:
                arrays[op] = frozenset({op})
            elif isinstance(op, Map | Reshape) or is_move(op):
                size = product(tensor_type(op).shape)
                below = [arrays.get(o, frozenset()) for o in op.operands if product(tensor_type(o).shape) == size]
                arrays[op] = frozenset().union(*below)
                if len(arrays[op]) >= SUMMED and len(users.get(op, ())) > 1 and self._met_again(op, users):
                    found.add(op)
                    arrays[op] = frozenset({op})
        return found

    def _met_again(self, value: Op, users: Mapping[Op, Sequence[Op]]) -> bool:
        """Whether elementwise work has both ``value`` and what a product makes of it."""
        behind: dict[Op, bool] = {value: False}  # what is computed from it: whether by way of a product
        frontier = [value]
        while frontier:
            op = frontier.pop()
            for user in users.get(op, ()):
                past = behind[op] or isinstance(user, Contract | SegmentContract)
                if isinstance(user, Map) and value in map(_moved, user.operands) and any(behind.get(o) for o in user.operands):
                    return True
                if behind.get(user) is None or (past and not behind[user]):
                    behind[user] = past
                    frontier.append(user)
        return False

    def _gathers_in(self, operand: Op) -> list[Op]:
        """The gathers in the elementwise work before a product: what copies its operands copies whole tiles.  What comes out of
        packed bytes is computed anyway, and of few bits because it shall not be read as more."""
        if operand in self.anchored:
            return []
        gathers = (o for o in needed([operand]) if isinstance(o, Gather) and o not in self.in_place)
        return [o for o in gathers if not (self.picks and is_counted(o))]

    def _far_from_stored(self) -> set[Op]:
        """Values with several users that more than :data:`MOST_TURNS` reductions in turn lead to."""
        found: set[Op] = set()
        turns: dict[Op, tuple[int, object]] = {}  # and what was reduced last: shape and axes
        users = Flow(self.program).users
        for op in self.program.body.ops:
            count, last = max((turns.get(o, (0, None)) for o in op.operands), key=lambda t: t[0], default=(0, None))
            if isinstance(op, Contract | SegmentContract | Cumulate | AssociativeScan | KeySort):
                count, last = 0, None  # as large as what it is computed from, and stored
            elif isinstance(op, Fold) and (over := (tensor_type(op.x).shape, op.axes)) != last:
                count, last = count + 1, over
            elif isinstance(op, Map) and count > MOST_TURNS and len(users[op]) > 1:
                found.add(op)
                count, last = 0, None
            turns[op] = (count, last)
        return found

    def _classes(self, found: set[Op], ops: Sequence[Op]) -> Classes:
        return axis_classes(replace(self.program, body=Block(self.program.body.args, tuple(ops))), self.names, found)

    def _doubled(self, found: set[Op], ops: Sequence[Op] | None = None) -> list[Op]:
        """The operations on computed values that would run along an axis twice, were ``found`` stored."""
        ops = self.program.body.ops if ops is None else ops
        classes = self._classes(found, ops)
        kinds = Contract | SegmentContract | SegmentFold | Map | Gather
        return [op for op in ops if isinstance(op, kinds) and repeats(classes, op)]

    def _products_below(self, op: Contract | SegmentContract) -> set[Op]:
        """Results of products that ``op`` is computed from with elementwise work between: they are stored anyway.  The
        scores of an attention are not."""
        found: set[Op] = set()
        frontier = [o for o in op.operands if match_weights(o) is None]
        seen: set[Op] = set()
        while frontier:
            o = frontier.pop()
            if o in self.ends:
                found.add(o)
            elif o in self.anchored and o not in seen and not isinstance(o, ANCHORS):
                frontier += o.operands
            seen.add(o)
        return found

    def _first_meeting(self, found: set[Op]) -> set[Op]:
        """What the first operation joins that makes a value run along an axis twice: one operand if that is enough."""
        ops = self.program.body.ops
        low, high = 0, len(ops)  # the first ``low`` operations do not, the first ``high`` do
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._doubled(found, ops[:middle]) else (middle, high)
        candidates = [v for v in _bases(ops[high - 1]) if v not in found]
        single = (v for v in candidates if not self._doubled({*found, v}, ops[:high]))
        alone = next(single, None)
        return {alone} if alone is not None else set(candidates)


def _weights_of_planes(op: Contract | SegmentContract) -> list[Op]:
    """Weights that were turned around, as those of transposed convolutions are, of pixels that come with all their taps: stored
    again, their taps and channels are one axis."""
    return [w for w, x in (op.operands[:2], op.operands[1::-1])
            if isinstance(x, Windows) and x.reaching and isinstance(x.x, Transpose) and isinstance(w, Flip | Slice)]


def _is_widened(value: Op) -> bool:
    """Whether a float is made elementwise of arrays of which the largest has few bits."""
    made, dtype = needed([value]), DTYPES[tensor_type(value).dtype]
    if not isinstance(value, Map | Convert) or not dtype.is_float or any(isinstance(x, ANCHORS) for x in made):
        return False
    arrays = [tensor_type(x) for x in made if isinstance(x, Arg) and all(isinstance(n, int) for n in tensor_type(x).shape)]
    largest = max(arrays, key=lambda t: prod(int(n) for n in t.shape), default=None)  # type: ignore[call-overload]
    return largest is not None and DTYPES[largest.dtype].bits <= FEW_BITS < dtype.bits


def _reduced_operands(op: Contract) -> Iterator[Op]:
    """The operands of ``op``, without transposes, that elementwise work makes of reductions along what is multiplied.  Weights
    of an attention are none."""
    sides = ((op.lhs, op.lhs_axes, op.rhs, op.rhs_free), (op.rhs, op.rhs_axes, op.lhs, op.lhs_free))
    for value, axes, other, free in sides:
        columns = product(tuple(tensor_type(other).shape[d] for d in free))
        if (isinstance(columns, int) and columns <= BLOCK) or match_weights(value) is not None:
            continue
        while isinstance(value, Transpose):
            value, axes = value.x, tuple(value.order[d] for d in axes)
        if isinstance(value, Map | Convert) and _folds_lines(value, axes):
            yield value


def _folds_lines(value: Op, axes: Sequence[int]) -> bool:
    """Whether elementwise work makes ``value`` of reductions of arrays of its shape along ``axes``."""
    shape = tensor_type(value).shape
    frontier, seen = [value], set[Op]()
    while frontier:
        op = frontier.pop()
        if isinstance(op, Fold) and tensor_type(op.x).shape == shape and set(op.axes) == set(axes):
            return True
        if op not in seen and isinstance(op, Map | Convert | Expand):
            seen.add(op)
            frontier += op.operands
    return False


def _looked_up(fold: SegmentFold) -> list[Op]:
    """What says where a walk goes and was looked up itself: bounds, and coordinates at which it picks.  A block would look
    these up again for every segment, or at every step."""
    found, frontier, seen = [fold.offsets], [fold.x], set[Op]()
    while frontier:
        op = frontier.pop()
        if op in seen:
            continue
        seen.add(op)
        if isinstance(op, Gather):
            found.append(op.indices)
        frontier += [] if isinstance(op, ANCHORS) else op.operands[:1] if isinstance(op, Gather) else op.operands
    return [o for o in found if not isinstance(o, ANCHORS) and any(isinstance(g, Gather) for g in needed([o]))]


def _sorted(op: Op) -> bool:
    """Whether elementwise work on what a sort gives makes ``op``."""
    frontier, seen = [op], set[Op]()
    while frontier:
        op = frontier.pop()
        if isinstance(op, KeySort):
            return True
        if op not in seen and isinstance(op, Map | Convert | Expand | Transpose):
            seen.add(op)
            frontier += op.operands
    return False


def _of_floats(op: Op) -> bool:
    """Whether elementwise work on floats of an array makes integers ``op``."""
    frontier, seen = [(op, False)], set[tuple[Op, bool]]()
    while frontier:
        op, real = frontier.pop()
        if (op, real) in seen:
            continue
        seen.add((op, real))
        if isinstance(op, Map | Convert | Expand | Transpose | Slice | Reshape):
            frontier += [(o, real or DTYPES[tensor_type(o).dtype].is_float) for o in op.operands]
        elif real and not isinstance(op, Literal | DimSize | Iota):
            return True
    return False


def _can_be_picked_from(op: Op, axis: int, fill: float) -> bool:
    """Whether a load can fetch single elements along ``axis`` of ``op``, and ``fill`` where there is none: from an array, or a
    view that is an index map of one."""
    match op:
        case Arg() | Assemble():
            return True
        case Transpose(x=x, order=order):
            return _can_be_picked_from(x, order[axis], fill)
        case Slice(x=x) | Flip(x=x):
            return _can_be_picked_from(x, axis, fill)
        case Expand(x=x, dims=dims):
            inner = dims.index(axis) if axis in dims else -1
            return inner >= 0 and tensor_type(x).shape[inner] != 1 and _can_be_picked_from(x, inner, fill)
        case Gather(x=x, zipped=False):
            rank = tensor_type(op.indices).rank
            beside = axis < op.axis or axis >= op.axis + rank
            source = axis if axis < op.axis else axis - rank + 1
            return beside and repr(op.fill) == repr(fill) and _can_be_picked_from(x, source, fill)
        case Reshape(x=x):
            return isinstance(x, Arg | Assemble)
    return False


def _is_view(op: Op) -> bool:
    """Whether ``op`` is an array, or an input, seen from any side: what windows are taken of is read once for each."""
    while isinstance(op, Transpose | Expand | Convert | Slice | Flip) or (isinstance(op, Reshape) and is_thin(op)):
        op = op.x
    return isinstance(op, Arg | Assemble) or (isinstance(op, Reshape) and isinstance(op.x, Arg | Assemble))


def _seen(op: Op) -> Op:
    """What ``op`` is a view of, once that is an array."""
    while isinstance(op, Transpose | Reshape | Slice | Flip):
        op = op.x
    return op


def _bases(op: Op) -> list[Op]:
    """The computed values that ``op`` is made of, without the moves in between, weights of an attention last."""
    found: list[Op] = []
    for o in sorted(op.operands, key=lambda o: match_weights(o) is not None):
        base = _moved(o)
        if not isinstance(base, Arg) and tensor_type(base).shape:
            found.append(base)
    return found


def _moved(op: Op) -> Op:
    """What ``op`` is a move of; one that rounds it is a value of its own."""
    while isinstance(op, Transpose | Expand) or (isinstance(op, Convert) and _widens(op)):
        op = op.x
    return op


def _widens(op: Convert) -> bool:
    mine, other = DTYPES[op.dtype], DTYPES[tensor_type(op.x).dtype]
    return mine.is_float == other.is_float and mine.bits >= other.bits


def _compared_with_itself(op: Op) -> list[Op]:
    """The computed value that ``op`` compares with itself."""
    if not isinstance(op, Map) or op.fn not in COMPARE:
        return []
    mine, other = (_moved(o) for o in op.args)
    return [mine] if mine is other and tensor_type(mine).shape and not _is_view(mine) else []


# ---- levels --------------------------------------------------------------------------------------------------------------


def _levels(program: TensorProgram, whole: set[Op]) -> dict[Op, int]:
    """For every value, how many whole arrays lie one after the other on the longest way to it."""
    level: dict[Op, int] = {}
    for op in program.body.ops:
        if not isinstance(op, Yield):
            level[op] = max((level.get(o, 0) + (o in whole) for o in op.operands), default=0)
    return level


def stored_for(program: TensorProgram, whole: set[Op], level: Mapping[Op, int], growing: Container[Op] = ()) -> dict[Op, None]:
    """The values that later levels load: whole arrays, and what is left of reductions and products of earlier levels at the
    end of the elementwise work that only they lead to.  Pieces of arrays in ``growing`` are stored where they are computed."""
    anchored = last_anchors(program).keys()
    ends = ends_of_chains(program, ANCHORS, lambda anchor, user: level.get(anchor) == level.get(user))
    stored = {op: None for op in program.body.ops if op in whole}
    frontier = [o for op in program.body.ops for o in op.operands
                if not isinstance(op, Yield) and op not in growing and level.get(o, 0) < level[op]]  # fmt: skip
    seen: set[Op] = set()
    while frontier:
        op = frontier.pop()
        if op in seen or op in stored or op not in anchored or isinstance(op, Recur):
            continue
        seen.add(op)
        if op in ends:
            stored[op] = None
        else:
            frontier += op.operands
    return stored
