"""A function with the results of its kernels, or of the array maths beside them, taken away.

The function is traced, and its equations are done one by one.  Beside kernels there may be whatever hangs on no input, what
moves or casts arrays (sums of arrays that are apart among zeros, too), bounds of indices, and a little maths; what else there
is gives noise in place of its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..trace.kernel_calls import INLINED, jaxprs_of

SHARE = 1 / 8
"""Maths beside kernels may read and write so many elements in all, for each of the operator's inputs and outputs."""

_MOVES = frozenset({
    "reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims", "slice", "dynamic_slice", "dynamic_update_slice",
    "pad", "concatenate", "split", "rev", "convert_element_type", "bitcast_convert_type", "copy", "copy_p", "device_put",
    "stop_gradient", "optimization_barrier", "sharding_constraint", "layout_constraint", "pvary",
})  # fmt: skip
_BY_CONSTANTS = {"gather": 1, "select_n": 0}
"""These move where the operand of this number hangs on no input: indices, a mask."""

_HEAVY = frozenset({"dot_general", "ragged_dot", "ragged_dot_general", "conv_general_dilated", "sort", "top_k", "fft",
                    "pure_callback", "io_callback", "custom_call", "ffi_call", "eigh", "cholesky",
                    "triangular_solve"})  # fmt: skip
_CONTAINERS = frozenset({*INLINED, "scan", "while", "cond"})
"""Primitives that only do what is inside."""

_WALKED = 64
"""A loop whose length is not known counts as one of so many steps."""


_BOUNDS = frozenset({"min", "max", "clamp"})


@dataclass(frozen=True)
class Value:
    """An array; whether it hangs on inputs; where it is not surely zero, if it was padded with zeros."""

    x: Any
    varies: bool
    placed: np.ndarray | None = None


@dataclass
class Part:
    """``kernels``: maths beside kernels gives noise; ``host``: kernels do.  ``work`` is what was taken of the former."""

    function: Callable[..., Any]
    name: str
    work: dict[str, int] = field(default_factory=dict)
    kernels: int = 0
    room: float = 0.0

    def __call__(self, *arguments: Any) -> Any:
        import jax

        shaped = [jax.ShapeDtypeStruct(np.shape(x), x.dtype) for x in arguments]
        closed, shapes = jax.make_jaxpr(lambda *xs: self.function(*xs), return_shape=True)(*shaped)
        self.work, self.kernels = {}, 0
        self.room = SHARE * sum(_size(v) for v in (*closed.jaxpr.invars, *closed.jaxpr.outvars))
        found = self._done(closed.jaxpr, closed.consts, [Value(x, True) for x in arguments])
        return jax.tree.unflatten(jax.tree.structure(shapes), [v.x for v in found])

    @property
    def words(self) -> str:
        did = f"it calls {self.kernels or 'no'} Pallas kernel{'s' if self.kernels != 1 else ''}"
        work = ", ".join(f"{name} on {n} elements" for name, n in list(self.work.items())[:4])
        return did + (f" and computes with jax beside them ({work})" if work else "")

    def _done(self, jaxpr: Any, constants: Sequence[Any], given: Sequence[Value]) -> list[Value]:
        known = dict(zip(jaxpr.constvars, [Value(c, False) for c in constants], strict=True))
        known |= dict(zip(jaxpr.invars, given, strict=True))

        def value(atom: Any) -> Value:
            return Value(atom.val, False) if hasattr(atom, "val") else known[atom]

        for equation in _needed(jaxpr):
            known |= dict(zip(equation.outvars, self._equation(equation, [value(a) for a in equation.invars]), strict=True))
        return [value(a) for a in jaxpr.outvars]

    def _equation(self, equation: Any, given: Sequence[Value]) -> list[Value]:
        name = equation.primitive.name
        if name in INLINED and (inner := next(jaxprs_of(equation), None)) is not None:
            return self._done(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), given)
        varies = any(v.varies for v in given)
        kernel = name == "pallas_call" or (not self._beside(equation) and _has_kernels(equation))
        self.kernels += kernel
        if (kernel and self.name == "host") or (not kernel and varies and not self._may(equation, given)):
            return [Value(_noise(v.aval), True) for v in equation.outvars]
        with _known(varies or kernel):
            found = equation.primitive.bind(*[v.x for v in given], **equation.primitive.get_bind_params(equation.params))
        placed = _placed(equation, given)
        return [Value(x, varies or kernel, placed) for x in (found if equation.primitive.multiple_results else [found])]

    def _may(self, equation: Any, given: Sequence[Value]) -> bool:
        name = equation.primitive.name
        if name in _MOVES or (name in _BY_CONSTANTS and not given[_BY_CONSTANTS[name]].varies):
            return True
        if _placed(equation, given) is not None or (name in _BOUNDS and _bounds(equation, given)):
            return True
        weight = _weight(equation)
        if weight <= self.room:
            self.room -= weight
            return True
        self.work[name] = self.work.get(name, 0) + _elements(equation)
        return False

    def _beside(self, equation: Any) -> bool:
        """Whether a loop or branch has more maths beside its kernels than there may be."""
        return sum(_inside(equation)) > self.room


