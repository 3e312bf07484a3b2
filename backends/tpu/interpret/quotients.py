"""Quotients that are divided, as jax says.

XLA for CPUs (jaxlib 0.10.2, 0.11) multiplies by the reciprocal where one divisor is broadcast to many elements.  The reciprocal
of a number beyond 2^126 is subnormal and becomes 0: ``1e38 / 1e38`` is 0.  Here the divisors are broadcast before, and hidden.
What a TPU's own division makes of such divisors is not said anywhere that we know of.
"""

from __future__ import annotations

from typing import Any

from ..trace.kernel_calls import rewritten
from .equations import made, variable


def divided(jaxpr: Any) -> Any:
    """``jaxpr`` with quotients of floating-point numbers whose divisors the compiler does not know to be broadcast."""
    return rewritten(jaxpr, _rule)


def _rule(equation: Any, line: str) -> list[Any]:
    from jax import lax
    from jax._src import core

    if equation.primitive is not lax.div_p or equation.invars[0].aval.dtype.kind not in "fV":
        return [equation]
    x, divisor = equation.invars
    if isinstance(divisor, core.Literal):
        return [equation]
    like = equation.outvars[0].aval
    spread, hidden = variable(like), variable(like)
    dims = tuple(range(len(divisor.aval.shape)))
    how = {"shape": like.shape, "broadcast_dimensions": dims, "sharding": None}
    return [
        made(equation, [divisor], spread, lax.broadcast_in_dim_p, how),
        made(equation, [spread], hidden, lax.optimization_barrier_p, {}),
        equation.replace(invars=[x, hidden]),
    ]
