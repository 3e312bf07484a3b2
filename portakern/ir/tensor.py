"""The tensor level: what is computed, on whole arrays with symbolic dims.  This alone defines an operator's result.

A value of type f16 or bf16 may be kept in f32 between operations (implicit narrowing may be skipped); an explicit
:class:`Convert` to a narrower type is never skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from portakern.dtypes import DTYPES
from portakern.errors import IRError
from portakern.ir.core import Arg, Block, Function, ManyType, Op, Type, verify, yielded
from portakern.ir.size import Size, has_quotient, names_of, parse_size, product
from portakern.ir.tile import BINARY, COMPARE, PRECISION, REDUCE, UNARY


@dataclass(frozen=True)
class TensorType(Type):
    """An array: sizes (numbers or expressions of open dims) and dtype; without sizes, a scalar."""

    shape: tuple[Size, ...]
    dtype: str
    head: ClassVar[str] = "tensor"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise IRError(f"unknown dtype {self.dtype!r}", hint=f"dtypes are {', '.join(DTYPES)}")

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"tensor[{', '.join([*map(str, self.shape), self.dtype])}]"

    @classmethod
    def read(cls, parts: list[str]) -> TensorType:
        return cls(tuple(map(parse_size, parts[:-1])), parts[-1])


def tensor_type(op: Op) -> TensorType:
    if not isinstance(op.type, TensorType):
        raise IRError(f"{op.mnemonic()} gives {op.type}, where a tensor is needed", where=str(op.loc or ""))
    return op.type


def _axis(op: Op, axis: int, rank: int) -> None:
    op.check(0 <= axis < rank, f"axis {axis} is outside an array of {rank} dims")


def _axes(op: Op, axes: Sequence[int], rank: int) -> None:
    for axis in axes:
        _axis(op, axis, rank)
    op.check(len(set(axes)) == len(axes), f"an axis appears twice in {tuple(axes)}")


# ---- sources ---------------------------------------------------------------------------------------------------------


class Literal(Op):
    """A scalar constant."""

    value: float | int | bool
    dtype: str

    def infer(self) -> Type:
        return TensorType((), self.dtype)


class DimSize(Op):
    """A size as a scalar."""

    size: Size
    dtype: str

    def infer(self) -> Type:
        return TensorType((), self.dtype)


class Iota(Op):
    """The coordinate along ``axis`` at every element of ``shape``."""

    shape: tuple[Size, ...]
    axis: int
    dtype: str = "i32"

    def infer(self) -> Type:
        _axis(self, self.axis, len(self.shape))
        return TensorType(self.shape, self.dtype)


class RandomBits(Op):
    """Counter-based random u32 (Philox 4x32-10, Salmon et al. 2011) for element numbers 0.. under ``seed``, a scalar."""

    seed: Op
    shape: tuple[Size, ...]

    def infer(self) -> Type:
        return TensorType(self.shape, "u32")


# ---- elementwise -----------------------------------------------------------------------------------------------------

ARITY = {**dict.fromkeys(UNARY, 1), **dict.fromkeys((*BINARY, *COMPARE), 2), "select": 3}


class Map(Op):
    """One elementwise function of equally shaped arrays; scalars go with anything.  ``select`` takes (bool, yes, no)."""

    fn: str
    args: tuple[Op, ...]

    def infer(self) -> Type:
        self.check(self.fn in ARITY, f"{self.fn!r} is not an elementwise function", f"they are {', '.join(sorted(ARITY))}")
        self.check(len(self.args) == ARITY[self.fn], f"{self.fn} takes {ARITY[self.fn]} arrays, not {len(self.args)}")
        types = [tensor_type(a) for a in self.args]
        shaped = [t for t in types if t.shape] or types
        for t in shaped:
            self.check(t.shape == shaped[0].shape, f"shapes differ: {shaped[0]} and {t}")
        values = types[1:] if self.fn == "select" else types
        if self.fn == "select":
            self.check(types[0].dtype == "bool", f"the condition is {types[0].dtype}, not bool")
        self.check(len({t.dtype for t in values}) == 1, f"dtypes differ: {' and '.join(t.dtype for t in values)}",
                   "cast one of them")
        dtype = "bool" if self.fn in COMPARE or self.fn == "isnan" else values[0].dtype
        return TensorType(shaped[0].shape, dtype)


class Convert(Op):
    """To another dtype, rounding to nearest even; never skipped where it narrows."""

    x: Op
    dtype: str

    def infer(self) -> Type:
        return TensorType(tensor_type(self.x).shape, self.dtype)


class BitConvert(Op):
    """The same bits as another dtype of the same width."""

    x: Op
    dtype: str

    def infer(self) -> Type:
        have = tensor_type(self.x)
        self.check(DTYPES[self.dtype].bits == DTYPES[have.dtype].bits, f"{have.dtype} and {self.dtype} differ in width")
        return TensorType(have.shape, self.dtype)


# ---- views and moves -------------------------------------------------------------------------------------------------


class Expand(Op):
    """``x`` placed in ``shape``: its dim ``i`` becomes dim ``dims[i]`` (in order), repeated where it is 1 and that is not;
    the other dims of ``shape`` repeat it."""

    x: Op
    shape: tuple[Size, ...]
    dims: tuple[int, ...]

    def infer(self) -> Type:
        have = tensor_type(self.x)
        self.check(len(self.dims) == have.rank, f"{len(self.dims)} target dims for {have}")
        _axes(self, self.dims, len(self.shape))
        self.check(list(self.dims) == sorted(self.dims), "the order of dims may not change here")
        for size, dim in zip(have.shape, self.dims, strict=True):
            self.check(size in (1, self.shape[dim]), f"{have} does not broadcast to {self.shape}")
        return TensorType(self.shape, have.dtype)


class Reshape(Op):
    """The same elements in row-major order under another shape of as many elements."""

    x: Op
    shape: tuple[Size, ...]

    def infer(self) -> Type:
        have = tensor_type(self.x)
        before, after = product(have.shape), product(self.shape)
        # A quotient such as C // 4 is known to be exact only once C is: then the check is made again.
        self.check(before == after or has_quotient(before) or has_quotient(after),
                   f"{have} has {before} elements, [{', '.join(map(str, self.shape))}] has {after}")
        return TensorType(self.shape, have.dtype)


class Transpose(Op):
    """Dims in another order: result dim ``i`` is dim ``order[i]`` of ``x``."""

    x: Op
    order: tuple[int, ...]

    def infer(self) -> Type:
        have = tensor_type(self.x)
        self.check(sorted(self.order) == list(range(have.rank)), f"{self.order} is not an order of {have.rank} dims")
        return TensorType(tuple(have.shape[i] for i in self.order), have.dtype)


class Slice(Op):
    """Elements ``start``, ``start + step``, ... below ``stop`` of each dim; all are given for every dim, steps positive."""

    x: Op
    starts: tuple[Size, ...]
    stops: tuple[Size, ...]
    steps: tuple[int, ...]

    def infer(self) -> Type:
        have = tensor_type(self.x)
        self.check(len(self.starts) == len(self.stops) == len(self.steps) == have.rank, "one entry per dim is needed")
        self.check(all(s >= 1 for s in self.steps), "steps must be positive")
        shape: list[Size] = []
        for size, lo, hi, step in zip(have.shape, self.starts, self.stops, self.steps, strict=True):
            if isinstance(size, int) and isinstance(lo, int) and isinstance(hi, int):
                # No element at all may begin outside, as every second one from 1 of none does.
                self.check(0 <= lo < hi + step and hi <= size, f"{lo}:{hi} is outside a dim of {size}")
            shape.append((hi - lo + (step - 1)) // step)
        return TensorType(tuple(shape), have.dtype)


class PadWith(Op):
    """``x`` with ``low`` and ``high`` elements of ``value`` before and after each dim."""

    x: Op
    low: tuple[int, ...]
    high: tuple[int, ...]
    value: float | int | bool

    def infer(self) -> Type:
        have = tensor_type(self.x)
        self.check(len(self.low) == len(self.high) == have.rank, "one entry per dim is needed")
        self.check(all(n >= 0 for n in (*self.low, *self.high)), "pads must not be negative; slice instead")
        return TensorType(tuple(s + a + b for s, a, b in zip(have.shape, self.low, self.high, strict=True)), have.dtype)


class Concat(Op):
    """Arrays one after the other along ``axis``."""

    parts: tuple[Op, ...]
    axis: int

    def infer(self) -> Type:
        self.check(bool(self.parts), "nothing to concatenate")
        types = [tensor_type(p) for p in self.parts]
        _axis(self, self.axis, types[0].rank)
        total: Size = 0
        for t in types:
            same = t.rank == types[0].rank and all(
                a == b for i, (a, b) in enumerate(zip(t.shape, types[0].shape, strict=True)) if i != self.axis)
            self.check(same and t.dtype == types[0].dtype, f"cannot join {types[0]} and {t} along axis {self.axis}")
            total = total + t.shape[self.axis]
        shape = types[0].shape
        return TensorType((*shape[: self.axis], total, *shape[self.axis + 1 :]), types[0].dtype)


class Flip(Op):
    """The order of elements reversed along ``axes``."""

    x: Op
    axes: tuple[int, ...]

    def infer(self) -> Type:
        have = tensor_type(self.x)
        _axes(self, self.axes, have.rank)
        return have


class Windows(Op):
    """Overlapping windows of ``x`` as a view: dim ``dims[i]`` becomes which window, and a last dim is added for where in it.

    Element [.., o, .., k] is ``x[.., strides[i] * o + dilation[i] * k, ..]``; every window lies inside ``x``.  With ``low`` and
    ``high``, both of them, windows begin ``low[i]`` elements earlier and reach as far as ``high[i]`` beyond the end, and an
    element outside of ``x`` is ``fill``.
    """

    x: Op
    dims: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    fill: float | int | bool = 0

    def infer(self) -> Type:
        have = tensor_type(self.x)
        _axes(self, self.dims, have.rank)
        entries = (self.window, self.strides, self.dilation)
        self.check(all(len(e) == len(self.dims) for e in (*entries, *self.around)), "one entry per windowed dim is needed")
        self.check(all(n >= 1 for e in entries for n in e), "windows, strides and dilations must be positive")
        shape = list(have.shape)
        for d, window, stride, dilation, low, high in zip(self.dims, *entries, *self.around, strict=True):
            shape[d] = _count(have.shape[d] + (low + high), window, stride, dilation)
        return TensorType((*shape, *self.window), have.dtype)

    @property
    def reaching(self) -> bool:
        """Whether windows may lie outside of ``x`` in part."""
        return bool(self.low)

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """``low`` and ``high``, zeros where windows do not reach outside."""
        none = (0,) * len(self.dims)
        return self.low or none, self.high or none


def _count(size: Size, window: int, stride: int, dilation: int) -> Size:
    """How many windows fit; none where one reaches farther than the dim goes."""
    count = windowed(size, window, stride, 0, 0, dilation)
    return max(count, 0) if isinstance(count, int) else count


class Assemble(Op):
    """An array of ``shape`` made of disjoint pieces: element i of dim d of ``parts[p]`` lies at
    ``offsets[p][d] + steps[p][d] * i``, and ``fill`` elsewhere (``None``: the pieces cover everything).

    ``offsets`` and ``steps`` have the entries of all pieces one after the other, one per dim.
    """

    parts: tuple[Op, ...]
    shape: tuple[Size, ...]
    offsets: tuple[Size, ...]
    steps: tuple[int, ...]
    fill: float | int | bool | None = None

    def infer(self) -> Type:
        self.check(bool(self.parts), "nothing to assemble")
        rank, first = len(self.shape), tensor_type(self.parts[0])
        count = rank * len(self.parts)
        self.check(len(self.offsets) == len(self.steps) == count, "one offset and step per dim of every piece is needed")
        for part, (offsets, steps) in zip(self.parts, self.places, strict=True):
            have = tensor_type(part)
            self.check(have.dtype == first.dtype and have.rank == rank, f"{have} is no piece of {first.dtype} of {rank} dims")
            for size, offset, step, whole in zip(have.shape, offsets, steps, self.shape, strict=True):
                if isinstance(size, int) and isinstance(offset, int) and isinstance(whole, int) and size:
                    self.check(offset >= 0 and step >= 1 and offset + step * (size - 1) < whole,
                               f"{size} elements from {offset} in steps of {step} are not inside a dim of {whole}")
        return TensorType(self.shape, first.dtype)

    @property
    def places(self) -> tuple[tuple[tuple[Size, ...], tuple[int, ...]], ...]:
        """Offsets and steps of each piece."""
        n = len(self.shape)
        return tuple((self.offsets[i * n : (i + 1) * n], self.steps[i * n : (i + 1) * n]) for i in range(len(self.parts)))


# ---- reductions ------------------------------------------------------------------------------------------------------


class Fold(Op):
    """``fn`` over ``axes``, which go away.  Of nothing: sum 0, prod 1, max -inf, min inf, any false, all true."""

    fn: str
    x: Op
    axes: tuple[int, ...]

    def infer(self) -> Type:
        self.check(self.fn in REDUCE, f"{self.fn!r} is not one of {', '.join(sorted(REDUCE))}")
        have = tensor_type(self.x)
        _axes(self, self.axes, have.rank)
        self.check((have.dtype == "bool") == (self.fn in ("any", "all")), f"{self.fn} of {have.dtype}")
        return TensorType(tuple(s for i, s in enumerate(have.shape) if i not in self.axes), have.dtype)


class SegmentFold(Op):
    """``fn`` over segments of ``axis``, as :class:`Fold` over each: element i along it is of elements ``offsets[i]`` to below
    ``offsets[i + 1]`` of ``x``.

    Offsets lie in [0, size], and those outside are the nearer end; a segment that ends where it begins, or before, is of
    nothing.
    """

    fn: str
    x: Op
    offsets: Op
    axis: int

    def infer(self) -> Type:
        self.check(self.fn in REDUCE, f"{self.fn!r} is not one of {', '.join(sorted(REDUCE))}")
        have = tensor_type(self.x)
        _axis(self, self.axis, have.rank)
        self.check((have.dtype == "bool") == (self.fn in ("any", "all")), f"{self.fn} of {have.dtype}")
        count = _segments(self, self.offsets)
        return TensorType((*have.shape[: self.axis], count, *have.shape[self.axis + 1 :]), have.dtype)


def _segments(op: Op, offsets: Op) -> Size:
    """How many segments ``offsets`` mark, one fewer than there are of them."""
    have = tensor_type(offsets)
    op.check(have.rank == 1 and have.dtype in ("i32", "i64"), f"offsets are {have}, not one line of i32 or i64")
    op.check(have.shape[0] != 0, "there are no offsets", "the last one ends the last segment: one more is needed than segments")
    return have.shape[0] - 1


class ArgFold(Op):
    """The index (lowest among equals) of the largest or smallest element along ``axis``, which goes away."""

    fn: str
    x: Op
    axis: int
    dtype: str = "i32"

    def infer(self) -> Type:
        self.check(self.fn in ("max", "min"), f"{self.fn!r} is not max or min")
        have = tensor_type(self.x)
        _axis(self, self.axis, have.rank)
        return TensorType(tuple(s for i, s in enumerate(have.shape) if i != self.axis), self.dtype)


class Cumulate(Op):
    """Running ``fn`` along ``axis``."""

    fn: str
    x: Op
    axis: int
    reverse: bool = False
    exclusive: bool = False

    def infer(self) -> Type:
        self.check(self.fn in ("sum", "prod", "max", "min"), f"{self.fn!r} is not sum, prod, max or min")
        have = tensor_type(self.x)
        _axis(self, self.axis, have.rank)
        return have


class AssociativeScan(Op):
    """Running values along ``axis`` by a function of the operator's own: element i joins elements 0 to i of ``xs``, arrays of
    one shape, from the left (with ``reverse`` those from the end down to i).

    ``join`` takes scalars, those of the left part and then those of the right part, and gives those of both together; it is
    associative, so that a kernel may join neighbours in any grouping, and uses nothing from outside.  The first element is
    joined with nothing: no identity is asked for.  There are as many results as ``xs``; this is the one that ``number`` names,
    and operations that differ in it alone are computed together.
    """

    xs: tuple[Op, ...]
    axis: int
    join: Block
    number: int = 0
    reverse: bool = False
    closed = True

    def infer(self) -> Type:
        types = [tensor_type(x) for x in self.xs]
        self.check(bool(types), "there is nothing to scan")
        for have in types:
            self.check(have.shape == types[0].shape, f"shapes differ: {types[0]} and {have}")
        _axis(self, self.axis, types[0].rank)
        scalars = tuple(TensorType((), have.dtype) for have in types)
        self.check(tuple(a.type for a in self.join.args) == scalars * 2, "the function does not take two sets of elements")
        self.check(tuple(v.type for v in yielded(self.join)) == scalars, "the function does not give one set of elements")
        self.check(0 <= self.number < len(types), f"there is no result {self.number} of {len(types)}")
        return types[self.number]

    @property
    def whole(self) -> tuple[object, ...]:
        """Equal for operations that are computed together."""
        return (self.xs, self.axis, self.join.says, self.reverse)


class Recur(Op):
    """A step run ``length`` times, one after the other, which need not be associative: ``jax.lax.scan``.

    ``step`` takes the carries, then element t of the first dim of every one of ``xs``, then ``captured``, which are the same
    in every step; it uses nothing else from outside, and gives the new carries and then what step t has to show.  t goes from
    0 up, with ``reverse`` from ``length - 1`` down.  Results: the carries after the last step (``init`` where there is none),
    then what the steps showed, that of step t as element t of a new first dim.  ``adjoint`` names the form of its gradient, if
    it has one of its own (:mod:`portakern.gradients.linear`).
    """

    init: tuple[Op, ...]
    xs: tuple[Op, ...]
    captured: tuple[Op, ...]
    step: Block
    length: Size
    reverse: bool = False
    adjoint: str = ""
    closed = True

    def infer(self) -> Type:
        carries = tuple(tensor_type(c) for c in self.init)
        lines = [tensor_type(x) for x in self.xs]
        for x in lines:
            self.check(bool(x.shape) and x.shape[0] == self.length, f"{x} has not {self.length} elements along its first dim")
        elements = [TensorType(x.shape[1:], x.dtype) for x in lines]
        given = (*carries, *elements, *(tensor_type(c) for c in self.captured))
        taken = tuple(a.type for a in self.step.args)
        self.check(taken == given, "the step does not take the carries, elements and captured arrays")
        made = tuple(tensor_type(v) for v in yielded(self.step))
        self.check(made[: len(carries)] == carries, "the step does not give the carries that it takes")
        shown = made[len(carries) :]
        self.check(bool(made), "the step gives nothing")
        return ManyType((*carries, *(TensorType((self.length, *y.shape), y.dtype) for y in shown)))

    @property
    def given(self) -> tuple[tuple[Op, ...], tuple[Op, ...], tuple[Op, ...]]:
        """The arguments of the step: carries, elements of ``xs``, captured arrays."""
        args, n, m = self.step.args, len(self.init), len(self.init) + len(self.xs)
        return args[:n], args[n:m], args[m:]

    @property
    def gives(self) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
        """What the step gives: the new carries, and what it shows."""
        made, n = yielded(self.step), len(self.init)
        return made[:n], made[n:]


def of_arrays(block: Block, shape: tuple[Size, ...]) -> Block:
    """``block``, a function of scalars, as one of arrays of ``shape``, element by element."""
    new: dict[Op, Op] = {a: Arg(a.name, TensorType(shape, tensor_type(a).dtype)) for a in block.args if isinstance(a, Arg)}
    for op in block.ops:
        new[op] = op.remap(new.__getitem__)
    return Block(tuple(new[a] for a in block.args), tuple(new[op] for op in block.ops))


class WindowFold(Op):
    """``fn`` over windows (pooling): per dim the window's size, stride, pads and dilation; pads hold the identity."""

    fn: str
    x: Op
    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilation: tuple[int, ...]

    def infer(self) -> Type:
        self.check(self.fn in REDUCE, f"{self.fn!r} is not one of {', '.join(sorted(REDUCE))}")
        have = tensor_type(self.x)
        parts = (self.window, self.strides, self.low, self.high, self.dilation)
        self.check(all(len(p) == have.rank for p in parts), "one entry per dim is needed")
        return TensorType(tuple(windowed(*x) for x in zip(have.shape, *parts, strict=True)), have.dtype)


