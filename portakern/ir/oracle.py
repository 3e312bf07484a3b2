"""What a tensor program computes, in numpy: floats in float64, integers in their own width, booleans as they are.

The oracle is exact but for two things: float64 itself, and an explicit :class:`Convert`, whose rounding is part of what
an operator says.  Values of narrow dtypes are not rounded otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from portakern.dtypes import DTYPES, numpy_dtype
from portakern.errors import IRError
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, ManyType, Op, Result, Yield, yielded
from portakern.ir.functions import BINARY, COMPARE, UNARY
from portakern.ir.size import Size, Sym
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type

Value = Any  # an array, or a tuple of them for an operation with several results


def evaluate(program: TensorProgram, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of ``program``, whose dims are bound, for ``inputs`` by name.

    Raises :class:`IRError` where a dim is open, or an input is missing or of another shape.
    """
    values: dict[Op, Value] = {a: read_input(a, inputs) for a in program.args}
    with np.errstate(all="ignore"):
        for op in program.body.ops:
            if not isinstance(op, Yield):
                values[op] = apply(op, [values[o] for o in op.operands])
    return {name: values[op] for name, op in zip(program.outputs, program.results, strict=True)}


def read_input(arg: Arg, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The input for ``arg`` in the oracle's dtype."""
    of = tensor_type(arg)
    if arg.name not in inputs:
        raise IRError(f"no input is given for {arg.name}")
    x = np.asarray(inputs[arg.name])
    if x.shape != static(of.shape):
        raise IRError(f"{arg.name} has shape {x.shape}, the program takes {of}")
    return x.astype(working_dtype(of.dtype))


def working_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype in which the oracle holds values of ``dtype``."""
    kind = DTYPES[dtype]
    if kind.is_float:
        return np.dtype(np.float64)
    return np.dtype(bool) if kind.kind == "bool" else np.dtype(f"{'u' if kind.kind == 'uint' else ''}int{kind.bits}")


def static(shape: Sequence[Size]) -> tuple[int, ...]:
    """``shape`` as numbers; raises :class:`IRError` where a dim is open."""
    for size in shape:
        if isinstance(size, Sym):
            raise IRError(f"the oracle needs a value for {', '.join(sorted(size.names))}", "bind every dim of the program")
    return tuple(shape)  # type: ignore[arg-type]


def apply(op: Op, args: Sequence[Value]) -> Value:
    """The result of one operation; of elementwise ones also that of any part of their arrays."""
    rule = RULES.get(type(op))
    if rule is None:
        raise IRError(f"the oracle has no rule for {op.mnemonic()}", where=str(op.loc or ""))
    result = rule(op, *args)
    if isinstance(op.type, ManyType):
        return result
    of = tensor_type(op)
    made = np.asarray(result, working_dtype(of.dtype))
    return made if isinstance(op, t.Map | t.Convert) else made.reshape(static(of.shape))


# ---- rounding --------------------------------------------------------------------------------------------------------


def round_to(x: np.ndarray, dtype: str) -> np.ndarray:
    """``x`` (float64) rounded to nearest even in a float dtype, still in float64; what is too large becomes inf.

    Of the 8-bit floats only f8e5m2 has inf; NaN in the others.  The FNUZ formats have one zero.
    """
    if dtype == "f64":
        return x
    with np.errstate(all="ignore"):
        if dtype in ("f32", "f16"):
            return x.astype(np.float32 if dtype == "f32" else np.float16).astype(np.float64)
        # Rounded once and from float64: through float32 some halves would be rounded twice.
        kind = DTYPES[dtype]
        digits = round(-math.log2(kind.rounding))  # of the significand
        low = round(math.log2(kind.smallest)) + digits - 1  # exponent of the smallest normal number
        _, exponent = np.frexp(x)
        quantum = np.maximum(exponent - digits, low - digits + 1)
        rounded = np.ldexp(np.rint(np.ldexp(x, -quantum)), quantum)
        rounded = np.where(np.isfinite(x), rounded, x)
        over = np.copysign(np.inf, rounded) if kind.infinite else np.nan
        result = np.where(np.abs(rounded) > kind.largest, over, rounded)
        return np.where(result == 0, 0.0, result) if kind.fnuz else result


# ---- rules -----------------------------------------------------------------------------------------------------------

Rule = Callable[..., Value]
RULES: dict[type[Op], Rule] = {}


def rule(cls: type[Op]) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES[cls] = function
        return function

    return register


def _of(op: Op) -> TensorType:
    return tensor_type(op)


@rule(t.Literal)
def _(op: t.Literal) -> Value:
    if not DTYPES[op.dtype].is_float:
        return op.value
    # A constant is held in the dtype it computes in, f32 for the narrow ones.
    return round_to(np.asarray(op.value, np.float64), "f64" if op.dtype == "f64" else "f32")


@rule(t.DimSize)
def _(op: t.DimSize) -> Value:
    return static((op.size,))[0]


@rule(t.Iota)
def _(op: t.Iota) -> Value:
    shape = static(op.shape)
    line = np.arange(shape[op.axis]).reshape([-1 if i == op.axis else 1 for i in range(len(shape))])
    return np.broadcast_to(line, shape)


@rule(t.Convert)
def _(op: t.Convert, x: np.ndarray) -> Value:
    to = DTYPES[op.dtype]
    if to.is_float:
        return round_to(x.astype(np.float64), op.dtype)
    if to.kind == "bool":
        return x != 0
    return np.trunc(x).astype(working_dtype(op.dtype)) if x.dtype.kind == "f" else x.astype(working_dtype(op.dtype))


@rule(t.BitConvert)
def _(op: t.BitConvert, x: np.ndarray) -> Value:
    stored = x.astype(numpy_dtype(_of(op.x).dtype))
    return stored.view(numpy_dtype(op.dtype)).astype(working_dtype(op.dtype))


_FUNCTIONS = {**UNARY, **BINARY, **COMPARE}


@rule(t.Map)
def _(op: t.Map, *args: np.ndarray) -> Value:
    if op.fn == "select":
        return np.where(*args)
    return _FUNCTIONS[op.fn].exact(*args)


@rule(t.Expand)
def _(op: t.Expand, x: np.ndarray) -> Value:
    shape = [1] * len(op.shape)
    for size, dim in zip(x.shape, op.dims, strict=True):
        shape[dim] = size
    return np.broadcast_to(x.reshape(shape), static(op.shape))


@rule(t.Reshape)
def _(op: t.Reshape, x: np.ndarray) -> Value:
    return x.reshape(static(op.shape))


@rule(t.Transpose)
def _(op: t.Transpose, x: np.ndarray) -> Value:
    return x.transpose(op.order)


@rule(t.Slice)
def _(op: t.Slice, x: np.ndarray) -> Value:
    return x[tuple(map(slice, static(op.starts), static(op.stops), op.steps))]


@rule(t.PadWith)
def _(op: t.PadWith, x: np.ndarray) -> Value:
    return np.pad(x, list(zip(op.low, op.high, strict=True)), constant_values=op.value)


@rule(t.Concat)
def _(op: t.Concat, *parts: np.ndarray) -> Value:
    return np.concatenate(parts, op.axis)


@rule(t.Flip)
def _(op: t.Flip, x: np.ndarray) -> Value:
    return np.flip(x, op.axes)


@rule(t.Windows)
def _(op: t.Windows, x: np.ndarray) -> Value:
    reach = [d * (w - 1) + 1 for w, d in zip(op.window, op.dilation, strict=True)]
    if op.reaching:
        pads = dict(zip(op.dims, zip(op.low, op.high, strict=True), strict=True))
        x = np.pad(x, [pads.get(d, (0, 0)) for d in range(x.ndim)], constant_values=op.fill)
    if any(r > x.shape[d] for r, d in zip(reach, op.dims, strict=True)):
        return np.zeros(static(_of(op).shape), x.dtype)
    view = np.lib.stride_tricks.sliding_window_view(x, reach, op.dims)
    strides = dict(zip(op.dims, op.strides, strict=True))
    return view[(*(slice(None, None, strides.get(d)) for d in range(x.ndim)), *(slice(None, None, d) for d in op.dilation))]


@rule(t.Assemble)
def _(op: t.Assemble, *parts: np.ndarray) -> Value:
    out = np.full(static(op.shape), 0 if op.fill is None else op.fill, parts[0].dtype)
    for part, (offsets, steps) in zip(parts, op.places, strict=True):
        ends = (o + s * n for o, s, n in zip(static(offsets), steps, part.shape, strict=True))
        out[tuple(map(slice, static(offsets), ends, steps))] = part
    return out


def identity(fn: str, dtype: np.dtype[Any]) -> Any:
    """What ``fn`` over nothing gives."""
    if fn in ("max", "min") and dtype.kind in "iub":  # bfloat16 is of a kind of its own
        return np.iinfo(dtype).min if fn == "max" else np.iinfo(dtype).max
    return {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf, "any": False, "all": True}[fn]


def fold(fn: str, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """``fn`` of ``x`` over ``axes``."""
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or,
             "all": np.logical_and}[fn]  # fmt: skip
    return ufunc.reduce(x, axis=axes, dtype=x.dtype, initial=x.dtype.type(identity(fn, x.dtype)))


@rule(t.Fold)
def _(op: t.Fold, x: np.ndarray) -> Value:
    return fold(op.fn, x, op.axes)


def segment_bounds(offsets: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Where each segment begins and ends, never before it begins."""
    ends = [min(max(int(o), 0), size) for o in offsets]
    return [(lo, max(lo, hi)) for lo, hi in pairwise(ends)]


@rule(t.SegmentFold)
def _(op: t.SegmentFold, x: np.ndarray, offsets: np.ndarray) -> Value:
    lines = np.moveaxis(x, op.axis, 0)
    parts = [fold(op.fn, lines[lo:hi], (0,)) for lo, hi in segment_bounds(offsets, len(lines))]
    return np.moveaxis(np.reshape(parts, (len(parts), *lines.shape[1:])), 0, op.axis)


@rule(t.ArgFold)
def _(op: t.ArgFold, x: np.ndarray) -> Value:
    if x.shape[op.axis] == 0:
        return np.zeros([s for i, s in enumerate(x.shape) if i != op.axis])
    return (np.argmax if op.fn == "max" else np.argmin)(x, op.axis)


@rule(t.Cumulate)
def _(op: t.Cumulate, x: np.ndarray) -> Value:
    return cumulate(op, x)


def cumulate(op: t.Cumulate, x: np.ndarray) -> np.ndarray:
    """Running ``fn`` of ``x`` as ``op`` says."""
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op.fn]
    x = np.flip(x, op.axis) if op.reverse else x
    run = ufunc.accumulate(x, op.axis, dtype=x.dtype)
    if op.exclusive:
        first = np.full_like(np.take(run, [0] if run.shape[op.axis] else [], op.axis), identity(op.fn, x.dtype))
        run = np.concatenate([first, np.take(run, range(max(run.shape[op.axis] - 1, 0)), op.axis)], op.axis)
    return np.flip(run, op.axis) if op.reverse else run


