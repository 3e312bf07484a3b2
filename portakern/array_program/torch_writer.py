"""A tensor program on torch tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import ManyType, Op
from portakern.ir.oracle import static
from portakern.ir.size import exact
from portakern.ir.tensor import tensor_type

from .scan import scan
from .writer import INFIX, Writer, is_product, letters, may_be_view, piece_slices, python_text, shape_of


class TorchWriter(Writer):
    library = "torch"

    def scope(self) -> dict[str, Any]:
        import torch
        import torch.nn.functional as F
        from torch._higher_order_ops import associative_scan

        return {"torch": torch, "F": F, "associative_scan": associative_scan, "scan": scan}

    def dtype(self, dtype: str) -> str:
        return f"torch.{DTYPES[dtype].long_name}"

    @property
    def device(self) -> str:
        """Where new arrays go: beside the first input."""
        first = next((a.name for a in self.program.args if tensor_type(a).shape), None)
        return f"device={first}.device" if first else "device='cpu'"

    def scalar(self, name: str, dtype: str) -> str:
        return f"torch.as_tensor({name}, dtype={self.dtype(dtype)})"

    def constant(self, value: Any, dtype: str) -> str:
        return python_text(value)

    def full(self, op: Op) -> str:
        of = tensor_type(op)
        return f"torch.tensor({python_text(self.known[op])}, dtype={self.dtype(of.dtype)}, {self.device})"

    def whole(self, op: Op) -> str:
        if op in self.known:
            return self.full(op)
        return f"{self(op)}.clone(memory_format=torch.contiguous_format)" if may_be_view(op) else f"{self(op)}.contiguous()"

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
        return f"F.pad({self(op.x)}, {_pads(op.low, op.high)}, value={python_text(op.value)})"

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

    def SegmentFold(self, op: t.SegmentFold) -> str:
        x, axis, size = self.array(op.x), op.axis, shape_of(op.x)[op.axis]
        kind, fn = DTYPES[tensor_type(op).dtype], {"any": "max", "all": "min"}.get(op.fn, op.fn)
        wide = self.dtype("f32" if kind.is_float and kind.bits < 32 else "i64" if not kind.is_float else kind.name)
        lines = f"{x}.movedim({axis}, 0).to({wide}).contiguous()"
        ends = f"ends{len(self.lines)}"
        self.lines.append(f"{ends} = torch.cummax({self(op.offsets)}.clamp(0, {size}), 0).values.long()")
        first = python_text(oracle.identity(fn, oracle.working_dtype(tensor_type(op).dtype)))
        if kind.is_float:
            made = f"torch.segment_reduce({lines}, '{fn}', offsets={ends}, initial={first})"
        else:  # which segment_reduce does not take
            row = f"torch.bucketize(torch.arange({size}, device={ends}.device), {ends}, right=True)"
            count = shape_of(op.offsets)[0] + 1
            how = {"sum": "sum", "prod": "prod", "max": "amax", "min": "amin"}[fn]
            rows = f"{row}.reshape(-1{', 1' * (len(shape_of(op)) - 1)}).expand_as({lines})"
            zeros = f"torch.full(({count}, *{lines}.shape[1:]), {int(first)}, dtype={wide}, device={ends}.device)"
            made = f"{zeros}.scatter_reduce(0, {rows}, {lines}, '{how}')[1:-1]"
        return f"{made}.movedim(0, {axis}).to({self.dtype(kind.name)})"

    def SegmentContract(self, op: t.SegmentContract) -> str:
        if op.by_rows:
            raise self.no_counterpart(op)
        made, ends = f"grouped{len(self.lines)}", f"sorted_{self(op.groups)}"
        x, w, dtype = self(op.lhs), self(op.rhs), self.dtype(op.dtype)
        self.lines += [
            f"{made} = torch.zeros({shape_of(op)}, dtype={dtype}, device={x}.device)",
            f"{ends} = torch.cummax({self(op.groups)}.clamp(0, {shape_of(op)[0]}), 0).values.tolist()",
            f"for g, (first, end) in enumerate(zip({ends}[:-1], {ends}[1:])):",
            f"    {made}[first:end] = ({x}[first:end] @ {w}[g]).to({dtype})",
        ]
        return made

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
            first = python_text(oracle.identity(op.fn, oracle.working_dtype(dtype)))
            rank = len(shape_of(op))
            low, high = [0] * rank, [0] * rank
            low[op.axis], high[op.axis] = 1, -1
            run = f"F.pad({run}, {_pads(low, high)}, value={first})"
        return f"torch.flip({run}, ({op.axis},))" if op.reverse else run

    def AssociativeScan(self, op: t.AssociativeScan) -> str:
        if 0 in shape_of(op):  # which torch refuses
            return f"{self.array(op.xs[op.number])}.clone()"
        join, xs = self.function(op.join), ", ".join(map(self.array, op.xs))
        how = f"{op.axis}, reverse={op.reverse}, combine_mode='generic'"
        return f"associative_scan({join}, ({xs},), {how})[{op.number}]"

    def Recur(self, op: t.Recur) -> str:
        assert isinstance(op.type, ManyType)
        lines: Any = op.type.types[len(op.init) :]
        shown = ", ".join(f"torch.empty({static(of.shape)}, dtype={self.dtype(of.dtype)}, {self.device})" for of in lines)
        return f"scan({self.step(op)}, {self.listed(op.init)}, {self.listed(op.xs)}, {op.length}, {op.reverse}, [{shown}])"

    def Windows(self, op: t.Windows) -> str:
        return _unfolded(self(op.x), zip(op.dims, op.window, op.strides, op.dilation, strict=True))

    def Assemble(self, op: t.Assemble) -> str:
        made = f"assembled{len(self.lines)}"
        kind = self.dtype(tensor_type(op).dtype)
        parts = [self.array(p) for p in op.parts]
        self.lines.append(f"{made} = torch.full({static(op.shape)}, {python_text(op.fill or 0)}, dtype={kind}, "
                          f"device={parts[0]}.device)")  # fmt: skip
        self.lines += [f"{made}[{place}] = {part}" for part, place in zip(parts, piece_slices(op), strict=True)]
        return made

    def WindowFold(self, op: t.WindowFold) -> str:
        dtype = tensor_type(op).dtype
        n = len(op.window) - 2
        middle = slice(1, -1)
        own = op.window[0] == op.window[-1] == op.strides[0] == op.strides[-1] == 1 and op.low == op.high and not op.low[0]
        half = all(2 * lo <= w for lo, w in zip(op.low, op.window, strict=True))
        if op.fn == "max" and 1 <= n <= 3 and own and half and DTYPES[dtype].is_float and not op.low[-1]:
            return (f"F.max_pool{n}d({self(op.x)}.movedim(-1, 1), {op.window[middle]}, {op.strides[middle]}, "
                    f"{op.low[middle]}, {op.dilation[middle]}).movedim(1, -1)")  # fmt: skip
        filler = python_text(oracle.identity(op.fn, oracle.working_dtype(dtype)))
        x = f"F.pad({self(op.x)}, {_pads(op.low, op.high)}, value={filler})"
        rank = len(op.window)
        x = _unfolded(x, zip(range(rank), op.window, op.strides, op.dilation, strict=True))
        return self._fold(op.fn, x, tuple(range(rank, 2 * rank)), dtype)

    def Contract(self, op: t.Contract) -> str:
        a, b = self(op.lhs), self(op.rhs)
        have = tensor_type(op.lhs).dtype
        narrow = DTYPES[have].is_int and DTYPES[have].bits <= 16 and DTYPES[op.dtype].is_int
        if narrow:  # exact; torch multiplies integers on the CPU only, one by one
            a, b = f"{a}.double()", f"{b}.double()"
        elif not DTYPES[have].is_float and have != op.dtype:
            a, b, have = f"{a}.to({self.dtype(op.dtype)})", f"{b}.to({self.dtype(op.dtype)})", op.dtype
        if DTYPES[have].bits == 8 and DTYPES[have].is_float:
            raise PortakernError("no-peer", "torch multiplies 8-bit floats only through functions for one vendor",
                                 hint="write one: FILE.py:FUNCTION")
        if op.precision == "tf32":
            self.notes.append("products of f32 in tf32 (float32_matmul_precision 'high')")
        elif op.precision != "ieee":
            self.notes.append(f"products in {have}, where the operator asks for {op.precision}")
        if is_product(op, True):
            made = f"{a} @ {b}"
        elif is_product(op, False):
            made = f"{a} @ {b}.mT"
        else:
            left, right, result = letters(op)
            made = f"torch.einsum('{left},{right}->{result}', {a}, {b})"
        if narrow:
            self.notes.append(f"products of {have} in f64, which holds their sums")
            return f"({made}).to(torch.int64).to({self.dtype(op.dtype)})"
        if have == op.dtype:
            return made
        self.notes.append(f"products of {have} are rounded to {have} before they are {op.dtype}, as torch's users write it")
        return f"({made}).to({self.dtype(op.dtype)})"

    def Convolve(self, op: t.Convolve) -> str:
        n = len(op.strides)
        x = f"{self(op.x)}.movedim(-1, 1)"
        how = f"stride={tuple(op.strides)}, dilation={tuple(op.dilation)}, groups={op.groups}"
        if op.transposed:
            made = self._transposed(op, x, how)
        else:
            weights = f"{self(op.w)}.permute({(n + 1, n, *range(n))})"
            x = x if op.low == op.high else f"F.pad({x}, {_pads(op.low, op.high)})"
            pads = f", padding={tuple(op.low)}" if op.low == op.high else ""
            made = f"F.conv{n}d({x}, {weights}, {how}{pads}).movedim(1, -1)"
        return made if tensor_type(op.x).dtype == op.dtype else f"{made}.to({self.dtype(op.dtype)})"

    def _transposed(self, op: t.Convolve, x: str, how: str) -> str:
        """Torch takes weights [C, O / groups, *window], and pads that are equal on both sides: what is too much is cut off."""
        n, (*window, channels, outputs) = len(op.strides), shape_of(op.w)
        each = exact(outputs, op.groups)
        split = (*window, channels, op.groups, each)
        order = (n + 1, n, n + 2, *range(n))
        joined = (channels * op.groups, each, *window)
        weights = f"{self(op.w)}.reshape({split}).permute({order}).reshape({joined})"
        whole = f"F.conv_transpose{n}d({x}, {weights}, {how})"
        cut = "".join(f", {lo}:{lo + size}" for lo, size in zip(op.low, shape_of(op)[1:-1], strict=True))
        return f"{whole}[:, :{cut}].movedim(1, -1)"

    def Gather(self, op: t.Gather) -> str:
        x, i, size = self(op.x), self(op.indices), shape_of(op.x)[op.axis]
        if size == 0:
            dtype = self.dtype(tensor_type(op.x).dtype)
            return f"torch.full({shape_of(op)}, {python_text(op.fill)}, dtype={dtype}, device={i}.device)"
        inside = f"({i} >= 0) & ({i} < {size})"
        safe = f"{i}.clamp(0, {max(size - 1, 0)}).long()"
        if op.zipped:
            return f"torch.where({inside}, torch.take_along_dim({x}, {safe}, {op.axis}), {python_text(op.fill)})"
        mask = (1,) * op.axis + shape_of(op.indices) + (1,) * (len(shape_of(op.x)) - op.axis - 1)
        return f"torch.where(({inside}).reshape({mask}), {x}[{':, ' * op.axis}{safe}], {python_text(op.fill)})"

    def Scatter(self, op: t.Scatter) -> str:
        if op.mode == "set":  # of several, torch takes any
            raise self.no_counterpart(op)
        axis, size, i = op.axis, shape_of(op.x)[op.axis], self(op.indices)
        how = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[op.mode]
        kind = DTYPES[tensor_type(op).dtype]
        wide = self.dtype("f32" if kind.is_float and kind.bits < 32 else kind.name)
        x, updates = (f"{self(v)}.to({wide})" for v in (op.x, op.updates))
        # Those outside go to one more element, which is cut off.
        spare = f"torch.cat([{x}, {x}.new_zeros({(*shape_of(op.x)[:axis], 1, *shape_of(op.x)[axis + 1 :])})], {axis})"
        safe = f"torch.where(({i} >= 0) & ({i} < {size}), {i}, {size}).long()"
        made = f"{spare}.scatter_reduce({axis}, {safe}, {updates}, '{how}').narrow({axis}, 0, {size})"
        return f"{made}.to({self.dtype(tensor_type(op).dtype)})"

    def Sort(self, op: t.Sort) -> str:
        made = f"torch.sort({self(op.x)}, dim={op.axis}, descending={op.descending}, stable=True)"
        cut = f".narrow({op.axis}, 0, {op.count})" if op.count else ""
        both = f"sorted{len(self.names)}"
        self.lines.append(f"{both} = {made}")
        return f"({both}.values{cut}, {both}.indices{cut}.to(torch.int32))"


def _unfolded(x: str, dims: Iterable[tuple[int, int, int, int]]) -> str:
    """``x`` with windows of ``dims``, each a dim with window, stride and dilation."""
    for dim, window, stride, dilation in dims:
        if (window, stride) == (1, 1):
            x += ".unsqueeze(-1)"  # which no elements allow as well
            continue
        x += f".unfold({dim}, {dilation * (window - 1) + 1}, {stride})"
        x += f"[..., ::{dilation}]" if dilation > 1 else ""
    return x


def _pads(low: Any, high: Any) -> list[int]:
    """As ``torch.nn.functional.pad`` takes them: the last dim first."""
    return [n for pair in zip(reversed(low), reversed(high), strict=True) for n in pair]