def _placed(equation: Any, given: Sequence[Value]) -> np.ndarray | None:
    """Where the result of a pad with zeros, or of a sum of such that are apart, is not surely zero."""
    if equation.primitive.name == "pad" and not given[1].varies and _is_zero(given[1].x):
        config = equation.params["padding_config"]
        inner = given[0].placed if given[0].placed is not None else np.ones(equation.invars[0].aval.shape, bool)
        found = np.zeros(equation.outvars[0].aval.shape, bool)
        if not inner.size:
            return found
        if any(lo < 0 or hi < 0 for lo, hi, _ in config):
            return None
        places = zip(config, inner.shape, strict=True)
        found[tuple(slice(lo, lo + (n - 1) * (step + 1) + 1, step + 1) for (lo, _, step), n in places)] = inner
        return found
    if equation.primitive.name in ("add", "add_any"):
        a, b = (v.placed for v in given)
        if a is not None and b is not None and a.shape == b.shape and not (a & b).any():
            return a | b
    return None


def _known(varies: bool) -> AbstractContextManager[Any]:
    """What hangs on no input is computed at once: that a pad is with zeros is seen then."""
    import jax

    return nullcontext() if varies else jax.ensure_compile_time_eval()


def _is_zero(x: Any) -> bool:
    try:
        return not (np.asarray(x) != 0).any()  # narrow floats' -0.0 counts as true
    except Exception:  # jax has classes of its own for what is not known while it traces
        return False


def _bounds(equation: Any, given: Sequence[Value]) -> bool:
    """Whether integers, such as indices, are kept within constants."""
    integers = all(np.issubdtype(v.aval.dtype, np.integer) for v in equation.invars)
    return integers and sum(v.varies for v in given) == 1


def _needed(jaxpr: Any) -> list[Any]:
    """The equations that outputs hang on, in order."""
    wanted = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    found = []
    for equation in reversed(jaxpr.eqns):
        if any(v in wanted for v in equation.outvars):
            found.append(equation)
            wanted.update(v for v in equation.invars if not hasattr(v, "val"))
    return found[::-1]


def _weight(equation: Any) -> float:
    """Elements that maths reads and writes, nothing for moves; of what is never light, more than there may be."""
    name = equation.primitive.name
    if name in _HEAVY:
        return math.inf
    if name in _MOVES or name in _BY_CONSTANTS or name == "pallas_call":
        return 0
    inside = sum(_inside(equation))
    return inside if name in _CONTAINERS else max(inside, _elements(equation))  # a sum has the maths of an element inside


def _inside(equation: Any) -> Iterator[float]:
    """The weights of the equations inside, as often as they are done."""
    times = equation.params.get("length", _WALKED if equation.primitive.name == "while" else 1)
    for inner in jaxprs_of(equation) if equation.primitive.name != "pallas_call" else ():
        yield from (times * _weight(e) for e in getattr(inner, "jaxpr", inner).eqns)


def _has_kernels(equation: Any) -> bool:
    return equation.primitive.name == "pallas_call" or any(
        _has_kernels(e) for inner in jaxprs_of(equation) for e in getattr(inner, "jaxpr", inner).eqns)  # fmt: skip


def _elements(equation: Any) -> int:
    return sum(_size(v) for v in (*equation.invars, *equation.outvars))


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


def _noise(aval: Any) -> Any:
    """Numbers that nobody foresees, zeros for integers, which may be places."""
    import jax.numpy as jnp

    if not jnp.issubdtype(aval.dtype, jnp.floating):
        return jnp.zeros(aval.shape, aval.dtype)
    return jnp.asarray(np.random.default_rng().standard_normal(aval.shape) * 1e3, aval.dtype)