@rule(t.AssociativeScan)
def _(op: t.AssociativeScan, *xs: np.ndarray) -> Value:
    shape = tuple(s for i, s in enumerate(_of(op).shape) if i != op.axis)
    join = t.of_arrays(op.join, shape)
    return scan_in_order(lambda left, right: apply_block(join, (*left, *right)), xs, op.axis, op.reverse)[op.number]


@rule(t.Recur)
def _(op: t.Recur, *args: np.ndarray) -> Value:
    (found,) = recur(op, [args], lambda runs: [apply_block(op.step, runs[0])])
    return found


Steps = Callable[[Sequence[Sequence[Value]]], Sequence[tuple[Value, ...]]]


def recur(op: t.Recur, runs: Sequence[Sequence[Value]], step: Steps) -> list[Value]:
    """What the loop gives for the operands of each run; ``step`` makes one step of all."""
    (length,), shares = static((op.length,)), [_shares(op, args) for args in runs]
    carried = [carries for carries, _, _ in shares]
    shown = [[np.empty(static(of.shape), working_dtype(of.dtype)) for of in _shown(op)] for _ in runs]
    for i in reversed(range(length)) if op.reverse else range(length):
        made = step([(*carries, *(line[i] for line in lines), *captured)
                     for carries, (_, lines, captured) in zip(carried, shares, strict=True)])  # fmt: skip
        carried = [values[: len(op.init)] for values in made]
        for places, values in zip(shown, made, strict=True):
            for place, value in zip(places, values[len(op.init) :], strict=True):
                place[i] = value
    return [(*carries, *places) for carries, places in zip(carried, shown, strict=True)]


