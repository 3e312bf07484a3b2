"""A tensor program as a function of jax arrays: what a user of jax would have written, for its compiler to fuse."""

from __future__ import annotations

from typing import Any

from portakern.dtypes import DTYPES
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.oracle import static
from portakern.ir.tensor import tensor_type

from .numpy_writer import NumpyWriter
from .writer import INFIX, letters, piece_slices, python_text, shape_of

_NARROWED = {"i64": "i32", "u64": "u32", "f64": "f32"}
"""What jax holds in fewer bits unless it is told otherwise."""

_PRECISION = {"ieee": "HIGHEST", "tf32": "HIGH"}


class JaxWriter(NumpyWriter):
    """The words of numpy, in which jax.numpy is written, where they are the same."""

    library = "jax"
    head = ""

    def scope(self) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp
        import numpy as np

        return {"np": np, "jnp": jnp, "jax": jax}

    def dtype(self, dtype: str) -> str:
        return super().dtype(_NARROWED.get(dtype, dtype))

    def scalar(self, name: str, dtype: str) -> str:
        return f"jnp.asarray({name}, {self.dtype(dtype)})"

    def whole(self, op: Op) -> str:
        return f"jnp.asarray({self(op)})"

    def Iota(self, op: t.Iota) -> str:
        return f"jax.lax.broadcasted_iota({self.dtype(op.dtype)}, {static(op.shape)}, {op.axis})"

    def RandomBits(self, op: t.RandomBits) -> str:
        raise self.no_counterpart(op)

    def Map(self, op: t.Map) -> str:
        args = [self(a) for a in op.args]
        kind = DTYPES[tensor_type(op.args[-1]).dtype]
        if op.fn == "select":
            return f"jnp.where({', '.join(args)})"
        if op.fn in INFIX:
            return f"{args[0]} {INFIX[op.fn]} {args[1]}"
        if op.fn == "div":
            return f"{args[0]} / {args[1]}" if kind.is_float else f"jax.lax.div({args[0]}, {args[1]})"
        if op.fn in ("erf", "rsqrt"):
            return f"jax.lax.{op.fn}({args[0]})"
        if op.fn == "sigmoid":
            return f"jax.nn.sigmoid({args[0]})"
        if op.fn == "reciprocal":
            return f"{self.constant(1, kind.name)} / {args[0]}"
        words = {"neg": "negative", "abs": "abs", "round": "rint", "not": "invert", "max": "maximum", "min": "minimum",
                 "rem": "remainder", "floordiv": "floor_divide"}  # fmt: skip
        return f"jnp.{words.get(op.fn, op.fn)}({', '.join(args)})"

    def BitConvert(self, op: t.BitConvert) -> str:
        return f"jax.lax.bitcast_convert_type({self(op.x)}, {self.dtype(op.dtype)})"

    def Convert(self, op: t.Convert) -> str:
        return f"{self.array(op.x)}.astype({self.dtype(op.dtype)})"

    def Expand(self, op: t.Expand) -> str:
        return f"jnp.broadcast_to({self.array(op.x)}.reshape({self._placed(op)}), {static(op.shape)})"

    def PadWith(self, op: t.PadWith) -> str:
        return super().PadWith(op).replace("np.pad", "jnp.pad", 1)

    def Concat(self, op: t.Concat) -> str:
        return super().Concat(op).replace("np.", "jnp.", 1)

    def Flip(self, op: t.Flip) -> str:
        return f"jnp.flip({self(op.x)}, {op.axes})"

    def Fold(self, op: t.Fold) -> str:
        x, kind = self.array(op.x), self.dtype(tensor_type(op).dtype)
        more = f", dtype={kind}" if op.fn in ("sum", "prod") else ""
        return f"jnp.{op.fn}({x}, axis={tuple(op.axes)}{more})"

    def SegmentFold(self, op: t.SegmentFold) -> str:
        size, count = shape_of(op.x)[op.axis], shape_of(op)[op.axis]
        fn = {"any": "max", "all": "min"}.get(op.fn, op.fn)
        ends = f"jax.lax.cummax(jnp.clip({self(op.offsets)}, 0, {size}))"
        rows = f"jnp.searchsorted({ends}, jnp.arange({size}), side='right') - 1"
        made = f"jax.ops.segment_{fn}(jnp.moveaxis({self.array(op.x)}, {op.axis}, 0), {rows}, {count}, indices_are_sorted=True)"
        return f"jnp.moveaxis({made}, 0, {op.axis})"

    def SegmentContract(self, op: t.SegmentContract) -> str:
        if op.by_rows or op.precision not in _PRECISION:
            raise self.no_counterpart(op)
        x, w, groups, rows = self(op.lhs), self(op.rhs), self(op.groups), shape_of(op)[0]
        ends = f"jax.lax.cummax(jnp.clip({groups}, 0, {rows}))"
        counts = f"jnp.diff({ends}, prepend=0).astype(np.int32)"  # the rows before the first group are one of zeros
        matrices = f"jnp.concatenate([jnp.zeros_like({w}, shape=(1, *{w}.shape[1:])), {w}])"
        precision = f", precision='{_PRECISION[op.precision].lower()}'" if tensor_type(op.lhs).dtype == "f32" else ""
        return f"jax.lax.ragged_dot({x}, {matrices}, {counts}, preferred_element_type={self.dtype(op.dtype)}{precision})"

    def ArgFold(self, op: t.ArgFold) -> str:
        return f"jnp.arg{op.fn}({self(op.x)}, {op.axis}).astype({self.dtype(tensor_type(op).dtype)})"

    def Cumulate(self, op: t.Cumulate) -> str:
        words = {"sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin"}
        x, kind = self(op.x), self.dtype(tensor_type(op).dtype)
        run = f"jax.lax.{words[op.fn]}({x}.astype({kind}), axis={op.axis}, reverse={op.reverse})"
        if not op.exclusive:
            return run
        rank, size = len(shape_of(op)), shape_of(op)[op.axis]
        pads = [(0, 0)] * rank
        pads[op.axis] = (0, 1) if op.reverse else (1, 0)
        first = oracle.identity(op.fn, oracle.working_dtype(tensor_type(op).dtype))
        start = 1 if op.reverse else 0
        return (f"jax.lax.slice_in_dim(jnp.pad({run}, {pads}, constant_values={first!r}), {start}, {start + size}, "
                f"axis={op.axis})")  # fmt: skip

    def AssociativeScan(self, op: t.AssociativeScan) -> str:
        join, xs = self.function(op.join), ", ".join(map(self.array, op.xs))
        return f"jax.lax.associative_scan({join}, ({xs},), axis={op.axis}, reverse={op.reverse})[{op.number}]"

    def Recur(self, op: t.Recur) -> str:
        both = f"looped{len(self.names)}"
        step, init = self.step(op), f"({''.join(f'{self.carried(c)}, ' for c in op.init)})"
        self.lines.append(f"{both} = jax.lax.scan({step}, {init}, {self.listed(op.xs)}, {op.length}, {op.reverse})")
        return f"(*{both}[0], *{both}[1])"

    def carried(self, op: Op) -> str:
        return f"jnp.asarray({self.array(op)}, {self.dtype(tensor_type(op).dtype)})"

    def Contract(self, op: t.Contract) -> str:
        left, right, result = letters(op)
        have, made = tensor_type(op.lhs).dtype, self.dtype(op.dtype)
        if op.precision not in _PRECISION:
            raise self.no_counterpart(op)
        precision = f", precision='{_PRECISION[op.precision].lower()}'" if have == "f32" else ""
        return (f"jnp.einsum('{left},{right}->{result}', {self(op.lhs)}, {self(op.rhs)}, "
                f"preferred_element_type={made}{precision})")  # fmt: skip

    def Gather(self, op: t.Gather) -> str:
        x, i, size = self(op.x), self(op.indices), shape_of(op.x)[op.axis]
        inside, fill = f"({i} >= 0) & ({i} < {size})", self.constant(op.fill, tensor_type(op.x).dtype)
        if size == 0:
            return f"jnp.full({shape_of(op)}, {fill})"
        safe = f"jnp.clip({i}, 0, {max(size - 1, 0)})"
        if op.zipped and shape_of(op.indices)[op.axis] == 1:
            # One element of each row: a selection in a sum, which XLA fuses with what else reads the row.
            places = f"jax.lax.broadcasted_iota(np.int32, {shape_of(op.x)}, {op.axis})"
            picked = f"jnp.where({places} == {safe}, {x}, np.zeros((), {x}.dtype))"
            return f"jnp.where({inside}, jnp.sum({picked}, axis={op.axis}, keepdims=True), {fill})"
        if op.zipped:
            return f"jnp.where({inside}, jnp.take_along_axis({x}, {safe}, {op.axis}), {fill})"
        mask = (1,) * op.axis + shape_of(op.indices) + (1,) * (len(shape_of(op.x)) - op.axis - 1)
        return f"jnp.where(({inside}).reshape({mask}), jnp.take({x}, {safe}, {op.axis}), {fill})"

    def Windows(self, op: t.Windows) -> str:
        x = self(op.x)
        each = zip(op.dims, op.window, op.strides, op.dilation, strict=True)
        for dim, window, stride, dilation in each:
            places = (f"np.arange({shape_of(op)[dim]})[:, None] * {stride} + np.arange({window}) * {dilation}")
            x = f"jnp.moveaxis(jnp.take({x}, {places}, {dim}), {dim + 1}, -1)"
        return x

    def Assemble(self, op: t.Assemble) -> str:
        kind = self.dtype(tensor_type(op).dtype)
        made = f"jnp.full({static(op.shape)}, {python_text(op.fill or 0)}, {kind})"
        for part, place in zip(op.parts, piece_slices(op), strict=True):
            made += f".at[{place}].set({self.array(part)})"
        return made

    def Convolve(self, op: t.Convolve) -> str:
        n, w = len(op.strides), self(op.w)
        spatial = "DHW"[3 - n :]
        pads, between = list(zip(op.low, op.high, strict=True)), (1,) * n
        strides = tuple(op.strides)
        if op.transposed:
            reach = [d * (k - 1) for d, k in zip(op.dilation, shape_of(op.w), strict=False)]
            pads = [(r - lo, r - hi) for r, (lo, hi) in zip(reach, pads, strict=True)]
            strides, between, w = between, strides, f"jnp.flip({w}, {tuple(range(n))})"
        numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
        return (f"jax.lax.conv_general_dilated({self(op.x)}, {w}, {strides}, {pads}, lhs_dilation={between}, "
                f"rhs_dilation={tuple(op.dilation)}, dimension_numbers={numbers}, feature_group_count={op.groups}, "
                f"preferred_element_type={self.dtype(op.dtype)})")  # fmt: skip

    def WindowFold(self, op: t.WindowFold) -> str:
        kind = self.dtype(tensor_type(op).dtype)
        words = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "bitwise_or", "all": "bitwise_and"}
        first = python_text(oracle.identity(op.fn, oracle.working_dtype(tensor_type(op).dtype)))
        return (f"jax.lax.reduce_window({self.array(op.x)}, np.array({first}, {kind}), jax.lax.{words[op.fn]}, "
                f"{tuple(op.window)}, {tuple(op.strides)}, {list(zip(op.low, op.high, strict=True))}, "
                f"window_dilation={tuple(op.dilation)})")  # fmt: skip

    def Scatter(self, op: t.Scatter) -> str:
        raise self.no_counterpart(op)

    Sort = Scatter
