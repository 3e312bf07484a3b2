"""Scans by a function of the operator's own, and steps that are run one after the other."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from portakern.ir.core import Arg, Block, Op, Result, Yield
from portakern.ir.rewrite import live
from portakern.ir.size import Size
from portakern.ir.tensor import AssociativeScan, BitConvert, Convert, DimSize, Literal, Map, Recur, TensorType
from portakern.spec import views
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, as_traced, make, record, recording

OF_NUMBERS = (Literal, DimSize, Map, Convert, BitConvert)
"""What a function of single elements is made of."""


@located
def associative_scan(fn: Callable[..., Any], xs: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running values along ``axis`` by an associative function, as ``jax.lax.associative_scan`` and
    ``torch.associative_scan`` give them: element i joins elements 0 to i, with ``reverse`` those from i to the end.

    Args:
        fn: joins a left part with the part right of it.  If ``xs`` is one array, it is called ``fn(left, right)`` with one
            number of each and gives one.  If ``xs`` is a tuple of arrays, it takes tuples of numbers and gives a tuple.
            Numbers have the dtypes of their arrays.  It must be associative, ``fn(fn(a, b), c) == fn(a, fn(b, c))``,
            because kernels join neighbours in any grouping.  It need not commute, and needs no identity.
        xs: an array, or a tuple of arrays of one shape.
        axis: along which to run; negative ones count from the end.
        reverse: run from the end; ``fn``'s first argument is then the part nearer to the end, as in JAX.

    Returns: what ``xs`` is, an array or a tuple of arrays of the same shape and dtypes.

    Raises :class:`SpecError` where ``fn`` gives something else, reduces, or uses arrays from outside.
    """
    several = isinstance(xs, tuple | list)
    arrays: Sequence[Traced] = tuple(xs) if several else (xs,)
    if not arrays or not builtins.all(isinstance(x, Traced) for x in arrays):
        raise spec_error(f"there is nothing to scan in {xs!r}", "give an array, or a tuple of arrays")
    dtypes = [x.type.dtype for x in arrays]
    names = [_name(x.op) or f"x{i}" for i, x in enumerate(arrays)]

    def called(args: Sequence[Traced]) -> Any:
        left, right = args[: len(arrays)], args[len(arrays) :]
        return fn(tuple(left), tuple(right)) if several else fn(left[0], right[0])

    args = [(f"{name}_{side}", dtype) for side in ("left", "right") for name, dtype in zip(names, dtypes, strict=True)]
    join = _function_of_numbers(called, args, dtypes, several)
    at = views.check_axis(axis, arrays[0].ndim)
    found = tuple(make(AssociativeScan(tuple(x.op for x in arrays), at, join, n, reverse)) for n in range(len(arrays)))
    return found if several else found[0]


def _name(op: Op) -> str:
    """The input that ``op`` is, perhaps in another dtype."""
    return _name(op.x) if isinstance(op, Convert) else op.name if isinstance(op, Arg) else ""


def _function_of_numbers(fn: Callable[[Sequence[Traced]], Any], args: Sequence[tuple[str, str]], dtypes: Sequence[str],
                         several: bool) -> Block:  # fmt: skip
    """``fn`` of named scalars as a block that gives values of ``dtypes``."""
    given = tuple(Arg(name, TensorType((), dtype)) for name, dtype in args)
    with recording() as ops:
        result = fn([Traced(a) for a in given])
    made = result if isinstance(result, tuple | list) else (result,)
    right = isinstance(result, tuple | list) == several and len(made) == len(dtypes)
    if not right or not builtins.all(isinstance(v, Traced) for v in made):
        raise spec_error(f"the function gives {result!r}", f"it gives {f'{len(dtypes)} numbers' if several else 'one number'}")
    known: set[Op] = {*given, *ops}
    for op in ops:
        if not isinstance(op, OF_NUMBERS):
            raise spec_error(f"{op.mnemonic()} in a function of numbers", "it joins single elements", op.loc)
    for used in (*(o for op in ops for o in op.operands), *(v.op for v in made)):
        if used not in known:
            raise spec_error("the function uses an array from outside of it", "give that as one of the arrays of the scan",
                             used.loc)
    for value, dtype in zip(made, dtypes, strict=True):
        if value.type != TensorType((), dtype):
            raise spec_error(f"the function gives {value.type} where it was given tensor[{dtype}]",
                             f"cast it inside, pk.cast(value, pk.{dtype}), or the arrays before the scan")
    return Block(given, (*ops, Yield(tuple(v.op for v in made))))


