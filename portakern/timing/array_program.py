"""A tensor program as a plain Python function on numpy or torch arrays: what a user of those libraries would have written.

The function is generated as text, one line per operation, so that it costs an eager library nothing to walk it and a
tracing compiler sees straight code.  Values have the dtypes that the program says; an array library rounds each of them,
where a kernel may keep more digits in between.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Op, Result, Yield
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type

LIBRARIES = ("numpy", "torch", "jax")

_TORCH = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32",
    "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class ArrayFunction:
    """``call(*arrays)`` computes the program; ``text`` is its source, ``notes`` where it differs from what the program says."""

    call: Callable[..., Any]
    text: str
    notes: tuple[str, ...] = ()


def array_function(program: TensorProgram, library: str) -> ArrayFunction:
    """``program``, whose dims are bound, as a function of its inputs in order; several outputs come as a tuple.

    Args:
        program: what to compute.
        library: one of :data:`LIBRARIES`.  Run-time scalars are given as numbers.

    Raises:
        PortakernError: the library has no such operation, of kind ``no-peer``; or it is not installed.
    """
    writer = _writer(library)(program)
    text = writer.write()
    scope = {**writer.scope(), **writer.constants}
    exec(compile(text, f"<{program.name} on {library} arrays>", "exec"), scope)
    return ArrayFunction(scope[writer.name], text, tuple(dict.fromkeys(writer.notes)))


def _writer(library: str) -> type[_Writer]:
    if library == "jax":
        from portakern.timing.jax_program import JaxWriter

        return JaxWriter
    return NumpyWriter if library == "numpy" else _Torch


@dataclass
class _Writer:
    """Writes a function line by line; each library is a subclass with a method per operation, by its class's name."""

    program: TensorProgram
    lines: list[str] = field(default_factory=list)
    names: dict[Op, str] = field(default_factory=dict)
    known: dict[Op, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    library = ""
    head = ""

    @property
    def name(self) -> str:
        return self.program.name if self.program.name.isidentifier() else "program"

    def scope(self) -> dict[str, Any]:
        raise NotImplementedError

    def write(self) -> str:
        """The function's text."""
        for a in self.program.args:
            self.names[a] = a.name
            if not tensor_type(a).shape:
                self.lines.append(f"{a.name} = {self.scalar(a.name, tensor_type(a).dtype)}")
        for op in self.program.body.ops:
            if not isinstance(op, Yield):
                self.operation(op)
        results = ", ".join(self.whole(r) for r in self.program.results)
        body = [*self.lines, f"return {results}"]
        arguments = ", ".join(a.name for a in self.program.args)
        return f"{self.head}def {self.name}({arguments}):\n" + "".join(f"    {line}\n" for line in body)

    def operation(self, op: Op) -> None:
        if not isinstance(op, Result) and op.operands and all(o in self.known for o in op.operands) and not shape_of(op):
            self.known[op] = oracle.apply(op, [self.known[o] for o in op.operands])  # arithmetic on constants
            return
        if isinstance(op, t.Literal | t.DimSize):
            self.known[op] = oracle.apply(op, [])
            return
        rule = getattr(self, type(op).__name__, None)
        if rule is None:
            raise self.no_counterpart(op)
        name = f"v{len(self.names)}"
        self.lines.append(f"{name} = {rule(op)}")
        self.names[op] = name

    def no_counterpart(self, op: Op) -> PortakernError:
        return PortakernError("no-peer", f"{self.library} has no counterpart to {op.mnemonic()} in {self.program.name}",
                              hint="write one: FILE.py:FUNCTION", where=str(op.loc or ""))

    def __call__(self, op: Op) -> str:
        """How an operand is written: its name, or a constant."""
        return self.constant(self.known[op], tensor_type(op).dtype) if op in self.known else self.names[op]

    def array(self, op: Op) -> str:
        """An operand as an array, a constant too."""
        return self.full(op) if op in self.known else self.names[op]

    def keep(self, value: Any) -> str:
        """A name for something that has no text."""
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    # ---- what the libraries differ in

    def scalar(self, name: str, dtype: str) -> str:
        raise NotImplementedError

    def constant(self, value: Any, dtype: str) -> str:
        raise NotImplementedError

    def full(self, op: Op) -> str:
        raise NotImplementedError

    def whole(self, op: Op) -> str:
        """A result as an array of its own: views are copied, since that is the work."""
        raise NotImplementedError

    # ---- what they share

    def Reshape(self, op: t.Reshape) -> str:
        return f"{self.array(op.x)}.reshape({static(op.shape)})"

    def Slice(self, op: t.Slice) -> str:
        parts = zip(static(op.starts), static(op.stops), op.steps, strict=True)
        return f"{self(op.x)}[{', '.join(f'{a}:{b}:{s}' for a, b, s in parts)}]"

    def Result(self, op: Result) -> str:
        return f"{self(op.operands[0])}[{op.index}]"

    def _placed(self, op: t.Expand) -> tuple[int, ...]:
        """The shape of ``op.x`` with ones where the result has dims that it lacks."""
        shape = [1] * len(op.shape)
        for size, dim in zip(shape_of(op.x), op.dims, strict=True):
            shape[dim] = size
        return tuple(shape)


def shape_of(op: Op) -> tuple[int, ...]:
    return static(tensor_type(op).shape) if isinstance(op.type, TensorType) else (-1,)


def _python(value: Any) -> str:
    """A number as Python text."""
    value = value.item() if hasattr(value, "item") else value
    return f"float('{value}')" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def letters(op: t.Contract) -> tuple[str, str, str]:
    """The operands and the result of a contraction in the notation of einsum."""
    fresh = iter(string.ascii_letters)
    left = {i: next(fresh) for i in range(tensor_type(op.lhs).rank)}
    right = {j: left[i] for i, j in zip((*op.lhs_batch, *op.lhs_axes), (*op.rhs_batch, *op.rhs_axes), strict=True)}
    right |= {j: next(fresh) for j in op.rhs_free}
    result = [left[i] for i in (*op.lhs_batch, *op.lhs_free)] + [right[j] for j in op.rhs_free]
    return "".join(left[i] for i in sorted(left)), "".join(right[j] for j in sorted(right)), "".join(result)


def _is_product(op: t.Contract, right: bool) -> bool:
    """Whether a contraction is ``a @ b`` (``right``), or ``a @ b.mT``, of arrays of one rank."""
    rank = tensor_type(op.lhs).rank
    leading = tuple(range(rank - 2))
    return (rank >= 2 and tensor_type(op.rhs).rank == rank and op.lhs_batch == op.rhs_batch == leading
            and op.lhs_axes == (rank - 1,) and op.rhs_axes == ((rank - 2,) if right else (rank - 1,)))  # fmt: skip


INFIX = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "pow": "**",
}  # fmt: skip

