"""Programs evaluated in float32 as a correct kernel may: any order of sums, fused or not, started where it likes.

A reference for the bounds that shares nothing with them: every choice here is one that some compiler or library makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.dtypes import DTYPES
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Op, Result, Yield
from portakern.ir.functions import BINARY, UNARY
from portakern.ir.tensor import TensorProgram, tensor_type

f32 = np.float32
VIEWS = (t.Expand, t.Reshape, t.Transpose, t.Slice, t.Flip)


@dataclass(frozen=True)
class Made:
    """A value; ``product`` its factors where it is a product, ``begun`` the sum that it is, begun with another
    value, and with its terms negated where that is asked."""

    x: np.ndarray
    product: tuple[np.ndarray, np.ndarray] | None = None
    begun: Callable[..., np.ndarray] | None = None


class Machine:
    """Evaluates programs with choices taken from ``rng``, alike within one program or not."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.flushes, self.narrows = rng.random() < 0.5, rng.random() < 0.5

    def chance(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def run(self, program: TensorProgram, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        values: dict[Op, Any] = {a: Made(self.flushed(np.asarray(inputs[a.name]).astype(self.dtype(a)))) for a in program.args}
        with np.errstate(all="ignore"):
            for op in program.body.ops:
                if isinstance(op, Result):
                    values[op] = values[op.source][op.index]
                elif isinstance(op, t.Sort):
                    values[op] = [Made(x) for x in oracle.apply(op, [values[op.x].x])]
                elif not isinstance(op, Yield):
                    values[op] = self.narrowed(op, self.apply(op, [values[o] for o in op.operands]))
        return {n: values[r].x for n, r in zip(program.outputs, program.results, strict=True)}

    def dtype(self, op: Op) -> Any:
        name = tensor_type(op).dtype
        return f32 if DTYPES[name].is_float else oracle.working_dtype(name)

    def flushed(self, x: np.ndarray) -> np.ndarray:
        tiny = self.flushes and x.dtype == f32
        return np.where(np.abs(x) < f32(2.0**-126), np.copysign(f32(0), x), x) if tiny else x

    def narrowed(self, op: Op, made: Made) -> Made:
        name = tensor_type(op).dtype
        if self.narrows and name in ("bf16", "f16") and not isinstance(op, t.Convert):
            return Made(oracle.round_to(made.x.astype(np.float64), name).astype(f32))
        return Made(self.flushed(made.x), made.product, made.begun)

    def apply(self, op: Op, args: list[Made]) -> Made:
        match op:
            case t.Contract() if self.dtype(op) == f32:
                return self.contraction(op, args[0].x, args[1].x)
            case t.Fold(fn="sum") if self.dtype(op) == f32:
                return self.sum(np.moveaxis(args[0].x, op.axes, range(len(op.axes))), len(op.axes))
            case t.Cumulate(fn="sum") if self.dtype(op) == f32:
                return Made(oracle.cumulate(op, args[0].x))
            case t.Scatter(mode="add") if self.dtype(op) == f32 and args[0].begun is not None and self.chance():
                own = oracle.RULES[t.Scatter](op, np.zeros_like(args[0].x), *(a.x for a in args[1:]))
                return Made(np.where(self.untouched(op, args), args[0].x, args[0].begun(np.asarray(own, f32))))
            case t.Map() if self.dtype(op) == f32 and op.fn != "select":
                return self.map(op.fn, args)
            case t.Convert(x=x) if DTYPES[op.dtype].is_float and _holds(op.dtype, tensor_type(x).dtype):
                return args[0]
            case t.Convert() if DTYPES[op.dtype].is_float:
                return Made(oracle.round_to(args[0].x.astype(np.float64), op.dtype).astype(f32))
        made = np.asarray(oracle.RULES[type(op)](op, *(a.x for a in args)))
        return Made(np.broadcast_to(made, oracle.static(tensor_type(op).shape)).astype(self.dtype(op)))

    def untouched(self, op: t.Scatter, args: list[Made]) -> np.ndarray:
        """The elements that get no update."""
        return np.asarray(oracle.RULES[t.Scatter](op, np.zeros_like(args[0].x), args[1].x, np.ones_like(args[2].x))) == 0

    def sum(self, x: np.ndarray, axes: int) -> Made:
        terms = x.reshape(math.prod(x.shape[:axes]), *x.shape[axes:])
        terms = self.rng.permutation(terms, 0) if self.chance() else terms

        def begun(start: np.ndarray, sign: float = 1.0) -> np.ndarray:
            total = start.astype(f32)
            for term in terms:
                total = (total + f32(sign) * term).astype(f32)
            return total

        zero = np.zeros(x.shape[axes:], f32)
        if self.chance():
            return Made(begun(zero), begun=begun)
        return Made(np.asarray(self.halves(terms) if len(terms) else zero, f32), begun=begun)

    def halves(self, terms: np.ndarray) -> np.ndarray:
        if len(terms) == 1:
            return terms[0]
        return (self.halves(terms[: len(terms) // 2]) + self.halves(terms[len(terms) // 2 :])).astype(f32)

    def contraction(self, op: t.Contract, a: np.ndarray, b: np.ndarray) -> Made:
        left = a.transpose(*op.lhs_batch, *op.lhs_free, *op.lhs_axes)
        right = b.transpose(*op.rhs_batch, *op.rhs_free, *op.rhs_axes)
        n, batch = len(op.lhs_axes), len(op.lhs_batch)
        k = math.prod(left.shape[left.ndim - n :])
        left = left.reshape(*left.shape[: left.ndim - n], *[1] * len(op.rhs_free), k)
        right = right.reshape(*right.shape[:batch], *[1] * len(op.lhs_free), *right.shape[batch : right.ndim - n], k)
        order = self.rng.permutation(left.shape[-1])
        fused, skips = self.chance(), self.chance()

        def begun(start: np.ndarray, sign: float = 1.0) -> np.ndarray:
            total = start.astype(f32)
            for k in order:
                x, y = f32(sign) * left[..., k], right[..., k]
                product = x.astype(np.float64) * y
                more = (total + (product if fused else product.astype(f32))).astype(f32)
                total = np.where(x == 0, total, more) if skips else more
            return total

        return Made(begun(np.zeros(oracle.static(tensor_type(op).shape), f32)), begun=begun)

    def map(self, fn: str, args: list[Made]) -> Made:
        x = [a.x for a in args]
        match fn:
            case "mul":
                return Made(self.flushed((x[0] * x[1]).astype(f32)), product=(x[0], x[1]))
            case "add" | "sub":
                return Made(self.added(fn, args))
            case "div" if self.chance():
                scaled = (np.abs(x[1]) < 2.0**126).all()  # beyond, the reciprocal is subnormal
                return Made((x[0] * (f32(1) / x[1]).astype(f32)).astype(f32) if scaled else x[0] / x[1])
            case "exp" if self.chance():
                return Made(np.exp2((x[0] * f32(np.log2(np.e))).astype(f32)).astype(f32))
            case "sigmoid":
                return Made((f32(1) / (f32(1) + np.exp(-x[0]))).astype(f32))
            case "rsqrt":
                return Made((f32(1) / np.sqrt(x[0])).astype(f32))
        return Made(np.asarray({**UNARY, **BINARY}[fn].exact(*x)).astype(f32))

    def added(self, fn: str, args: list[Made]) -> np.ndarray:
        sign = f32(1 if fn == "add" else -1)
        for i, (one, other) in enumerate((args, args[::-1])):
            mine, theirs = (f32(1), sign) if i == 0 else (sign, f32(1))
            if one.product is not None and self.chance():
                product = one.product[0].astype(np.float64) * one.product[1]
                return (mine * product + theirs * other.x.astype(np.float64)).astype(f32)
            if one.begun is not None and self.chance():
                return one.begun(np.broadcast_to(theirs * other.x, one.x.shape), float(mine))
        return (args[0].x + sign * args[1].x).astype(f32)


def _holds(wide: str, narrow: str) -> bool:
    """Whether numbers of ``narrow``, which are floats, are numbers of ``wide``."""
    a, b = DTYPES[wide], DTYPES[narrow]
    return b.is_float and (a.name == b.name or a.bits > b.bits)