def _shares(op: t.Recur, args: Sequence[Value]) -> tuple[Sequence[Value], ...]:
    """Values of the carries, the lines and what is captured."""
    n, m = len(op.init), len(op.init) + len(op.xs)
    return args[:n], args[n:m], args[m:]


def _shown(op: t.Recur) -> tuple[TensorType, ...]:
    assert isinstance(op.type, ManyType)
    return op.type.types[len(op.init) :]  # type: ignore[return-value]


def apply_block(block: Block, args: Sequence[Value]) -> tuple[Value, ...]:
    """What ``block`` gives for values of its arguments."""
    values: dict[Op, Value] = dict(zip(block.args, args, strict=True))
    for op in block.ops:
        if not isinstance(op, Yield):
            values[op] = apply(op, [values[o] for o in op.operands])
    return tuple(values[v] for v in yielded(block))


Elements = tuple[Any, ...]


def scan_in_order(join: Callable[[Elements, Elements], Elements], xs: Sequence[np.ndarray], axis: int, reverse: bool
                  ) -> list[np.ndarray]:  # fmt: skip
    """Running values of ``xs`` along ``axis``, joined one element after the other."""
    lines = [np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0) for x in xs]
    run = [np.empty_like(line) for line in lines]
    so_far: Elements = ()
    for i in range(lines[0].shape[0]):
        here = tuple(line[i] for line in lines)
        so_far = join(so_far, here) if i else here
        for place, value in zip(run, so_far, strict=True):
            place[i] = value
    run = [np.moveaxis(r, 0, axis) for r in run]
    return [np.flip(r, axis) for r in run] if reverse else run