# ---- numpy -------------------------------------------------------------------------------------------------------------


class NumpyWriter(_Writer):
    library = "numpy"
    head = "@np.errstate(all='ignore')\n"

    def scope(self) -> dict[str, Any]:
        import numpy as np

        return {"np": np, "oracle": oracle}

    def dtype(self, dtype: str) -> str:
        from portakern.spec.inputs import numpy_dtype

        found = numpy_dtype(dtype)
        if found.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            self.constants[found.name] = found
            return found.name
        return "np.bool_" if dtype == "bool" else f"np.{found.name}"

    def scalar(self, name: str, dtype: str) -> str:
        return f"np.asarray({name}, {self.dtype(dtype)})"

    def constant(self, value: Any, dtype: str) -> str:
        return f"np.asarray({_python(value)}, {self.dtype(dtype)})"

    full = _Writer.__call__

    def whole(self, op: Op) -> str:
        return f"np.array({self(op)}, order='C')" if _may_be_view(op) else f"np.asarray({self(op)}, order='C')"

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
            return f"oracle.{op.fn}({args[0]}).astype({self.dtype(kind.name)})"
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
        return f"np.pad({self(op.x)}, {list(zip(op.low, op.high, strict=True))}, constant_values={_python(op.value)})"

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

    def _by_oracle(self, op: Op) -> str:
        """What numpy says in several calls, in the words of the oracle, in the dtype of its arrays."""
        cast = f".astype({self.dtype(tensor_type(op).dtype)}, copy=False)" if isinstance(op.type, TensorType) else ""
        return f"{self.keep(oracle.RULES[type(op)])}({self.keep(op)}, {', '.join(map(self, op.operands))}){cast}"

    Cumulate = WindowFold = Convolve = Gather = Scatter = Sort = _by_oracle


# ---- torch -------------------------------------------------------------------------------------------------------------