# ---- steps one after the other --------------------------------------------------------------------------------------------


@located
def scan(fn: Callable[..., Any], init: Any, xs: Any = None, length: Size | None = None, reverse: bool = False,
         axis: int = 0) -> tuple[Any, Any]:  # fmt: skip
    """``fn`` run along ``axis``, one step after the other, as ``jax.lax.scan`` runs it: for what is not associative.

    Args:
        fn: one step, ``fn(carry, x) -> (carry, y)``, of any functions on arrays.  Arrays from outside may be used.
        init: the first carry: an array, a number, or tuples of them (``None`` for none).  A carry keeps its shape and dtype.
        xs: an array, or tuples of arrays, of equal size along ``axis``, or ``None``; ``x`` is what they have at one step.
        length: how many steps; needed if ``xs`` is ``None``.
        reverse: from the last step down to the first.  The ``y`` of a step lies where its ``x`` lies.
        axis: of ``xs`` and of the ``ys``, along which the steps follow each other; negative ones count from the end.

    Returns: the carry after the last step (``init`` if there are none), and the ``ys`` of all steps along ``axis``.

    Raises :class:`SpecError` where ``fn`` gives another carry than it takes, or no pair.
    """
    return steps(fn, init, xs, length, reverse, axis)


def steps(fn: Callable[..., Any], init: Any, xs: Any = None, length: Size | None = None, reverse: bool = False,
          axis: int = 0, adjoint: str = "") -> tuple[Any, Any]:  # fmt: skip
    """:func:`scan`, with ``adjoint`` the name of its gradient's form."""
    lines = [_to_front(x, axis) for x in _leaves(xs, "xs")]
    count = _length(lines, length)
    carries = [_array(c) for c in _leaves(init, "init")]
    elements = [TensorType(x.shape[1:], x.type.dtype) for x in lines]
    args = [Arg(_name(c.op) or f"carry{n or ''}", c.type) for n, c in enumerate(carries)]
    args += [Arg(f"{_name(x.op) or f'x{n}'}_t", of) for n, (x, of) in enumerate(zip(lines, elements, strict=True))]
    with recording() as ops:
        traced = [Traced(a) for a in args]
        made = fn(_like(init, iter(traced)), _like(xs, iter(traced[len(carries) :])))
        if not isinstance(made, tuple) or len(made) != 2:
            raise spec_error(f"the step gives {made!r}", "it gives two things: the new carry, and what it shows (or None)")
        new, shown = made
        results = [*_carried(init, new, carries), *(_array(y) for y in _leaves(shown, "y"))]
    inside, captured = _closed(args, ops, [r.op for r in results])
    for op in ops:
        if op not in inside:
            record(op)
    step = _block(args, captured, ops, inside, [r.op for r in results])
    given = (tuple(c.op for c in carries), tuple(x.op for x in lines), tuple(captured))
    together = record(Recur(*given, step, count, reverse, adjoint))
    ends = [make(Result(together, n)) for n in range(len(results))]
    last, stacked = ends[: len(carries)], [_from_front(y, axis) for y in ends[len(carries) :]]
    return _like(init, iter(last)), _like(shown, iter(stacked))


def _leaves(tree: Any, what: str) -> list[Any]:
    """The arrays and numbers in ``tree``, in order."""
    if tree is None:
        return []
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in _leaves(part, what)]
    if not isinstance(tree, Traced | int | float):
        raise spec_error(f"{tree!r} among {what}", "a scan takes and gives arrays, tuples of them, and None")
    return [tree]