def windowed(size: Size, window: int, stride: int, low: int, high: int, dilation: int) -> Size:
    """How many windows fit: floor((size + low + high - dilation * (window - 1) - 1) / stride) + 1."""
    return (size + (low + high - dilation * (window - 1) - 1)) // stride + 1


# ---- contractions ----------------------------------------------------------------------------------------------------


class Contract(Op):
    """Sums of products over paired dims; result dims are batch, free of ``lhs``, free of ``rhs``, each in order.

    Products are summed in ``dtype`` (f32 for f16 and bf16 operands, unless f64 or i32 is asked) as ``precision`` says.
    """

    lhs: Op
    rhs: Op
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_axes: tuple[int, ...]
    rhs_axes: tuple[int, ...]
    dtype: str
    precision: str = "ieee"

    def infer(self) -> Type:
        a, b = tensor_type(self.lhs), tensor_type(self.rhs)
        self.check(self.precision in PRECISION, f"{self.precision!r} is not one of {', '.join(sorted(PRECISION))}")
        self.check(a.dtype == b.dtype, f"operand dtypes differ: {a.dtype} and {b.dtype}", "cast one of them")
        self.check(len(self.lhs_batch) == len(self.rhs_batch), "batch dims must pair up")
        self.check(len(self.lhs_axes) == len(self.rhs_axes), "contracted dims must pair up")
        _axes(self, (*self.lhs_batch, *self.lhs_axes), a.rank)
        _axes(self, (*self.rhs_batch, *self.rhs_axes), b.rank)
        pairs = zip((*self.lhs_batch, *self.lhs_axes), (*self.rhs_batch, *self.rhs_axes), strict=True)
        for i, j in pairs:
            self.check(a.shape[i] == b.shape[j], f"{a} and {b} differ in paired dims: {a.shape[i]} and {b.shape[j]}")
        return TensorType((*(a.shape[i] for i in self.lhs_batch), *(a.shape[i] for i in self.lhs_free),
                           *(b.shape[j] for j in self.rhs_free)), self.dtype)

    @property
    def lhs_free(self) -> tuple[int, ...]:
        return tuple(i for i in range(tensor_type(self.lhs).rank) if i not in (*self.lhs_batch, *self.lhs_axes))

    @property
    def rhs_free(self) -> tuple[int, ...]:
        return tuple(i for i in range(tensor_type(self.rhs).rank) if i not in (*self.rhs_batch, *self.rhs_axes))


