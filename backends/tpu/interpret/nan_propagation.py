"""NaN kept where XLA's compiler for CPUs loses it (jaxlib 0.10.2, 0.11), as jax says and a TPU does.

*Maxima and minima over an axis.*  ``jnp.max(x, axis=1)`` of f32[40, 128] that holds a NaN gives the largest of the others, of
f32[8, 128] NaN.

*Exponentials and their like* within larger loops: they take it that no NaN comes in, and one gives 0 or what a register held.

An interpreter on a CPU would show a wrong number where the kernel is right, or hide an infinity that became one.  Here the NaN
is looked for beside the operation, inside kernels and around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace.kernel_calls import rewritten
from .equations import literal, made, variable

REDUCTIONS = ("reduce_max", "reduce_min")
FUNCTIONS = ("exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "erf")


def with_nan(jaxpr: Any) -> Any:
    """``jaxpr`` with reductions of floating-point numbers by maximum or minimum, and functions of them, that keep a NaN."""
    return rewritten(jaxpr, _rule)


def _rule(equation: Any, line: str) -> list[Any]:
    name = equation.primitive.name
    if name not in (*REDUCTIONS, *FUNCTIONS) or equation.invars[0].aval.dtype.kind not in "fV":
        return [equation]
    return _reduction(equation) if name in REDUCTIONS else _function(equation)


def _reduction(equation: Any) -> list[Any]:
    """``select(any(x != x), NaN, reduction)``."""
    from jax import lax

    (x,), (result,) = equation.invars, equation.outvars
    boolean = np.dtype(bool)
    wrong, hit = variable(x.aval.update(dtype=boolean)), variable(result.aval.update(dtype=boolean))
    number, nan = variable(result.aval), variable(result.aval)
    missing = literal(np.nan, x.aval)
    return [
        made(equation, [x, x], wrong, lax.ne_p, {}),
        made(equation, [wrong], hit, lax.reduce_or_p, {"axes": equation.params["axes"]}),
        equation.replace(outvars=[number]),
        made(equation, [missing], nan, lax.broadcast_in_dim_p, _SPREAD | {"shape": result.aval.shape}),
        made(equation, [hit, number, nan], result, lax.select_n_p, {}),
    ]


def _function(equation: Any) -> list[Any]:
    """``select(x != x, x, f(x))``."""
    from jax import lax

    (x,), (result,) = equation.invars, equation.outvars
    wrong, number = variable(result.aval.update(dtype=np.dtype(bool))), variable(result.aval)
    return [
        made(equation, [x, x], wrong, lax.ne_p, {}),
        equation.replace(outvars=[number]),
        made(equation, [wrong, number, x], result, lax.select_n_p, {}),
    ]


_SPREAD: dict[str, Any] = {"broadcast_dimensions": (), "sharding": None}