def _like(tree: Any, leaves: Iterator[Any]) -> Any:
    """``tree`` with ``leaves`` in the place of its own."""
    if tree is None:
        return None
    if isinstance(tree, tuple | list):
        parts = [_like(part, leaves) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return next(leaves)


def _to_front(x: Any, axis: int) -> Traced:
    if not isinstance(x, Traced) or not x.ndim:
        raise spec_error(f"{x!r} has no elements to take one after the other", "xs are arrays with a dim to run along")
    at = views.check_axis(axis, x.ndim)
    return x if at == 0 else views.transpose(x, at, *(i for i in range(x.ndim) if i != at))


def _from_front(x: Traced, axis: int) -> Traced:
    at = views.check_axis(axis, x.ndim)
    return x if at == 0 else views.transpose(x, *range(1, at + 1), 0, *range(at + 1, x.ndim))


def _length(lines: Sequence[Traced], length: Size | None) -> Size:
    told: list[Size] = [*(x.shape[0] for x in lines), *([] if length is None else [length])]
    sizes: list[Size] = list(dict.fromkeys(told))
    if len(sizes) != 1:
        raise spec_error(f"the scan has {' and '.join(map(str, sizes)) or 'no'} steps",
                         "xs have as many elements along the axis as there are steps" if sizes else "give xs, or length=")
    return sizes[0]


def _array(value: Any) -> Traced:
    """``value``, were it a number, as an array without dims."""
    if isinstance(value, Traced):
        return value
    return as_traced(value, "f32" if isinstance(value, float) else "bool" if isinstance(value, bool) else "i32")


def _carried(init: Any, new: Any, carries: Sequence[Traced]) -> list[Traced]:
    """The new carries, which are as the ones that were taken."""
    leaves = _leaves(new, "the new carry")
    if _like(init, iter(range(len(carries)))) != _like(new, iter(range(len(leaves)))):
        raise spec_error(f"the step gives the carry {new!r} where it takes {_like(init, iter(carries))!r}",
                         "the new carry has the form of init")
    results = []
    for have, value in zip(carries, leaves, strict=True):
        made = value if isinstance(value, Traced) else as_traced(value, have.type.dtype)
        if made is not value and have.shape:
            made = views.broadcast_to(made, have.shape)
        if made.type != have.type:
            raise spec_error(f"the step gives a carry of {made.type} where it takes {have.type}",
                             f"cast or broadcast init or the new carry, say pk.cast(carry, pk.{have.type.dtype})")
        results.append(made)
    return results


def _closed(args: Sequence[Op], ops: Sequence[Op], results: Sequence[Op]) -> tuple[set[Op], list[Op]]:
    """The operations that belong into the step: what depends on its arguments, and constants; and what it uses from outside."""
    inside: set[Op] = set(args)
    for op in ops:
        if any(o in inside for o in op.operands):
            inside.add(op)
    captured: dict[Op, None] = {}
    frontier = [*results, *(o for op in ops if op in inside for o in op.operands)]
    while frontier:
        op = frontier.pop()
        if op in inside:
            continue
        if _constant(op):
            inside.add(op)
            frontier += op.operands
        else:
            captured.setdefault(op)
    return inside, list(captured)


def _constant(op: Op) -> bool:
    """Whether ``op`` is made of numbers and sizes alone."""
    return not isinstance(op, Arg) and builtins.all(map(_constant, op.operands))


def _block(args: Sequence[Arg], captured: Sequence[Op], ops: Sequence[Op], inside: set[Op], results: Sequence[Op]) -> Block:
    outside = [Arg(_name(op) or f"w{n}", op.type) for n, op in enumerate(captured)]
    new: dict[Op, Op] = {**{a: a for a in args}, **dict(zip(captured, outside, strict=True))}

    def made(op: Op) -> Op:
        if op not in new:
            new[op] = op.remap(made) if op.operands else replace(op)  # a constant that is used outside as well
            done.append(new[op])
        return new[op]

    done: list[Op] = []
    for op in (*(o for o in ops if o in inside), *results):
        made(op)
    return Block((*args, *outside), live([*done, Yield(tuple(new[r] for r in results))]))
