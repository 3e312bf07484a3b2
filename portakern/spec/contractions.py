"""Sums of products: matmul, einsum, dot, convolution; and pooling, which walks windows the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portakern.dtypes import DTYPES
from portakern.ir.size import Size, Sym
from portakern.ir.tensor import Contract, Convolve, WindowFold
from portakern.spec import elementwise as ew
from portakern.spec import reductions, views
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, broadcast_shapes, dtype_name, make, promote, size_hint


def _result_dtypes(operand: str, asked: Any) -> tuple[str, str]:
    """(dtype the products are summed in, dtype of the result)."""
    kind = DTYPES[operand]
    if kind.kind == "bool":
        raise spec_error("products of booleans", "cast them: pk.cast(x, pk.i32)")
    natural = "f32" if kind.is_float and operand != "f64" else operand if kind.is_float else "i32"
    if asked is None:
        return natural, operand if kind.is_float and kind.bits >= 16 else natural
    name = dtype_name(asked)
    return ("f64" if name == "f64" else natural), name


def _pair(a: Traced, b: Traced) -> tuple[Traced, Traced]:
    name = promote([a.type.dtype, b.type.dtype])
    return ew.cast(a, name), ew.cast(b, name)


@located
def matmul(a: Traced, b: Traced, dtype: Any = None, precision: str = "ieee") -> Traced:
    """Matrix product of the last two dims, the leading ones broadcast (numpy ``matmul``).

    Products of f16 and bf16 are summed in f32.  The result has the operands' dtype, or ``dtype``: ask for ``pk.f32``
    to go on with the unrounded sums.
    """
    if not a.ndim or not b.ndim:
        raise spec_error("matmul of a scalar", "use *")
    if a.ndim == 1:
        return views.squeeze(matmul(views.expand_dims(a, 0), b, dtype, precision), -2 if b.ndim > 1 else 0)
    if b.ndim == 1:
        return views.squeeze(matmul(a, views.expand_dims(b, 1), dtype, precision), -1)
    if a.shape[-1] != b.shape[-2]:
        raise spec_error(
            f"matmul of {a.type} and {b.type}: {a.shape[-1]} columns meet {b.shape[-2]} rows",
            _matmul_hint(a, b),
        )
    a, b = _pair(a, b)
    if b.ndim > 2:
        batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]]) if a.ndim > 2 else b.shape[:-2]
        a = ew.expand(a, (*batch, *a.shape[-2:]))
        b = ew.expand(b, (*batch, *b.shape[-2:]))
    lead = tuple(range(b.ndim - 2))
    return _contract(a, b, lead, lead, (a.ndim - 1,), (b.ndim - 2,), dtype, precision)


def _size_hint(a: Size, b: Size) -> str:
    return size_hint(a, b) if isinstance(a, Sym) or isinstance(b, Sym) else "dims of one letter are equal"


def _matmul_hint(a: Traced, b: Traced) -> str:
    if a.shape[-1] == b.shape[-1] or a.shape[-2] == b.shape[-2]:
        return "transpose one of them: pk.swapaxes(x, -1, -2)"
    return _size_hint(a.shape[-1], b.shape[-2])


def _contract(
    a: Traced,
    b: Traced,
    lhs_batch: Sequence[int],
    rhs_batch: Sequence[int],
    lhs_axes: Sequence[int],
    rhs_axes: Sequence[int],
    dtype: Any,
    precision: str,
) -> Traced:
    total, result = _result_dtypes(a.type.dtype, dtype)
    if total == "f64" or (total == "i32" and DTYPES[a.type.dtype].bits >= 32):
        a, b = ew.cast(a, total), ew.cast(b, total)  # units sum only less than 32 bits in another dtype
    raw = make(Contract(a.op, b.op, tuple(lhs_batch), tuple(rhs_batch), tuple(lhs_axes), tuple(rhs_axes), total, precision))
    return ew.cast(raw, result)


@located
def dot(a: Traced, b: Traced, dtype: Any = None, precision: str = "ieee") -> Traced:
    """Products of two vectors summed, or :func:`matmul` of matrices."""
    return matmul(a, b, dtype, precision)


@located
def einsum(equation: str, *arrays: Traced, dtype: Any = None, precision: str = "ieee") -> Traced:
    """Sums of products as Einstein wrote them: ``einsum("bhqd,bhkd->bhqk", q, k)``.

    Dims of the same letter must be equal.  More than two arrays are contracted from left to right.  ``dtype`` as in
    :func:`matmul`.
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow or not all(t.isalpha() or not t for t in [*terms, output]):
        raise spec_error(f"{equation!r} is not an equation for einsum", 'write one as "mk,kn->mn"')
    if len(terms) != len(arrays):
        raise spec_error(f"{equation!r} names {len(terms)} arrays, {len(arrays)} were given")
    for term, x in zip(terms, arrays, strict=True):
        if len(term) != x.ndim:
            raise spec_error(f"{term!r} names {len(term)} dims, the array has {x.ndim}: {x.type}")
        if len(set(term)) != len(term):
            raise spec_error(f"{term!r} names a dim twice; diagonals are not taken", "mask with pk.where first")
    if missing := set(output) - set(inputs) or len(set(output)) != len(output):
        raise spec_error(f"the result {output!r} names a dim that no array has, or one twice: {missing}")
    letters, result = terms[0], arrays[0]
    for i in range(1, len(arrays)):
        later = set(output).union(*terms[i + 1 :])
        letters, result = _einsum_pair(letters, result, terms[i], arrays[i], later, dtype, precision)
    letters, result = _drop(letters, result, set(output))
    return views.transpose(result, [letters.index(c) for c in output]) if output else result