@rule(t.WindowFold)
def _(op: t.WindowFold, x: np.ndarray) -> Value:
    return fold(op.fn, windows(op, x, identity(op.fn, x.dtype)), tuple(range(x.ndim, 2 * x.ndim)))


def windows(op: t.WindowFold, x: np.ndarray, filler: Any) -> np.ndarray:
    """Every window of ``x``: [*result dims, *window]."""
    x = np.pad(x, list(zip(op.low, op.high, strict=True)), constant_values=filler)
    reach = [d * (w - 1) + 1 for w, d in zip(op.window, op.dilation, strict=True)]
    if any(r > s for r, s in zip(reach, x.shape, strict=True)):
        return np.full((*static(_of(op).shape), *op.window), filler, x.dtype)
    view = np.lib.stride_tricks.sliding_window_view(x, reach)
    return view[tuple(slice(None, None, s) for s in op.strides) + tuple(slice(None, None, d) for d in op.dilation)]


@rule(t.Contract)
def _(op: t.Contract, a: np.ndarray, b: np.ndarray) -> Value:
    return contract(op, a, b)


def contract(op: t.Contract, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sums of products as ``op`` pairs the dims, as matrix products."""
    left, right = (
        a.transpose(*op.lhs_batch, *op.lhs_free, *op.lhs_axes),
        b.transpose(*op.rhs_batch, *op.rhs_axes, *op.rhs_free),
    )
    batch, n = left.shape[: len(op.lhs_batch)], len(op.lhs_axes)
    free_a, free_b = left.shape[len(batch) : left.ndim - n], right.shape[len(batch) + n :]
    k = math.prod(left.shape[left.ndim - n :])
    wide = _summed_in(a)
    product = np.matmul(
        _matrices(left, (*batch, math.prod(free_a), k), wide),
        _matrices(right, (*batch, k, math.prod(free_b)), wide),
    )
    return product.reshape((*batch, *free_a, *free_b))


def _summed_in(x: np.ndarray) -> np.dtype[Any]:
    """The dtype in which products of ``x`` are summed: integers in 64 bits, whatever they are kept in."""
    return np.dtype(np.int64) if x.dtype.kind in "iu" else x.dtype


def _matrices(x: np.ndarray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """``x`` as matrices, copied only where it has another dtype or lies as no BLAS takes it: with steps between the elements of
    both rows and columns."""
    found = x.astype(dtype, copy=False).reshape(shape)
    packed = any(s == dtype.itemsize for s in found.strides[-2:]) and all(found.strides)
    return found if packed else np.ascontiguousarray(found)


@rule(t.SegmentContract)
def _(op: t.SegmentContract, a: np.ndarray, b: np.ndarray, groups: np.ndarray) -> Value:
    return grouped_product(a, b, rows_of_groups(op, groups))


def rows_of_groups(op: t.SegmentContract, groups: np.ndarray) -> np.ndarray:
    """The number of every row's group; what is no group's is negative, or none."""
    if op.by_rows:
        return groups
    rows = np.arange(static(_of(op).shape)[0])
    return np.searchsorted(np.sort(groups), rows, side="right") - 1


def grouped_product(a: np.ndarray, b: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of ``a``, each times the matrix of ``b`` that ``rows`` names."""
    wide = _summed_in(a)
    out = np.zeros((len(a), b.shape[2]), wide)
    for g in range(len(b)):
        out[rows == g] = a[rows == g].astype(wide) @ b[g].astype(wide)
    return out


@rule(t.Convolve)
def _(op: t.Convolve, x: np.ndarray, w: np.ndarray) -> Value:
    return convolve(op, x, w)


def convolve(op: t.Convolve, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution, one matrix product per tap of the window and group."""
    wide = _summed_in(x)
    x, w = x.astype(wide, copy=False), w.astype(wide, copy=False)
    n, shape = x.ndim - 2, static(_of(op).shape)
    (groups,) = static((op.groups,))
    out = np.zeros(shape, x.dtype)
    if op.transposed:
        return _transposed_convolution(op, x, w, out)
    padded = np.pad(x, [(0, 0), *zip(op.low, op.high, strict=True), (0, 0)])
    for tap in np.ndindex(*w.shape[:n]):
        cut = tuple(
            slice(d * i, d * i + s * (m - 1) + 1, s)
            for i, d, s, m in zip(tap, op.dilation, op.strides, shape[1:-1], strict=True)
        )
        if all(m > 0 for m in shape):
            out += _grouped(padded[(slice(None), *cut)], w[tap], groups)
    return out


def _grouped(x: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    """[..., C] times [C / groups, O] group by group."""
    if groups == 1:
        return x @ w
    each = w.reshape(len(w), groups, -1)
    if len(w) == 1:  # a channel for each group
        return (x[..., None] * each[0]).reshape(*x.shape[:-1], -1)
    lines = x.reshape(-1, groups, len(w)).swapaxes(0, 1)
    return (lines @ each.swapaxes(0, 1)).swapaxes(0, 1).reshape(*x.shape[:-1], -1)


def _transposed_convolution(op: t.Convolve, x: np.ndarray, w: np.ndarray, out: np.ndarray) -> np.ndarray:
    n, (groups,) = x.ndim - 2, static((op.groups,))
    # Zeros around x, so that every position meets all taps of its phase.
    around = [-(-d * (k - 1) // s) for s, d, k in zip(op.strides, op.dilation, w.shape[:n], strict=True)]
    x = np.pad(x, [(0, 0), *((a, a) for a in around), (0, 0)]) if x.size else x
    reach = [
        (s - 1) * st + d * (k - 1) + 1 for s, st, d, k in zip(x.shape[1:-1], op.strides, op.dilation, w.shape[:n], strict=True)
    ]
    full = np.zeros((x.shape[0], *[max(r, 0) for r in reach], out.shape[-1]), x.dtype)
    for tap in np.ndindex(*w.shape[:n]):
        place = tuple(
            slice(d * i, d * i + s * (m - 1) + 1, s)
            for i, d, s, m in zip(tap, op.dilation, op.strides, x.shape[1:-1], strict=True)
        )
        if x.size:
            full[(slice(None), *place)] += _grouped(x, w[tap], groups)
    begins = [lo + (a * s if x.size else 0) for lo, a, s in zip(op.low, around, op.strides, strict=True)]
    cut = tuple(slice(lo, lo + m) for lo, m in zip(begins, out.shape[1:-1], strict=True))
    return full[(slice(None), *cut)]


@rule(t.Gather)
def _(op: t.Gather, x: np.ndarray, indices: np.ndarray) -> Value:
    size = x.shape[op.axis]
    valid = (indices >= 0) & (indices < size)
    if size == 0:
        return np.full(static(_of(op).shape), op.fill, x.dtype)
    safe = np.where(valid, indices, 0).astype(np.int64)
    if op.zipped:
        return np.where(valid, np.take_along_axis(x, safe, op.axis), x.dtype.type(op.fill))
    mask = valid.reshape(*[1] * op.axis, *indices.shape, *[1] * (x.ndim - op.axis - 1))
    return np.where(mask, np.take(x, safe, op.axis), x.dtype.type(op.fill))


@rule(t.Scatter)
def _(op: t.Scatter, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Value:
    return scatter(op, x, indices, updates)


def scatter(op: t.Scatter, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """``x`` with the updates applied in order; those outside are dropped."""
    out = x.copy()
    valid = (indices >= 0) & (indices < x.shape[op.axis])
    where = list(np.nonzero(valid))
    where[op.axis] = indices[valid].astype(np.int64)
    if op.mode == "set":
        out[tuple(where)] = updates[valid]
    else:
        {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[op.mode].at(out, tuple(where), updates[valid])
    return out


@rule(t.KeySort)
def _(op: t.KeySort, *xs: np.ndarray) -> Value:
    size = xs[0].shape[op.axis]
    parts = range(0, size, op.run) if op.run else (0,)
    runs = [np.take(x, range(i, min(size, i + (op.run or size))), op.axis) for i in parts for x in (xs[0], xs[op.number])]
    found = [np.take_along_axis(x, np.argsort(key, op.axis, kind="stable"), op.axis)
             for key, x in zip(runs[::2], runs[1::2], strict=True)]
    made = np.concatenate(found, op.axis) if found else xs[op.number]
    return np.take(made, range(op.count), op.axis) if op.count and not op.run else made


@rule(t.Sort)
def _(op: t.Sort, x: np.ndarray) -> Value:
    order = sorting(op, x)
    return np.take_along_axis(x, order, op.axis), order.astype(np.int32)


def sorting(op: t.Sort, x: np.ndarray) -> np.ndarray:
    """The indices that sort ``x``, stable, in either direction."""
    if op.descending:
        last = x.shape[op.axis] - 1
        order = last - np.flip(np.argsort(np.flip(x, op.axis), op.axis, kind="stable"), op.axis)
    else:
        order = np.argsort(x, op.axis, kind="stable")
    return np.take(order, range(op.count), op.axis) if op.count else order


@rule(Result)
def _(op: Result, several: tuple[np.ndarray, ...]) -> Value:
    return several[op.index]


@rule(t.RandomBits)
def _(op: t.RandomBits, seed: np.ndarray) -> Value:
    shape = static(op.shape)
    return philox(int(seed), math.prod(shape)).reshape(shape)


def philox(seed: int, count: int) -> np.ndarray:
    """``count`` u32 of Philox 4x32-10 (Salmon et al. 2011), counter = number // 4, key = ``seed``."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    c = [blocks & low, blocks >> np.uint64(32), np.zeros_like(blocks), np.zeros_like(blocks)]
    k = [np.uint64(seed & 0xFFFFFFFF), np.uint64((seed >> 32) & 0xFFFFFFFF)]
    with np.errstate(over="ignore"):
        for _ in range(10):
            p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
            c = [(p1 >> np.uint64(32)) ^ c[1] ^ k[0], p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k[1], p0 & low]
            k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c, 1).reshape(-1)[:count].astype(np.uint32)
