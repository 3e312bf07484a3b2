"""What a TPU does to f32 products at the default precision, done to them in an interpreter too.

A matrix unit multiplies bf16.  Unless a dot of f32 operands asks for more (``Precision.HIGHEST``), both operands are rounded
to bf16 first; interpreters on a CPU multiply f32 whatever was asked.  Here such dots get the rounding, inside kernels
and around them, so that what is checked is what the hardware would do.

Operands of bf16 are made f32 before a dot whose result is f32.  Their products are the same, all of them exact, and XLA for
CPUs has no kernel for some dots of bf16 (jax 0.11.2, Linux with AVX-512: "Unsupported element type for DotThunk").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..trace.kernel_calls import rewritten
from .equations import made, variable

EXACT = ("HIGHEST", "HIGH", "FLOAT32", "F32_F32_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9")
"""Precisions at which f32 operands keep more than a bf16 has."""


def rounded(jaxpr: Any) -> tuple[Any, tuple[str, ...]]:
    """``jaxpr`` with the operands of its default-precision f32 dots rounded to bf16, and the lines of those dots."""
    lines: dict[str, None] = {}

    def rule(equation: Any, line: str) -> list[Any]:
        if equation.primitive.name != "dot_general":
            return [equation]
        if _of_bf16(equation):
            return _after(equation, _widening)
        if not _at_default(equation):
            return [equation]
        lines[line] = None
        return _after(equation, _rounding)

    return rewritten(jaxpr, rule), tuple(lines)


def _after(equation: Any, change: Callable[[Any, Any], Any]) -> list[Any]:
    """``change`` of each operand, and the dot of what comes out."""
    changes = [change(equation, atom) for atom in equation.invars]
    return [*changes, equation.replace(invars=[c.outvars[0] for c in changes])]


def _of_bf16(equation: Any) -> bool:
    return (all(a.aval.dtype.name == "bfloat16" for a in equation.invars)
            and equation.outvars[0].aval.dtype.name == "float32")  # fmt: skip


def _at_default(equation: Any) -> bool:
    if any(a.aval.dtype.name != "float32" for a in equation.invars):
        return False
    asked = equation.params["precision"]
    said = asked if isinstance(asked, tuple) else (asked,)
    return not any(getattr(p, "name", str(p)).upper() in EXACT for p in said)


def _rounding(equation: Any, atom: Any) -> Any:
    """``reduce_precision`` to a bf16's 8 bits of exponent and 7 of mantissa, which no compiler folds away."""
    from jax import lax

    return made(equation, [atom], variable(atom.aval), lax.reduce_precision_p, {"exponent_bits": 8, "mantissa_bits": 7})


def _widening(equation: Any, atom: Any) -> Any:
    import numpy as np
    from jax import lax

    wide = np.dtype(np.float32)
    return made(equation, [atom], variable(atom.aval.update(dtype=wide)), lax.convert_element_type_p,
                {"new_dtype": wide, "weak_type": False, "sharding": None})  # fmt: skip
