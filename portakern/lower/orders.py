"""Sorts in terms of what every language has.

An element's *key* is an integer whose order is the wanted one: NaN after all others, -0 beside 0, the other way round where the
largest comes first.  So every language sorts integers alone (:class:`~portakern.ir.tensor.KeySort`), stably:

- a line that fits into a tile is sorted there, its values and indices are moved along;
- of a longer one runs are sorted, and neighbouring runs merged, twice as long each time.  Every place of two merged runs finds
  by halving how many elements of the first stand before it, so nothing is exchanged between threads;
- of a few largest or smallest elements, those of every run are the candidates for those of the line;
- a line of open length ranks every element against every other; so does a long one where loads cannot take single elements
  at computed coordinates.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.ir.core import Arg, Block, Op, Result, Yield, at
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size
from portakern.ir.tensor import (
    BitConvert,
    Convert,
    DimSize,
    Expand,
    Fold,
    Gather,
    Iota,
    KeySort,
    Literal,
    Map,
    Recur,
    Slice,
    Sort,
    TensorType,
    Transpose,
    tensor_type,
)  # fmt: skip
from portakern.ir.tile import identity
from portakern.lower.uses import needed

Shape = tuple[Size, ...]

LONGEST = 2**31
"""No line is longer: coordinates are i32."""

AMONG = 4096
"""The longest run of which a few elements are candidates for those of a line: it stays in a first-level cache."""


# ---- helpers on lines ------------------------------------------------------------------------------------------------------


def lines_of(x: Op, axis: int) -> Op:
    """``x`` with ``axis`` moved last."""
    rank = tensor_type(x).rank
    return Transpose(x, (*(d for d in range(rank) if d != axis), axis))


def back(x: Op, axis: int) -> Op:
    """``x`` with its last dim moved to ``axis``."""
    rank = tensor_type(x).rank
    return Transpose(x, (*range(axis), rank - 1, *range(axis, rank - 1)))


def compared(x: Op) -> Op:
    """``x`` in a dtype that has an order and whose lowest value is below all others."""
    dtype = tensor_type(x).dtype
    if DTYPES[dtype].is_float:
        return x if DTYPES[dtype].bits >= 32 else Convert(x, "f32")
    return Convert(x, "i64" if DTYPES[dtype].bits >= 32 and dtype != "i32" else "i32")


def lowest(dtype: str) -> float | int | bool:
    return False if dtype == "bool" else identity("max", dtype)


def whole(value: int, like: Op) -> Literal:
    """``value`` in the dtype of ``like``."""
    return Literal(value, tensor_type(like).dtype)


def chosen(condition: Op, yes: Op, no: Op) -> Op:
    return Map("select", (condition, yes, no))


def picked(x: Op, at: Op, fill: float | int = 0) -> Op:
    """The elements of the lines of ``x`` at ``at``."""
    return Gather(x, at, tensor_type(x).rank - 1, True, fill)


def first_above(line: Op, size: Size, below: Op) -> Op:
    """How many of the ``size`` elements of a line that ascends are at most ``below``, by halving what is left to look at."""
    found: Op = Expand(Literal(0, "i32"), tensor_type(below).shape, ())
    for bit in reversed(range(size.bit_length() if isinstance(size, int) else 31)):
        place = plus(found, (1 << bit) - 1)
        inside = Map("and", (Map("lt", (place, DimSize(size, "i32"))), Map("ge", (place, whole(0, place)))))
        there = picked(line, chosen(inside, place, whole(-1, place)))
        found = chosen(Map("and", (inside, Map("le", (there, below)))), plus(found, 1 << bit), found)
    return found


def plus(x: Op, value: int) -> Op:
    return Map("add", (x, whole(value, x))) if value else x


# ---- keys -----------------------------------------------------------------------------------------------------------------


def keys_of(x: Op, descending: bool) -> Op:
    """Integers (i32 or i64) in whose ascending order the elements of ``x`` are to stand."""
    dtype = tensor_type(x).dtype
    if DTYPES[dtype].is_float:
        keys = _of_floats(x)
    elif dtype == "bool":
        keys = chosen(x, Literal(1, "i32"), Literal(0, "i32"))
    elif dtype == "u64":
        keys = Map("xor", (BitConvert(x, "i64"), Literal(-(2**63), "i64")))
    else:
        keys = Convert(x, "i64" if DTYPES[dtype].bits == 64 or dtype == "u32" else "i32")
    return Map("not", (keys,)) if descending else keys


def _of_floats(x: Op) -> Op:
    """The bits of numbers ascend with them, those of negative ones descend."""
    wide = x if DTYPES[tensor_type(x).dtype].bits >= 32 else Convert(x, "f32")
    dtype, bits = ("i64", 64) if tensor_type(wide).dtype == "f64" else ("i32", 32)
    largest = Literal(2 ** (bits - 1) - 1, dtype)
    zero = Literal(0.0, tensor_type(wide).dtype)
    number = BitConvert(chosen(Map("eq", (wide, zero)), zero, wide), dtype)
    ordered = chosen(Map("lt", (number, Literal(0, dtype))), Map("xor", (number, largest)), number)
    return chosen(Map("isnan", (wide,)), largest, ordered)


def values_of(keys: Op, dtype: str, descending: bool) -> Op | None:
    """What ``keys`` were made of; ``None`` of floats, since -0 and 0 have one key."""
    if DTYPES[dtype].is_float:
        return None
    keys = Map("not", (keys,)) if descending else keys
    if dtype == "bool":
        return Map("ne", (keys, whole(0, keys)))
    if dtype == "u64":
        return BitConvert(Map("xor", (keys, Literal(-(2**63), "i64"))), "u64")
    return Convert(keys, dtype)


# ---- sorting by rank --------------------------------------------------------------------------------------------------------


def _by_rank(line: Op, descending: bool, count: Size, values: bool) -> Op:
    """The elements of a line, or their indices, each of which is looked for at its rank."""
    *lead, size = tensor_type(line).shape
    n, x = len(lead), compared(line)
    shape = (*lead, count, size)
    hit = Map("eq", (Expand(_rank(x, descending), shape, (*range(n), n + 1)), Iota(shape, n)))
    found = Expand(x, shape, (*range(n), n + 1)) if values else Iota(shape, n + 1)
    nothing = Literal(lowest(tensor_type(found).dtype), tensor_type(found).dtype)
    return Fold("max", chosen(hit, found, nothing), (n + 1,))


def _rank(x: Op, descending: bool) -> Op:
    """How many elements of its line come before each element of ``x``: smaller ones (NaN is the largest), of equal ones those
    before it.  Elements are compared themselves, and so are computed once: keys made of what is computed again might differ."""
    *lead, size = tensor_type(x).shape
    n = len(lead)
    shape = (*lead, size, size)

    def ordered(of: Op) -> tuple[Op, Op]:
        """``of`` of the element that comes first and of the one that comes after it, where these are a pair."""
        mine, other = Expand(of, shape, tuple(range(n + 1))), Expand(of, shape, (*range(n), n + 1))
        return (mine, other) if descending else (other, mine)

    small, large = ordered(x)
    less, equal = Map("lt", (small, large)), Map("eq", (small, large))
    if DTYPES[tensor_type(x).dtype].is_float:
        nan_small, nan_large = ordered(Map("isnan", (x,)))
        less = Map("or", (less, Map("and", (nan_large, Map("not", (nan_small,))))))
        equal = Map("or", (equal, Map("and", (nan_small, nan_large))))
    earlier = Map("lt", (Iota(shape, n + 1), Iota(shape, n)))
    before = Map("or", (less, Map("and", (equal, earlier))))
    return Fold("sum", chosen(before, Literal(1, "i32"), Literal(0, "i32")), (n + 1,))


# ---- sorting in tiles and runs ---------------------------------------------------------------------------------------------


def sorted_in_tiles(key: Op, *others: Op, count: int = 0, run: int = 0) -> list[Op]:
    """Lines (or runs of them) of ``key`` in ascending order, and of ``others`` alike."""
    xs, axis = (key, *others), tensor_type(key).rank - 1
    return [KeySort(xs, axis, n, count, run) for n in range(len(xs))]


def sorted_lines(key: Op, run: int) -> tuple[Op, Op]:
    """Lines of any length in ascending order, and the i32 indices that their elements had; a tile sorts ``run`` elements."""
    shape = tensor_type(key).shape
    size, order = shape[-1], Iota(shape, len(shape) - 1)
    if isinstance(size, int) and size <= run:
        made, indices = sorted_in_tiles(key, order)
        return made, indices
    made, indices = sorted_in_tiles(key, order, run=run)
    return _merged_runs(made, indices, run, size if isinstance(size, int) else LONGEST)


def _merged_runs(key: Op, order: Op, run: int, size: int) -> tuple[Op, Op]:
    """Runs of ``run`` elements, a power of two, merged until one holds all ``size``.  Every turn does the same to longer
    ones."""
    turns = ((size - 1) // run).bit_length()
    bits = run.bit_length() + turns - 1  # of the length of the longest run that is merged
    if turns == 1:
        return _merged(key, order, Literal(run, "i32"), bits)
    args = keys, places, length = Arg("keys", key.type), Arg("places", order.type), Arg("run", TensorType((), "i32"))
    made = _merged(keys, places, length, bits)
    ops = (op for op in needed(made) if not isinstance(op, Arg))
    lengths = Map("shl", (Literal(run, "i32"), Iota((turns,), 0)))
    merges = Recur((key, order), (lengths,), (), Block(args, (*ops, Yield(made))), turns)
    return Result(merges, 0), Result(merges, 1)


def _merged(key: Op, order: Op, run: Op, bits: int) -> tuple[Op, Op]:
    """Two neighbouring runs of ``run`` elements, a power of two of at most ``bits`` bits, as one: of equal elements those of
    the first come first."""
    shape = tensor_type(key).shape
    size, most = DimSize(shape[-1], "i32"), identity("min", tensor_type(key).dtype)
    place = Iota(shape, len(shape) - 1)
    within = Map("and", (place, Map("or", (run, plus(run, -1)))))
    begin = Map("sub", (place, within))
    left = Map("min", (Map("sub", (size, begin)), run))  # elements of the first run

    def first(number: Op) -> tuple[Op, Op]:
        """Whether the first run has an element of this number, and where it lies."""
        return Map("lt", (number, left)), Map("add", (begin, number))

    def second(number: Op) -> Op:
        """Where this element of the second run lies, -1 where it has none."""
        there = Map("lt", (number, run))
        return chosen(there, Map("add", (Map("add", (begin, number)), run)), whole(-1, place))

    before: Op = Expand(Literal(0, "i32"), shape, ())  # how many elements of the first run stand before this place
    for bit in reversed(range(bits)):
        more = plus(before, 1 << bit)
        inside, last = first(plus(more, -1))
        inside = Map("and", (inside, Map("le", (more, within))))
        a = picked(key, chosen(inside, last, whole(-1, place)))
        b = picked(key, chosen(inside, second(Map("sub", (within, more))), whole(-1, place)), most)
        before = chosen(Map("and", (inside, Map("le", (a, b)))), more, before)
    inside, mine = first(before)
    other = second(Map("sub", (within, before)))
    a, b = picked(key, chosen(inside, mine, whole(-1, place))), picked(key, other, most)
    ours = Map("and", (inside, Map("le", (a, b))))
    return chosen(ours, a, b), picked(order, chosen(ours, mine, other))


def _candidates(line: Op, descending: bool, count: int, run: int) -> tuple[Op, Op]:
    """The first ``count`` elements of every run of a line once it is sorted, run after run, and their indices."""
    *lead, size = tensor_type(line).shape
    assert isinstance(size, int)
    n, whole_runs, rest = len(lead), size // run, min(size % run, count)
    order = sorted_in_tiles(keys_of(line, descending), Iota((*lead, size), n), count=count, run=run)[1]
    number = Iota((*lead, whole_runs * count + rest), n)
    place = Map("add", (Map("mul", (Map("floordiv", (number, whole(count, number))), whole(run, number))),
                        Map("rem", (number, whole(count, number)))))  # fmt: skip
    indices = picked(order, place)
    return picked(line, indices), indices


# ---- the rules --------------------------------------------------------------------------------------------------------------


def rules(picks: bool, run: int) -> Rules:
    """``picks``: loads may take single elements at coordinates that a kernel computes.  ``run``: as many elements of a line are
    sorted in a tile (0: none)."""
    found = Rules()

    @found.on(Result)
    def sorts(op: Result) -> Op | None:
        sort = op.source
        if not isinstance(sort, Sort):
            return None
        with at(op.loc):
            return _nothing(op) if 0 in tensor_type(op).shape else back(lowered(op.index, sort), sort.axis)

    def lowered(index: int, sort: Sort) -> Op:
        line, descending = lines_of(sort.x, sort.axis), sort.descending
        *lead, size = tensor_type(line).shape
        key = keys_of(line, descending)
        if isinstance(size, int) and size <= run:
            made = sorted_in_tiles(key, Iota((*lead, size), len(lead)), line, count=sort.count)
            return made[1] if index else _or(values_of(made[0], tensor_type(line).dtype, descending), made[2])
        if not (run and picks and isinstance(size, int)):
            ranked = _by_rank(line, descending, sort.count or size, not index)
            return Convert(ranked, "i32" if index else tensor_type(line).dtype)
        short = min(run, AMONG)
        if sort.count and 4 * sort.count <= short:
            among, indices = _candidates(line, descending, sort.count, short)
            best = Sort(among, len(lead), descending, sort.count)
            return picked(indices, Result(best, 1)) if index else Result(best, 0)
        order = first_of(sorted_lines(key, run)[1], sort.count)
        return order if index else picked(line, order)

    return found


def _or(values: Op | None, other: Op) -> Op:
    return other if values is None else values


def _nothing(op: Result) -> Op:
    wanted = tensor_type(op)
    return Expand(Literal(0 if op.index else lowest(wanted.dtype), wanted.dtype), wanted.shape, ())


def first_of(x: Op, count: int) -> Op:
    """The first ``count`` elements of every line, all where it is 0."""
    shape = tensor_type(x).shape
    return Slice(x, (0,) * len(shape), (*shape[:-1], count), (1,) * len(shape)) if count else x