class _Torch(_Writer):
    library = "torch"

    def scope(self) -> dict[str, Any]:
        import torch
        import torch.nn.functional as F

        return {"torch": torch, "F": F}

    def dtype(self, dtype: str) -> str:
        return f"torch.{_TORCH[dtype]}"

    @property
    def device(self) -> str:
        """Where new arrays go: beside the first input."""
        first = next((a.name for a in self.program.args if tensor_type(a).shape), None)
        return f"device={first}.device" if first else "device='cpu'"

    def scalar(self, name: str, dtype: str) -> str:
        return f"torch.as_tensor({name}, dtype={self.dtype(dtype)})"

    def constant(self, value: Any, dtype: str) -> str:
        return _python(value)

    def full(self, op: Op) -> str:
        of = tensor_type(op)
        return f"torch.tensor({_python(self.known[op])}, dtype={self.dtype(of.dtype)}, {self.device})"

    def whole(self, op: Op) -> str:
        if op in self.known:
            return self.full(op)
        return f"{self(op)}.clone(memory_format=torch.contiguous_format)" if _may_be_view(op) else f"{self(op)}.contiguous()"

    def Iota(self, op: t.Iota) -> str:
        line = [-1 if i == op.axis else 1 for i in range(len(op.shape))]
        shape = static(op.shape)
        made = f"torch.arange({shape[op.axis]}, dtype={self.dtype(op.dtype)}, {self.device})"
        return f"{made}.reshape({line}).expand({shape})"

    def Map(self, op: t.Map) -> str:
        args = [self(a) for a in op.args]
        dtype = tensor_type(op).dtype
        if op.fn == "select":
            chosen = f"torch.where({self.array(op.args[0])}, {args[1]}, {args[2]})"
            return f"{chosen}.to({self.dtype(dtype)})" if all(a in self.known for a in op.args[1:]) else chosen
        if op.fn in INFIX:
            return f"{args[0]} {INFIX[op.fn]} {args[1]}"
        if op.fn == "div":
            whole = not DTYPES[dtype].is_float
            return f"torch.div({self.array(op.args[0])}, {args[1]}, rounding_mode='trunc')" if whole else " / ".join(args)
        if op.fn in ("max", "min"):
            bound = next((a for a in op.args if a in self.known), None)
            if bound is None:
                return f"torch.{op.fn}imum({args[0]}, {args[1]})"
            other = next(a for a in op.args if a is not bound)
            return f"torch.clamp({self(other)}, {'min' if op.fn == 'max' else 'max'}={self(bound)})"
        words = {"rem": "remainder", "floordiv": "floor_divide", "not": "bitwise_not"}
        args[0] = self.array(op.args[0])
        return f"torch.{words.get(op.fn, op.fn)}({', '.join(args)})"

    def Convert(self, op: t.Convert) -> str:
        return f"{self(op.x)}.to({self.dtype(op.dtype)})"

    def BitConvert(self, op: t.BitConvert) -> str:
        return f"{self(op.x)}.view({self.dtype(op.dtype)})"

    def Expand(self, op: t.Expand) -> str:
        return f"{self.array(op.x)}.reshape({self._placed(op)}).expand({static(op.shape)})"

    def Transpose(self, op: t.Transpose) -> str:
        return f"{self(op.x)}.permute({op.order})"

    def PadWith(self, op: t.PadWith) -> str:
        return f"F.pad({self(op.x)}, {_pads(op.low, op.high)}, value={_python(op.value)})"

    def Concat(self, op: t.Concat) -> str:
        return f"torch.cat([{', '.join(map(self.array, op.parts))}], {op.axis})"

    def Flip(self, op: t.Flip) -> str:
        return f"torch.flip({self(op.x)}, {tuple(op.axes)})"

    def Fold(self, op: t.Fold) -> str:
        return self._fold(op.fn, self(op.x), tuple(op.axes), tensor_type(op).dtype)

    def _fold(self, fn: str, x: str, axes: tuple[int, ...], dtype: str) -> str:
        if fn == "sum":
            return f"{x}.sum({axes}, dtype={self.dtype(dtype)})"
        if fn == "prod":
            return x + "".join(f".prod({a}, dtype={self.dtype(dtype)})" for a in sorted(axes, reverse=True))
        return f"{x}.a{fn}({axes})" if fn in ("max", "min") else f"torch.{fn}({x}, {axes})"

    def ArgFold(self, op: t.ArgFold) -> str:
        return f"{self(op.x)}.arg{op.fn}({op.axis}).to({self.dtype(tensor_type(op).dtype)})"

    def Cumulate(self, op: t.Cumulate) -> str:
        x = f"torch.flip({self(op.x)}, ({op.axis},))" if op.reverse else self(op.x)
        dtype = tensor_type(op).dtype
        if op.fn in ("sum", "prod"):
            run = f"torch.cum{op.fn}({x}, {op.axis}, dtype={self.dtype(dtype)})"
        else:
            run = f"torch.cum{op.fn}({x}, {op.axis}).values"
        if op.exclusive:
            first = _python(oracle.identity(op.fn, oracle.working_dtype(dtype)))
            rank = len(shape_of(op))
            low, high = [0] * rank, [0] * rank
            low[op.axis], high[op.axis] = 1, -1
            run = f"F.pad({run}, {_pads(low, high)}, value={first})"
        return f"torch.flip({run}, ({op.axis},))" if op.reverse else run

    def WindowFold(self, op: t.WindowFold) -> str:
        dtype = tensor_type(op).dtype
        filler = _python(oracle.identity(op.fn, oracle.working_dtype(dtype)))
        x = f"F.pad({self(op.x)}, {_pads(op.low, op.high)}, value={filler})"
        rank = len(op.window)
        for dim, (window, stride, dilation) in enumerate(zip(op.window, op.strides, op.dilation, strict=True)):
            x += f".unfold({dim}, {dilation * (window - 1) + 1}, {stride})"
            x += f"[..., ::{dilation}]" if dilation > 1 else ""
        return self._fold(op.fn, x, tuple(range(rank, 2 * rank)), dtype)

    def Contract(self, op: t.Contract) -> str:
        a, b = self(op.lhs), self(op.rhs)
        have = tensor_type(op.lhs).dtype
        if not DTYPES[have].is_float and have != op.dtype:
            a, b, have = f"{a}.to({self.dtype(op.dtype)})", f"{b}.to({self.dtype(op.dtype)})", op.dtype
        if DTYPES[have].bits == 8 and DTYPES[have].is_float:
            raise PortakernError("no-peer", "torch multiplies 8-bit floats only through functions for one vendor",
                                 hint="write one: FILE.py:FUNCTION")
        if op.precision == "tf32":
            self.notes.append("products of f32 in tf32 (float32_matmul_precision 'high')")
        elif op.precision != "ieee":
            self.notes.append(f"products in {have}, where the operator asks for {op.precision}")
        if _is_product(op, True):
            made = f"{a} @ {b}"
        elif _is_product(op, False):
            made = f"{a} @ {b}.mT"
        else:
            left, right, result = letters(op)
            made = f"torch.einsum('{left},{right}->{result}', {a}, {b})"
        if have == op.dtype:
            return made
        self.notes.append(f"products of {have} are rounded to {have} before they are {op.dtype}, as torch's users write it")
        return f"({made}).to({self.dtype(op.dtype)})"

    def Convolve(self, op: t.Convolve) -> str:
        if op.transposed:
            raise PortakernError("no-peer", "no torch form of a transposed convolution is known",
                                 hint="write one: FILE.py:FUNCTION")
        n = len(op.strides)
        x = f"F.pad({self(op.x)}.movedim(-1, 1), {_pads(op.low, op.high)})"
        weights = f"{self(op.w)}.permute({(n + 1, n, *range(n))})"
        made = (f"F.conv{n}d({x}, {weights}, stride={tuple(op.strides)}, dilation={tuple(op.dilation)}, "
                f"groups={op.groups}).movedim(1, -1)")  # fmt: skip
        return made if tensor_type(op.x).dtype == op.dtype else f"{made}.to({self.dtype(op.dtype)})"

    def Gather(self, op: t.Gather) -> str:
        x, i, size = self(op.x), self(op.indices), shape_of(op.x)[op.axis]
        inside = f"({i} >= 0) & ({i} < {size})"
        safe = f"{i}.clamp(0, {max(size - 1, 0)}).long()"
        if op.zipped:
            return f"torch.where({inside}, torch.take_along_dim({x}, {safe}, {op.axis}), {_python(op.fill)})"
        mask = (1,) * op.axis + shape_of(op.indices) + (1,) * (len(shape_of(op.x)) - op.axis - 1)
        return f"torch.where(({inside}).reshape({mask}), {x}[{':, ' * op.axis}{safe}], {_python(op.fill)})"

    def Sort(self, op: t.Sort) -> str:
        made = f"torch.sort({self(op.x)}, dim={op.axis}, descending={op.descending}, stable=True)"
        cut = f".narrow({op.axis}, 0, {op.count})" if op.count else ""
        both = f"sorted{len(self.names)}"
        self.lines.append(f"{both} = {made}")
        return f"({both}.values{cut}, {both}.indices{cut}.to(torch.int32))"


def _pads(low: Any, high: Any) -> list[int]:
    """As ``torch.nn.functional.pad`` takes them: the last dim first."""
    return [n for pair in zip(reversed(low), reversed(high), strict=True) for n in pair]


def _may_be_view(op: Op) -> bool:
    """Whether an operation gives memory of its operand in these libraries."""
    return isinstance(op, Arg | t.Reshape | t.Expand | t.Slice | t.Transpose | t.BitConvert | t.Flip | Result)