def _drop(letters: str, x: Traced, keep: set[str]) -> tuple[str, Traced]:
    """``x`` summed over the dims whose letters are not in ``keep``."""
    axes = [i for i, c in enumerate(letters) if c not in keep]
    return "".join(c for c in letters if c in keep), reductions.sum(x, axes) if axes else x


def _einsum_pair(
    left: str, a: Traced, right: str, b: Traced, later: set[str], dtype: Any, precision: str
) -> tuple[str, Traced]:
    left, a = _drop(left, a, later | set(right))
    right, b = _drop(right, b, later | set(left))
    a, b = _pair(a, b)
    for c in set(left) & set(right):
        if a.shape[left.index(c)] != b.shape[right.index(c)]:
            raise spec_error(
                f"{c!r} is {a.shape[left.index(c)]} in one array and {b.shape[right.index(c)]} in the other",
                _size_hint(a.shape[left.index(c)], b.shape[right.index(c)]),
            )
    batch = [c for c in left if c in right and c in later]
    contracted = [c for c in left if c in right and c not in later]
    free = [c for c in left if c not in right]
    new = [c for c in right if c not in left]
    result = "".join([*batch, *free, *new])
    if not contracted:
        sizes: dict[str, Size] = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
        shape = [sizes[c] for c in result]
        product = ew.multiply(
            *(
                ew.expand_at(
                    views.transpose(x, sorted(range(x.ndim), key=lambda i: result.index(t[i]))),
                    shape,
                    sorted(result.index(c) for c in t),
                )
                for t, x in ((left, a), (right, b))
            )
        )
        return result, product if dtype is None else ew.cast(product, dtype)

    def places(term: str, group: list[str]) -> list[int]:
        return [term.index(c) for c in group]

    return result, _contract(
        a,
        b,
        places(left, batch),
        places(right, batch),
        places(left, contracted),
        places(right, contracted),
        dtype,
        precision,
    )


# ---- windows --------------------------------------------------------------------------------------------------------


def _each(value: int | Sequence[int], n: int, what: str) -> tuple[int, ...]:
    values = (value,) * n if isinstance(value, int) else tuple(value)
    if len(values) != n:
        raise spec_error(f"{what} has {len(values)} entries for {n} spatial dims")
    return values


Pads = int | Sequence[int] | Sequence[tuple[int, int]]


