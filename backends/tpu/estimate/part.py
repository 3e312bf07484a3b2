"""A program whose kernels run over a part of their grids: the same code on the same arrays, and fewer steps.

A part keeps the first and the last steps along each axis: coordinate i of the part is i, or i plus what was left out.  Kernel
and index maps see the coordinates of the whole grid, so every branch is taken that the whole grid takes there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .grid import head, inner_jaxprs

STEPS = 32
"""Steps of a kernel's grid that are profiled at most."""

FEWEST = 8
"""And at least: turns that begin or end something must be seen beside steady ones."""

CYCLES = 120_000
"""About as many cycles as a part should take: libtpu walks a million of them in some ten seconds."""

_FLOP_PER_CYCLE = 131_072
_ELEMENTS_PER_CYCLE = 2048
"""Round figures of a core's matrix and vector units, to guess what a step takes; the profile says what it does."""


def steps_for(call: Any) -> int:
    """How many steps of a kernel should be profiled."""
    return max(FEWEST, min(STEPS, int(CYCLES / max(_guess(call.params["jaxpr"]), 1))))


def _guess(jaxpr: Any) -> float:
    """Cycles of a step, if it takes every branch."""
    cycles = 0.0
    for eqn in jaxpr.eqns:
        inner = [_guess(j) for j in inner_jaxprs(eqn.params)]
        sizes = [math.prod(x.aval.shape) for x in (*eqn.invars, *eqn.outvars) if getattr(x.aval, "shape", ())]
        if inner:
            cycles += sum(inner)
        elif eqn.primitive.name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            depth = math.prod(eqn.invars[0].aval.shape[d] for d in contracted)
            cycles += 2.0 * math.prod(eqn.outvars[0].aval.shape) * depth / _FLOP_PER_CYCLE
        else:
            cycles += max(sizes, default=0) / _ELEMENTS_PER_CYCLE
    return cycles