class SegmentContract(Op):
    """Rows of ``lhs`` [P, K], each times the matrix of its group in ``rhs`` [G, K, N]: result [P, N], summed as
    :class:`Contract` sums.

    ``groups`` are offsets [G + 1], and rows ``groups[g]`` to below ``groups[g + 1]`` are of group g, once they are sorted; or,
    ``by_rows``, [P] numbers of groups that ascend.  Rows of no group give zeros.
    """

    lhs: Op
    rhs: Op
    groups: Op
    dtype: str
    precision: str = "ieee"
    by_rows: bool = False

    def infer(self) -> Type:
        a, b, g = (tensor_type(x) for x in (self.lhs, self.rhs, self.groups))
        self.check(self.precision in PRECISION, f"{self.precision!r} is not one of {', '.join(sorted(PRECISION))}")
        self.check(a.rank == 2 and b.rank == 3, f"{a} and {b} are not rows and a matrix for each group of them")
        self.check(a.dtype == b.dtype, f"operand dtypes differ: {a.dtype} and {b.dtype}", "cast one of them")
        self.check(a.shape[1] == b.shape[1], f"rows of {a.shape[1]} meet matrices of {b.shape[1]} rows")
        wanted = a.shape[0] if self.by_rows else b.shape[0] + 1
        self.check(g.rank == 1 and g.dtype in ("i32", "i64"), f"groups are {g}, not one line of i32 or i64")
        self.check(g.shape[0] == wanted, f"{g.shape[0]} numbers mark {b.shape[0]} groups, where {wanted} are needed")
        return TensorType((a.shape[0], b.shape[2]), self.dtype)


