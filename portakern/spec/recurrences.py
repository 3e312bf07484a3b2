"""Scans by a function of the operator's own."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.tensor import AssociativeScan, BitConvert, Convert, DimSize, Literal, Map, TensorType
from portakern.spec import views
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, make, recording

OF_NUMBERS = (Literal, DimSize, Map, Convert, BitConvert)
"""What a function of single elements is made of."""


@located
def associative_scan(fn: Callable[..., Any], xs: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Running values along ``axis`` by an associative function, as ``jax.lax.associative_scan`` and
    ``torch.associative_scan`` give them: element i joins elements 0 to i, with ``reverse`` those from i to the end.

    Args:
        fn: joins a left part with the part right of it.  Where ``xs`` is one array it is called ``fn(left, right)`` with one
            number of each and gives one; where ``xs`` is a tuple of arrays, with tuples of numbers, and gives a tuple.  Numbers
            have the dtypes of their arrays.  It must be associative, ``fn(fn(a, b), c) == fn(a, fn(b, c))``, since kernels
            join neighbours in any grouping; it need not commute, and needs no identity.
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
