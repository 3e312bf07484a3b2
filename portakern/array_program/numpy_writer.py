"""A tensor program on numpy arrays."""

from __future__ import annotations

import math
from typing import Any

from portakern.dtypes import DTYPES, numpy_dtype
from portakern.ir import functions, oracle
from portakern.ir import tensor as t
from portakern.ir.core import ManyType, Op
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorType, tensor_type

from .scan import scan
from .writer import INFIX, Writer, may_be_view, python_text, shape_of


class NumpyWriter(Writer):
    library = "numpy"
    head = "@np.errstate(all='ignore')\n"

    def scope(self) -> dict[str, Any]:
        import numpy as np

        return {"np": np, "functions": functions, "oracle": oracle, "scan": scan}

    def dtype(self, dtype: str) -> str:
        found = numpy_dtype(dtype)
        if found.name == "bfloat16" or found.name.startswith("float8_"):
            self.constants[found.name] = found
            return found.name
        return "np.bool_" if dtype == "bool" else f"np.{found.name}"

    def scalar(self, name: str, dtype: str) -> str:
        return f"np.asarray({name}, {self.dtype(dtype)})"

    def constant(self, value: Any, dtype: str) -> str:
        return f"np.asarray({python_text(value)}, {self.dtype(dtype)})"

    full = Writer.__call__

    def whole(self, op: Op) -> str:
        return f"np.array({self(op)}, order='C')" if may_be_view(op) else f"np.asarray({self(op)}, order='C')"

    def Iota(self, op: t.Iota) -> str:
        line = [-1 if i == op.axis else 1 for i in range(len(op.shape))]
        shape = static(op.shape)
        return f"np.broadcast_to(np.arange({shape[op.axis]}, dtype={self.dtype(op.dtype)}).reshape({line}), {shape})"

    def RandomBits(self, op: t.RandomBits) -> str:
        return f"oracle.apply({self.keep(op)}, [{self(op.seed)}])"

    def Map(self, op: t.Map) -> str:
        args = [self(a) for a in op.args]
        kind = DTYPES[tensor_type(op.args[-1]).dtype]
        if op.fn == "select":
            return f"np.where({', '.join(args)})"
        if op.fn in INFIX:
            return f"{args[0]} {INFIX[op.fn]} {args[1]}"
        if op.fn == "div":
            quotient = f"{args[0]} / {args[1]}"
            return quotient if kind.is_float else f"np.trunc({quotient}).astype({self.dtype(kind.name)})"
        if op.fn in ("erf", "sigmoid"):  # numpy has neither
            return f"functions.{op.fn}({args[0]}).astype({self.dtype(kind.name)})"
        if op.fn in ("rsqrt", "reciprocal"):
            inner = f"np.sqrt({args[0]})" if op.fn == "rsqrt" else args[0]
            return f"{self.constant(1, kind.name)} / {inner}"
        words = {"neg": "negative", "abs": "abs", "round": "rint", "not": "invert", "max": "maximum", "min": "minimum",
                 "rem": "remainder", "floordiv": "floor_divide"}  # fmt: skip
        return f"np.{words.get(op.fn, op.fn)}({', '.join(args)})"

    def Convert(self, op: t.Convert) -> str:
        return f"{self(op.x)}.astype({self.dtype(op.dtype)})"

    def BitConvert(self, op: t.BitConvert) -> str:
        return f"{self(op.x)}.view({self.dtype(op.dtype)})"

    def Expand(self, op: t.Expand) -> str:
        return f"np.broadcast_to({self(op.x)}.reshape({self._placed(op)}), {static(op.shape)})"

    def Transpose(self, op: t.Transpose) -> str:
        return f"{self(op.x)}.transpose({op.order})"

    def PadWith(self, op: t.PadWith) -> str:
        return f"np.pad({self(op.x)}, {list(zip(op.low, op.high, strict=True))}, constant_values={python_text(op.value)})"

    def Concat(self, op: t.Concat) -> str:
        return f"np.concatenate([{', '.join(map(self, op.parts))}], {op.axis})"

    def Flip(self, op: t.Flip) -> str:
        return f"np.flip({self(op.x)}, {op.axes})"

    def Fold(self, op: t.Fold) -> str:
        x = self(op.x)
        if op.fn in ("sum", "prod"):
            return f"{x}.{op.fn}(axis={op.axes}, dtype={x}.dtype)"
        return f"oracle.fold({op.fn!r}, {x}, {op.axes})" if not math.prod(shape_of(op.x)) else f"{x}.{op.fn}(axis={op.axes})"

    def ArgFold(self, op: t.ArgFold) -> str:
        return f"np.arg{op.fn}({self(op.x)}, {op.axis}).astype({self.dtype(tensor_type(op).dtype)})"

    def Contract(self, op: t.Contract) -> str:
        narrow = DTYPES[op.dtype].is_float and DTYPES[op.dtype].bits < 32
        a, b = (f"{self(x)}.astype({self.dtype('f32' if narrow else op.dtype)}, copy=False)" for x in (op.lhs, op.rhs))
        return f"oracle.contract({self.keep(op)}, {a}, {b}).astype({self.dtype(op.dtype)}, copy=False)"

    def Recur(self, op: t.Recur) -> str:
        assert isinstance(op.type, ManyType)
        lines: Any = op.type.types[len(op.init) :]
        shown = ", ".join(f"np.empty({static(of.shape)}, {self.dtype(of.dtype)})" for of in lines)
        return f"scan({self.step(op)}, {self.listed(op.init)}, {self.listed(op.xs)}, {op.length}, {op.reverse}, [{shown}])"

    def _by_oracle(self, op: Op) -> str:
        """What numpy says in several calls, in the words of the oracle, in the dtype of its arrays."""
        cast = f".astype({self.dtype(tensor_type(op).dtype)}, copy=False)" if isinstance(op.type, TensorType) else ""
        return f"{self.keep(oracle.RULES[type(op)])}({self.keep(op)}, {', '.join(map(self, op.operands))}){cast}"

    Windows = Assemble = Cumulate = AssociativeScan = SegmentFold = SegmentContract = _by_oracle
    WindowFold = Convolve = Gather = Scatter = Sort = _by_oracle