class Convolve(Op):
    """Convolution of x [N, *spatial, C] with w [*window, C/groups, O]: result [N, *spatial, O].

    ``transposed`` is the gradient form, whose result spatial size is (size - 1) * stride - low - high + window extent.  What a
    window meets outside of x counts as zero, and is multiplied: times infinity it is NaN.
    """

    x: Op
    w: Op
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: Size
    dtype: str
    transposed: bool = False

    def infer(self) -> Type:
        x, w = tensor_type(self.x), tensor_type(self.w)
        n = x.rank - 2
        self.check(1 <= n <= 3 and w.rank == x.rank, f"{x} and {w} are not a 1 to 3 dimensional convolution")
        self.check(all(len(p) == n for p in (self.strides, self.low, self.high, self.dilation)), "one entry per spatial dim")
        self.check(x.shape[-1] == w.shape[-2] * self.groups, f"{x} has not the channels of {w} in {self.groups} groups")
        spatial: list[Size] = []
        for i in range(n):
            window = w.shape[i]
            self.check(isinstance(window, int), "the window must be static")
            assert isinstance(window, int)
            reach = self.dilation[i] * (window - 1) + 1
            spatial.append((x.shape[1 + i] - 1) * self.strides[i] - self.low[i] - self.high[i] + reach if self.transposed
                           else windowed(x.shape[1 + i], window, self.strides[i], self.low[i], self.high[i], self.dilation[i]))
        return TensorType((x.shape[0], *spatial, w.shape[-1]), self.dtype)


