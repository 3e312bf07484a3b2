"""What a TPU does to f32 products at the default precision, done to them in an interpreter too.

A matrix unit multiplies bf16.  Unless a dot of f32 operands asks for more (``Precision.HIGHEST``), both operands are rounded
to bf16 first; interpreters on a CPU multiply f32 whatever was asked.  Here such dots get the rounding, inside kernels
and around them, so that what is checked is what the hardware would do.
"""

from __future__ import annotations

from typing import Any

from ..trace.kernel_calls import rewritten

EXACT = ("HIGHEST", "HIGH", "FLOAT32", "F32_F32_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9")
"""Precisions at which f32 operands keep more than a bf16 has."""


def rounded(jaxpr: Any) -> tuple[Any, tuple[str, ...]]:
    """``jaxpr`` with the operands of its default-precision f32 dots rounded to bf16, and the lines of those dots."""
    lines: dict[str, None] = {}

    def rule(equation: Any, line: str) -> list[Any]:
        if equation.primitive.name != "dot_general" or not _at_default(equation):
            return [equation]
        lines[line] = None
        roundings = [_rounding(equation, atom) for atom in equation.invars]
        return [*roundings, equation.replace(invars=[r.outvars[0] for r in roundings])]

    return rewritten(jaxpr, rule), tuple(lines)


def _at_default(equation: Any) -> bool:
    if any(a.aval.dtype.name != "float32" for a in equation.invars):
        return False
    asked = equation.params["precision"]
    said = asked if isinstance(asked, tuple) else (asked,)
    return not any(getattr(p, "name", str(p)).upper() in EXACT for p in said)


def _rounding(equation: Any, atom: Any) -> Any:
    """``reduce_precision`` to a bf16's 8 bits of exponent and 7 of mantissa, which no compiler folds away."""
    from jax import lax
    from jax._src import core

    return core.new_jaxpr_eqn([atom], [core.Var(atom.aval)], lax.reduce_precision_p, {"exponent_bits": 8, "mantissa_bits": 7},
                              set(), equation.source_info, equation.ctx)  # fmt: skip