def _pads(padding: Pads, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    each = [padding] * n if isinstance(padding, int) else list(padding)
    pairs = [(p, p) if isinstance(p, int) else tuple(p) for p in each]
    if len(pairs) != n:
        raise spec_error(f"padding has {len(pairs)} entries for {n} spatial dims")
    return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)


@located
def conv(
    x: Traced,
    w: Traced,
    stride: int | Sequence[int] = 1,
    padding: Pads = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    transposed: bool = False,
    dtype: Any = None,
) -> Traced:
    """Convolution of x [N, *spatial, C] with w [*window, C / groups, O] in 1 to 3 dims: [N, *spatial, O].

    ``padding`` is a number, one per spatial dim, or (before, after) pairs.  ``transposed`` is the gradient form.
    """
    n = x.ndim - 2
    x, w = _pair(x, w)
    if not 1 <= n <= 3 or w.ndim != x.ndim:
        raise spec_error(f"conv of {x.type} and {w.type}: they have {x.ndim} and {w.ndim} dims", _CONV)
    if x.shape[-1] != w.shape[-2] * groups:
        raise spec_error(
            f"conv of {x.type} and {w.type}: the last dim of x is {x.shape[-1]}, the last but one of w wants "
            f"{w.shape[-2] * groups} channels{f' in {groups} groups' if groups > 1 else ''}",
            _layout_hint(x, w, groups),
        )
    if not all(isinstance(size, int) for size in w.shape[:n]):
        window = ", ".join(map(str, w.shape[:n]))
        raise spec_error(f"conv with a window of [{window}] in {w.type}: its size must be known", _layout_hint(x, w, groups))
    low, high = _pads(padding, n)
    total, result = _result_dtypes(x.type.dtype, dtype)
    raw = Convolve(x.op, w.op, _each(stride, n, "stride"), low, high, _each(dilation, n, "dilation"), groups, total, transposed)
    return ew.cast(make(raw), result)


_CONV = "it takes x [N, *spatial, C] and w [*window, C / groups, O], with 1 to 3 spatial dims"


def _layout_hint(x: Traced, w: Traced, groups: int) -> str:
    """How to get the layout that conv takes, where its arrays seem to be [N, C, *spatial] or [O, C / groups, *window]."""
    spatial = tuple(range(2, x.ndim))
    x_last, w_last = x.shape[1] in (w.shape[1] * groups, w.shape[-2] * groups), w.shape[1] * groups in (x.shape[1], x.shape[-1])
    moves: list[str] = []
    if x_last:
        moves.append(f"x seems to be [N, C, *spatial]: pk.permute(x, {(0, *spatial, 1)}), and the result back with "
                     f"pk.permute(y, {(0, x.ndim - 1, *range(1, x.ndim - 1))})")  # fmt: skip
    if w_last:
        moves.append(f"w seems to be [O, C / groups, *window]: pk.permute(w, {(*spatial, 1, 0)})")
    return "; ".join([_CONV, *moves])


def _pool(fn: str, x: Traced, window: int | Sequence[int], stride: int | Sequence[int] | None, padding: Pads) -> Traced:
    n = x.ndim - 2
    if n < 1:
        raise spec_error(f"pooling of an array of {x.ndim} dims", "it takes [N, *spatial, C]")
    sizes = _each(window, n, "window")
    low, high = _pads(padding, n)
    steps = sizes if stride is None else _each(stride, n, "stride")
    ones = (1,) * x.ndim
    return make(WindowFold(fn, x.op, (1, *sizes, 1), (1, *steps, 1), (0, *low, 0), (0, *high, 0), ones))


@located
def max_pool(x: Traced, window: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: Pads = 0) -> Traced:
    """The largest of every window of x [N, *spatial, C]; windows follow each other unless ``stride`` says otherwise."""
    return _pool("max", x, window, stride, padding)


@located
def avg_pool(x: Traced, window: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: Pads = 0) -> Traced:
    """The mean of every window of x [N, *spatial, C]; pads count as zeros."""
    count = 1
    for size in _each(window, x.ndim - 2, "window"):
        count *= size
    return ew.divide(_pool("sum", x, window, stride, padding), count)