# ---- data-dependent moves --------------------------------------------------------------------------------------------


class Gather(Op):
    """Elements of ``x`` along ``axis`` picked by integers.

    Without ``zipped``, ``indices`` of any rank replace that dim (numpy ``take``).  With it, ``indices`` have the rank
    of ``x`` and pick per position (numpy ``take_along_axis``).  An index outside [0, size) gives ``fill``.
    """

    x: Op
    indices: Op
    axis: int
    zipped: bool = False
    fill: float | int = 0

    def infer(self) -> Type:
        x, i = tensor_type(self.x), tensor_type(self.indices)
        _axis(self, self.axis, x.rank)
        self.check(DTYPES[i.dtype].is_int, f"indices are {i.dtype}, not integers")
        if self.zipped:
            self.check(i.rank == x.rank, f"indices have {i.rank} dims, the array {x.rank}")
            for d in range(x.rank):
                self.check(d == self.axis or i.shape[d] == x.shape[d], f"{i} does not go with {x}")
            return TensorType(i.shape, x.dtype)
        return TensorType((*x.shape[: self.axis], *i.shape, *x.shape[self.axis + 1 :]), x.dtype)


SCATTER = ("set", "add", "mul", "max", "min")


class Scatter(Op):
    """``x`` with ``updates`` set (the last one wins), added, multiplied, or the largest or smallest taken, at ``indices`` along
    ``axis``, per position; outside: dropped."""

    x: Op
    indices: Op
    updates: Op
    axis: int
    mode: str = "add"

    def infer(self) -> Type:
        x, i, u = tensor_type(self.x), tensor_type(self.indices), tensor_type(self.updates)
        _axis(self, self.axis, x.rank)
        self.check(self.mode in SCATTER, f"{self.mode!r} is not {', '.join(SCATTER[:-1])} or {SCATTER[-1]}")
        self.check(DTYPES[i.dtype].is_int and i.shape == u.shape and u.dtype == x.dtype and i.rank == x.rank,
                   f"{i} and {u} do not go with {x}")
        return x


