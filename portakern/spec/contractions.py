"""Sums of products: matmul, einsum and dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portakern.dtypes import DTYPES
from portakern.ir.size import Size, Sym
from portakern.ir.tensor import Contract
from portakern.spec import elementwise as ew
from portakern.spec import reductions, views
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, broadcast_shapes, dtype_name, make, promote, size_hint


def result_dtypes(operand: str, asked: Any) -> tuple[str, str]:
    """(dtype the products are summed in, dtype of the result)."""
    kind = DTYPES[operand]
    if kind.kind == "bool":
        raise spec_error("products of booleans", "cast them: pk.cast(x, pk.i32)")
    natural = "f32" if kind.is_float and operand != "f64" else operand if kind.is_float else "i32"
    if asked is None:
        return natural, operand if kind.is_float and kind.bits >= 16 else natural
    name = dtype_name(asked)
    return ("f64" if name == "f64" else natural), name


def pair(a: Traced, b: Traced) -> tuple[Traced, Traced]:
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
    a, b = pair(a, b)
    if b.ndim > 2:
        batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]]) if a.ndim > 2 else b.shape[:-2]
        a = ew.expand(a, (*batch, *a.shape[-2:]))
        b = ew.expand(b, (*batch, *b.shape[-2:]))
    lead = tuple(range(b.ndim - 2))
    return contract(a, b, lead, lead, (a.ndim - 1,), (b.ndim - 2,), dtype, precision)


def _size_hint(a: Size, b: Size) -> str:
    return size_hint(a, b) if isinstance(a, Sym) or isinstance(b, Sym) else "dims of one letter are equal"


def _matmul_hint(a: Traced, b: Traced) -> str:
    if a.shape[-1] == b.shape[-1] or a.shape[-2] == b.shape[-2]:
        return "transpose one of them: pk.swapaxes(x, -1, -2)"
    return _size_hint(a.shape[-1], b.shape[-2])


def contract(
    a: Traced,
    b: Traced,
    lhs_batch: Sequence[int],
    rhs_batch: Sequence[int],
    lhs_axes: Sequence[int],
    rhs_axes: Sequence[int],
    dtype: Any,
    precision: str,
) -> Traced:
    total, result = result_dtypes(a.type.dtype, dtype)
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
    """Sums of products in Einstein's notation: ``einsum("bhqd,bhkd->bhqk", q, k)``.

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
    a, b = pair(a, b)
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

    return result, contract(
        a,
        b,
        places(left, batch),
        places(right, batch),
        places(left, contracted),
        places(right, contracted),
        dtype,
        precision,
    )
