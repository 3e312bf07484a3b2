"""Elementwise work on large arrays, a slab at a time.

A rule for values with bounds makes dozens of arrays on the way.  As large as the layers of a network, each is memory that the
system has to find and clear first, which takes as long as the arithmetic; those of slabs stay in a processor's caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

LARGE = 1 << 18
"""Elements of an array that is worked on in slabs."""

SLAB = 1 << 14
"""Elements of a slab: some dozen of them in float64 fit in a megabyte or two."""

Place = tuple[slice, ...]


def slabs(shape: Sequence[int]) -> Iterator[Place]:
    """The places of slabs of an array: runs along one dim, of all that lies inside of it."""
    dim = next(d for d in range(len(shape)) if prod(shape[d + 1 :]) <= SLAB)
    step = max(1, SLAB // max(1, prod(shape[dim + 1 :])))
    inner = (slice(None),) * (len(shape) - dim - 1)
    for outer in product(*(range(n) for n in shape[:dim])):
        for start in range(0, shape[dim], step):
            yield (*(slice(i, i + 1) for i in outer), slice(start, min(start + step, shape[dim])), *inner)


def in_slabs(function: Callable[..., Any], given: Sequence[Any], shape: Sequence[int]) -> Any:
    """``function`` of ``given``, elementwise for arrays of ``shape``: at once where they are small.

    What is given and what the function gives are arrays, or data classes and tuples of them; arrays of other shapes but those
    without dims are given as a whole, so there must be none that says something of single elements.
    """
    shape = tuple(shape)
    if prod(shape) < LARGE or not all(_cuttable(v, shape) for v in given):
        return function(*given)
    found: Any = None
    for number, place in enumerate(slabs(shape)):
        part = function(*(_cut(v, place) for v in given))
        found = _begun(part, place, shape, {}) if number == 0 else _pasted(found, part, place, shape, {})
    return found


def _cuttable(tree: Any, shape: tuple[int, ...]) -> bool:
    if isinstance(tree, np.ndarray):
        return tree.ndim == 0 or tree.shape == shape
    return all(_cuttable(v, shape) for v in _inside(tree))


def _inside(tree: Any) -> Sequence[Any]:
    if isinstance(tree, tuple):
        return tree
    return [getattr(tree, f.name) for f in fields(tree)] if is_dataclass(tree) else ()


def _mapped(tree: Any, function: Callable[..., Any], *others: Any) -> Any:
    """``tree``, a data class or a tuple, of ``function`` of each thing inside it and of those in ``others``."""
    if isinstance(tree, tuple):
        return tuple(function(*both) for both in zip(tree, *others, strict=True))
    return replace(tree, **{f.name: function(*(getattr(t, f.name) for t in (tree, *others))) for f in fields(tree)})


def _is_tree(v: Any) -> bool:
    return isinstance(v, tuple) or is_dataclass(v)


def _cut(tree: Any, place: Place) -> Any:
    if isinstance(tree, np.ndarray):
        return tree[place] if tree.ndim else tree
    return _mapped(tree, lambda v: _cut(v, place)) if _is_tree(tree) else tree


def _begun(part: Any, place: Place, shape: tuple[int, ...], made: dict[int, np.ndarray]) -> Any:
    """The result of which ``part`` is at ``place``: what is one array in it stays one (``made``)."""
    if isinstance(part, np.ndarray) and part.ndim:
        if id(part) not in made:
            made[id(part)] = np.empty(shape, part.dtype)
            made[id(part)][place] = part
        return made[id(part)]
    return _mapped(part, lambda v: _begun(v, place, shape, made)) if _is_tree(part) else part


def _pasted(whole: Any, part: Any, place: Place, shape: tuple[int, ...], done: dict[int, int]) -> Any:
    """``whole`` with ``part`` at ``place``.  A bound of 0 or a mask that there is none of is an array once a slab has one; what
    holds somewhere, holds for the whole.  ``done`` says which part went into an array, which several may have been so far."""
    if _is_tree(whole):
        return _mapped(whole, lambda w, p: _pasted(w, p, place, shape, done), part)
    if isinstance(whole, bool):
        return whole or part
    if not isinstance(whole, np.ndarray) or not whole.ndim:
        if not np.ndim(part) and (part is whole or part == whole):
            return whole
        whole = np.full(shape, 0 if whole is None else whole, np.asarray(part).dtype)
    if done.get(id(whole), id(part)) != id(part):
        whole = whole.copy()
    if id(whole) not in done:
        done[id(whole)] = id(part)
        whole[place] = 0 if part is None else part
    return whole