class KeySort(Op):
    """Lines along ``axis`` of ``xs``, arrays of one shape, in ascending order of the integers (i32 or i64) in the first; equal
    ones keep their order.  Lowering makes sorts of it.

    There are as many results as ``xs``; this is the one that ``number`` names, and operations that differ in it alone are
    computed together.  Where they are not 0, ``count`` says how many elements of a line are asked for, and ``run`` that runs of
    so many elements are sorted, each by itself; then all are there, and those behind the first ``count`` of a run are any.
    """

    xs: tuple[Op, ...]
    axis: int
    number: int = 0
    count: int = 0
    run: int = 0

    def infer(self) -> Type:
        types = [tensor_type(x) for x in self.xs]
        self.check(bool(types) and types[0].dtype in ("i32", "i64"), "the keys are no i32 or i64")
        for have in types:
            self.check(have.shape == types[0].shape, f"shapes differ: {types[0]} and {have}")
        _axis(self, self.axis, types[0].rank)
        self.check(0 <= self.number < len(types), f"there is no result {self.number} of {len(types)}")
        shape = types[0].shape
        if self.count and not self.run:
            shape = (*shape[: self.axis], self.count, *shape[self.axis + 1 :])
        return TensorType(shape, types[self.number].dtype)

    @property
    def whole(self) -> tuple[object, ...]:
        """Equal for operations that are computed together."""
        return (self.xs, self.axis, self.count, self.run)