def sizes_of(grid: Sequence[int], most: int) -> tuple[int, ...]:
    """Steps along each axis of a part of at most ``most`` steps.

    Inner axes come first, but leave two steps to an axis around them: what happens as an inner axis begins anew must be seen.
    """
    left, around = most, math.prod(grid)
    sizes = []
    for extent in reversed(grid):
        around //= max(int(extent), 1)
        size = max(1, min(int(extent), left // 2 if around > 1 and left >= 4 else left))
        sizes.append(size)
        left //= size
    return tuple(reversed(sizes))


def with_grids(closed: Any, grids: Sequence[Sequence[int]]) -> Any:
    """``closed`` with the sizes of its kernels' grids written down, in the order of the text, where they were computed."""
    given = iter(grids)

    def change(eqn: Any) -> list[Any]:
        if eqn.primitive.name != "pallas_call":
            return [eqn]
        grid, mapping = tuple(next(given)), eqn.params["grid_mapping"]
        if not mapping.num_dynamic_grid_bounds:
            return [eqn]
        kernel = _rewritten(eqn.params["jaxpr"], lambda inner: _known_count(inner, grid))
        params = {**eqn.params, "jaxpr": kernel, "grid_mapping": replace(mapping, grid=grid)}
        return [eqn.replace(invars=eqn.invars[mapping.num_dynamic_grid_bounds :], params=params)]

    return closed.replace(jaxpr=_rewritten(closed.jaxpr, change))


def _known_count(eqn: Any, grid: Sequence[int]) -> list[Any]:
    """``pl.num_programs`` of a grid that was dynamic: Pallas knows the number of others while it traces."""
    from jax import lax

    if eqn.primitive.name != "num_programs":
        return [eqn]
    aval = eqn.outvars[0].aval
    return [_equation([_literal(grid[eqn.params["axis"]], aval), _literal(0, aval)], eqn.outvars[0], lax.add_p, {})]


def with_parts(closed: Any, sizes: Callable[[Any], Sequence[int]]) -> Any:
    """``closed`` with every kernel over the part of its grid that ``sizes(call)`` gives."""

    def change(eqn: Any) -> list[Any]:
        if eqn.primitive.name != "pallas_call":
            return [eqn]
        return [eqn.replace(params=_parted(eqn.params, sizes(eqn)))]

    return closed.replace(jaxpr=_rewritten(closed.jaxpr, change))


def _parted(params: dict[str, Any], sizes: Sequence[int]) -> dict[str, Any]:
    mapping = params["grid_mapping"]
    shifts = [n - s for n, s in zip(mapping.grid, sizes, strict=True)]
    if not any(shifts):
        return params
    blocks = tuple(replace(b, index_map_jaxpr=_moved_map(b.index_map_jaxpr, sizes, shifts)) for b in mapping.block_mappings)
    jaxpr = _rewritten(params["jaxpr"], lambda eqn: _moved_id(eqn, sizes, shifts))
    return {**params, "jaxpr": jaxpr, "grid_mapping": replace(mapping, grid=tuple(sizes), block_mappings=blocks)}


def _moved_map(closed: Any, sizes: Sequence[int], shifts: Sequence[int]) -> Any:
    """An index map that takes coordinates of the part."""
    jaxpr = closed.jaxpr
    invars, eqns = list(jaxpr.invars), []
    for axis, shift in enumerate(shifts):
        if shift:
            fresh = _variable(invars[axis].aval)
            eqns += _moved(fresh, invars[axis], sizes[axis], shift)
            invars[axis] = fresh
    return closed.replace(jaxpr=jaxpr.replace(invars=invars, eqns=[*eqns, *jaxpr.eqns], debug_info=jaxpr.debug_info))


def _moved_id(eqn: Any, sizes: Sequence[int], shifts: Sequence[int]) -> list[Any]:
    if eqn.primitive.name != "program_id" or not shifts[eqn.params["axis"]]:
        return [eqn]
    axis = eqn.params["axis"]
    fresh = _variable(eqn.outvars[0].aval)
    return [eqn.replace(outvars=[fresh]), *_moved(fresh, eqn.outvars[0], sizes[axis], shifts[axis])]


def _moved(given: Any, wanted: Any, size: int, shift: int) -> list[Any]:
    """Equations that make the whole grid's coordinate ``wanted`` of the part's ``given``."""
    from jax import lax

    late, added = _variable(given.aval.update(dtype=np.dtype(bool))), _variable(given.aval)
    return [
        _equation([given, _literal(head(size), given.aval)], late, lax.ge_p, {}),
        _equation([given, _literal(shift, given.aval)], added, lax.add_p, {}),
        _equation([late, given, added], wanted, lax.select_n_p, {}),
    ]


def _rewritten(jaxpr: Any, change: Callable[[Any], list[Any]]) -> Any:
    """``jaxpr`` with every equation, those of inner ones included, replaced by what ``change`` gives."""
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name != "pallas_call":
            eqn = eqn.replace(params={k: _inside(v, change) for k, v in eqn.params.items()})
        eqns += change(eqn)
    return jaxpr.replace(eqns=eqns)


def _inside(value: Any, change: Callable[[Any], list[Any]]) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_inside(v, change) for v in value) if type(value) in (tuple, list) else value
    if hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns"):
        return value.replace(jaxpr=_rewritten(value.jaxpr, change))
    return _rewritten(value, change) if hasattr(value, "eqns") else value


def _variable(aval: Any) -> Any:
    from jax._src import core

    return core.Var(aval)


def _literal(value: int, aval: Any) -> Any:
    from jax._src import core

    return core.Literal(np.asarray(value, aval.dtype), aval)


def _equation(invars: list[Any], outvar: Any, primitive: Any, params: dict[str, Any]) -> Any:
    from jax._src import core

    return core.new_jaxpr_eqn(invars, [outvar], primitive, params, set())
