"""Maxima and minima over an axis that keep a NaN, as jax and Mosaic's ``maximumf`` say, where XLA's CPU loses it.

``jnp.max`` of an array that holds a NaN is NaN.  XLA's compiler for CPUs (jaxlib 0.10.2, 0.11) drops it in larger
reductions: ``jnp.max(x, axis=1)`` of f32[40, 128] gives the largest of the others, of f32[8, 128] NaN.  An interpreter on a
CPU would show a wrong number where the kernel is right, or hide an infinity that became one.  Here the NaN is looked for
beside the reduction, inside kernels and around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .traced import rewritten

REDUCTIONS = ("reduce_max", "reduce_min")


def with_nan(jaxpr: Any) -> Any:
    """``jaxpr`` with reductions of floating-point numbers by maximum or minimum that give NaN where there is one."""
    return rewritten(jaxpr, lambda equation, line: _kept(equation) if _loses(equation) else [equation])


def _loses(equation: Any) -> bool:
    return equation.primitive.name in REDUCTIONS and equation.invars[0].aval.dtype.kind in "fV"


def _kept(equation: Any) -> list[Any]:
    """``select(any(x != x), NaN, reduction)``."""
    from jax import lax

    (x,), (result,) = equation.invars, equation.outvars
    boolean = np.dtype(bool)
    wrong, hit = _variable(x.aval.update(dtype=boolean)), _variable(result.aval.update(dtype=boolean))
    number, nan = _variable(result.aval), _variable(result.aval)
    literal = _literal(np.nan, x.aval)

    def step(invars: list[Any], out: Any, primitive: Any, **params: Any) -> Any:
        return _equation(equation, invars, out, primitive, params)

    return [
        step([x, x], wrong, lax.ne_p),
        step([wrong], hit, lax.reduce_or_p, axes=equation.params["axes"]),
        equation.replace(outvars=[number]),
        step([literal], nan, lax.broadcast_in_dim_p, shape=result.aval.shape, broadcast_dimensions=(), sharding=None),
        step([hit, number, nan], result, lax.select_n_p),
    ]


def _variable(aval: Any) -> Any:
    from jax._src import core

    return core.Var(aval)


def _literal(value: float, aval: Any) -> Any:
    from jax._src import core

    return core.Literal(np.asarray(value, aval.dtype)[()], core.ShapedArray((), aval.dtype))


def _equation(like: Any, invars: list[Any], outvar: Any, primitive: Any, params: dict[str, Any]) -> Any:
    from jax._src import core

    return core.new_jaxpr_eqn(invars, [outvar], primitive, params, set(), like.source_info, like.ctx)