class Sort(Op):
    """Sorted along ``axis``, stable: results (values, i32 indices); the first ``count`` of them where it is not 0."""

    x: Op
    axis: int
    descending: bool = False
    count: int = 0

    def infer(self) -> Type:
        x = tensor_type(self.x)
        _axis(self, self.axis, x.rank)
        line = x.shape[self.axis]
        self.check(not isinstance(line, int) or self.count <= line, f"there are no {self.count} first ones in a dim of {line}")
        shape = (*x.shape[: self.axis], self.count or line, *x.shape[self.axis + 1 :])
        return ManyType((TensorType(shape, x.dtype), TensorType(shape, "i32")))


# ---- programs --------------------------------------------------------------------------------------------------------


class TensorProgram(Function):
    """What an operator computes: its arguments are the inputs (and run-time scalars), its yielded values the outputs.

    ``outputs`` names them in order; ``scalars`` the arguments that are numbers, given by value.  Others without dims are
    arrays of one element, which lie wherever the caller has them.  ``ranges`` are arguments whose numbers never change, with
    the least and the largest of them.
    """

    outputs: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    ranges: tuple[tuple[str, int, int], ...] = ()

    @property
    def results(self) -> tuple[Op, ...]:
        return yielded(self.body)

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Open dims of the inputs in order of appearance."""
        found: dict[str, None] = {}
        for arg in self.args:
            for size in tensor_type(arg).shape:
                found.update(dict.fromkeys(sorted(names_of(size))))
        return tuple(found)


def verify_tensor_program(program: TensorProgram) -> None:
    """Scope of every operation, and one name per output."""
    verify(program)
    if len(program.outputs) != len(program.results):
        raise IRError(f"{program.name} names {len(program.outputs)} outputs and gives {len(program.results)}")
