"""Tile programs written by hand: the shapes of kernels that every emitter must be able to say."""

from __future__ import annotations

from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program, verify_program
from portakern.ir.schedule import Schedule
from portakern.ir.size import Size, Sym
from portakern.ir.tile import Axis, BufferType, Dot, Kernel, Mask, Reduce, Start


def _program(name: str, family: str, axes: tuple[Axis, ...], b: Builder, args: tuple[Arg, ...], outputs: set[str],
             warps: int = 4, stages: int = 1) -> Program:
    schedule = Schedule(tuple((a.name, a.tile) for a in axes), stages=stages, warps=warps)
    kernel = Kernel(name, Block(args, b.ops), family, axes, schedule)
    arrays = tuple(Array(a.name, a.of, "output" if a.name in outputs else "input") for a in args)  # type: ignore[arg-type]
    program = Program(name, arrays, (kernel,))
    verify_program(program)
    return program


def add_bias(rows: Size = 37, cols: int = 1000, dtype: str = "bf16", tile: tuple[int, int] = (8, 1024)) -> Program:
    """y = relu(x + b), x [rows, cols], b [cols]."""
    axes = (Axis("m", "grid", rows, tile[0]), Axis("n", "grid", cols, tile[1]))
    x, bias, y = (Arg(n, BufferType(s, dtype)) for n, s in (("x", (rows, cols)), ("b", (cols,)), ("y", (rows, cols))))
    b = Builder(axes)
    v = b.binary("add", b.cast(b.load(x, ["m", "n"]), "f32"), b.cast(b.load(bias, ["n"]), "f32"))
    v = b.binary("max", v, b.const(0.0, "f32"))
    b.store(b.cast(v, dtype), y, ["m", "n"])
    return _program("add_bias", "elementwise", axes, b, (x, bias, y), {"y"})


def transpose(rows: int = 70, cols: int = 45, dtype: str = "f32", tile: tuple[int, int] = (32, 32)) -> Program:
    """y[n, m] = x[m, n]."""
    axes = (Axis("m", "grid", rows, tile[0]), Axis("n", "grid", cols, tile[1]))
    x, y = Arg("x", BufferType((rows, cols), dtype)), Arg("y", BufferType((cols, rows), dtype))
    b = Builder(axes)
    b.store(b.permute(b.load(x, ["m", "n"]), ["n", "m"]), y, ["n", "m"])
    return _program("transpose", "transpose", axes, b, (x, y), {"y"})


def softmax(rows: Size = 5, cols: int = 1000, dtype: str = "bf16", tile: tuple[int, int] = (2, 1024)) -> Program:
    """One pass: a row fits in a tile.  ``tile[0] == 1`` gives one row per grid point and scalar statistics."""
    axes = (Axis("m", "grid", rows, tile[0]), Axis("n", "whole", cols, tile[1]))
    x, y = (Arg(n, BufferType((rows, cols), dtype)) for n in ("x", "y"))
    b = Builder(axes)
    v = b.cast(b.load(x, ["m", "n"], pad=float("-inf")), "f32")
    top = b.add(Reduce("max", v, "n"))
    e = b.unary("exp", b.binary("sub", v, top))
    masked = b.add(Mask(e, "n", 0.0)) if axes[1].ragged else e
    total = b.add(Reduce("sum", masked, "n"))
    b.store(b.cast(b.binary("div", e, total), dtype), y, ["m", "n"])
    return _program("softmax", "rows", axes, b, (x, y), {"y"})


def softmax_long(rows: Size = 3, cols: Size = 2500, dtype: str = "f32", tile: tuple[int, int] = (1, 1024)) -> Program:
    """Online: two loops over the row, the second storing."""
    axes = (Axis("m", "grid", rows, tile[0]), Axis("n", "loop", cols, tile[1]))
    x, y = (Arg(n, BufferType((rows, cols), dtype)) for n in ("x", "y"))
    b = Builder(axes)
    row = b.dims("m")

    def tile_of_x() -> Op:
        return b.cast(b.load(x, ["m", "n"], pad=float("-inf")), "f32")

    def guarded(top: Op) -> Op:  # -inf - -inf would be NaN: a row of -inf so far is shifted by 0 instead
        dead = b.compare("eq", top, b.const(float("-inf"), "f32"))
        return b.select(dead, b.const(0.0, "f32"), top)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        top, total = carried
        v = tile_of_x()
        new = b.binary("max", top, b.add(Reduce("max", v, "n")))
        shift = guarded(new)
        e = b.unary("exp", b.binary("sub", v, shift))
        e = b.add(Mask(e, "n", 0.0)) if axes[1].ragged else e
        scaled = b.binary("mul", total, b.unary("exp", b.binary("sub", top, shift)))
        return new, b.binary("add", scaled, b.add(Reduce("sum", e, "n")))

    def join(left: tuple[Op, ...], right: tuple[Op, ...]) -> tuple[Op, ...]:
        top = b.binary("max", left[0], right[0])
        shift = guarded(top)
        parts = [b.binary("mul", s[1], b.unary("exp", b.binary("sub", s[0], shift))) for s in (left, right)]
        return top, b.binary("add", *parts)

    init = [("top", b.full(float("-inf"), "f32", row)), ("total", b.full(0.0, "f32", row))]
    top, total = b.loop("n", init, step, combine=join)
    shift = guarded(top)

    def out(_: tuple[Op, ...]) -> tuple[Op, ...]:
        e = b.unary("exp", b.binary("sub", tile_of_x(), shift))
        b.store(b.cast(b.binary("div", e, total), dtype), y, ["m", "n"])
        return ()

    b.loop("n", [], out)
    return _program("softmax_long", "rows", axes, b, (x, y), {"y"})


def matmul_bias(m: Size = 100, n: int = 72, k: int = 50, dtype: str = "bf16",
                tile: tuple[int, int, int] = (64, 64, 32), batch: int = 0) -> Program:
    """c = gelu(a @ w + bias), tanh form, optionally with a leading batch dim; bias is f32."""
    lead = (Axis("b", "grid", batch, 1),) if batch else ()
    axes = (*lead, Axis("m", "grid", m, tile[0]), Axis("n", "grid", n, tile[1]), Axis("k", "loop", k, tile[2]))
    first, index = ((batch,), ["b"]) if batch else ((), [])
    a, w = Arg("a", BufferType((*first, m, k), dtype)), Arg("w", BufferType((*first, k, n), dtype))
    bias, c = Arg("bias", BufferType((n,), "f32")), Arg("c", BufferType((*first, m, n), dtype))
    b = Builder(axes)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        left, right = b.load(a, [*index, "m", "k"], pad=0.0), b.load(w, [*index, "k", "n"], pad=0.0)
        return (b.add(Dot(left, right, carried[0], "k")),)

    def join(left: tuple[Op, ...], right: tuple[Op, ...]) -> tuple[Op, ...]:
        return (b.binary("add", left[0], right[0]),)

    (acc,) = b.loop("k", [("acc", b.full(0.0, "f32", b.dims("m", "n")))], step, combine=join)
    x = b.binary("add", acc, b.load(bias, ["n"]))
    cube = b.binary("mul", b.binary("mul", x, x), x)
    inner = b.binary("add", x, b.binary("mul", b.const(0.044715, "f32"), cube))
    gate = b.unary("tanh", b.binary("mul", b.const(0.7978845608028654, "f32"), inner))
    y = b.binary("mul", b.binary("mul", b.const(0.5, "f32"), x), b.binary("add", b.const(1.0, "f32"), gate))
    b.store(b.cast(y, dtype), c, [*index, "m", "n"])
    return _program("matmul_bias", "contraction", axes, b, (a, w, bias, c), {"c"}, stages=2)


def attention(batch: int = 2, heads: int = 2, groups: int = 2, queries: Size = 50, keys: Size = 50, width: int = 64,
              dtype: str = "bf16", causal: bool = True, tile: tuple[int, int] = (32, 32)) -> Program:
    """o = softmax(q k^T / sqrt(width)) v with ``groups`` query heads per key head, causal from the end of the keys."""
    axes = (Axis("b", "grid", batch, 1), Axis("h", "grid", heads, 1), Axis("g", "grid", groups, 1),
            Axis("m", "grid", queries, tile[0]), Axis("n", "loop", keys, tile[1]),
            Axis("k", "whole", width, _pow2(width)), Axis("d", "whole", width, _pow2(width)))
    q, o = (Arg(x, BufferType((batch, heads, groups, queries, width), dtype)) for x in ("q", "o"))
    key, value = (Arg(x, BufferType((batch, heads, keys, width), dtype)) for x in ("k", "v"))
    b = Builder(axes)
    rows, acc_dims, score_dims = b.dims("m"), b.dims("m", "d"), b.dims("m", "n")
    offset: Size = keys - queries
    q_tile = b.load(q, ["b", "h", "g", "m", "k"], pad=0.0)
    hi = None
    if causal:
        first = b.add(Start("m"))
        hi = b.binary("add", first, b.scalar_size(offset + tile[0]))

    def guarded(top: Op) -> Op:
        return b.select(b.compare("eq", top, b.const(float("-inf"), "f32")), b.const(0.0, "f32"), top)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        top, total, acc = carried
        k_tile = b.load(key, ["b", "h", "n", "k"], pad=0.0)
        s = b.add(Dot(q_tile, k_tile, b.full(0.0, "f32", score_dims), "k"))
        s = b.binary("mul", s, b.const(width**-0.5, "f32"))
        if causal:
            limit = b.binary("add", b.coord("m"), b.scalar_size(offset))
            s = b.select(_causal(b, limit, score_dims), s, b.const(float("-inf"), "f32"))
        if axes[4].ragged:
            s = b.add(Mask(s, "n", float("-inf")))
        new = b.binary("max", top, b.add(Reduce("max", s, "n")))
        shift = guarded(new)
        p = b.unary("exp", b.binary("sub", s, b.fit(shift, score_dims)))
        scale = b.unary("exp", b.binary("sub", top, shift))
        total = b.binary("add", b.binary("mul", total, scale), b.add(Reduce("sum", p, "n")))
        v_tile = b.load(value, ["b", "h", "n", "d"], pad=0.0)
        acc = b.add(Dot(b.cast(p, dtype), v_tile, b.binary("mul", acc, b.fit(scale, acc_dims)), "n"))
        return new, total, acc

    init = [("top", b.full(float("-inf"), "f32", rows)), ("total", b.full(0.0, "f32", rows)),
            ("acc", b.full(0.0, "f32", acc_dims))]
    _, total, acc = b.loop("n", init, step, hi=hi)
    b.store(b.cast(b.binary("div", acc, b.fit(total, acc_dims)), dtype), o, ["b", "h", "g", "m", "d"])
    return _program("attention", "attention", axes, b, (q, key, value, o), {"o"})


def _causal(b: Builder, limit: Op, dims: tuple[tuple[str, int], ...]) -> Op:
    return b.compare("le", b.fit(b.coord("n"), dims), b.fit(limit, dims))


def _pow2(n: int) -> int:
    return max(16, 1 << (n - 1).bit_length())


def column_sums(rows: Size = 33, cols: int = 70, dtype: str = "f32", tile: tuple[int, int] = (16, 32)) -> Program:
    """y[n] = sum over m of x[m, n]: a reduction over the axis that is not contiguous, walked in tiles."""
    axes = (Axis("n", "grid", cols, tile[1]), Axis("m", "loop", rows, tile[0]))
    x, y = Arg("x", BufferType((rows, cols), dtype)), Arg("y", BufferType((cols,), dtype))
    b = Builder(axes)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        v = b.cast(b.load(x, ["m", "n"], pad=0.0), "f32")
        return (b.binary("add", carried[0], b.add(Reduce("sum", v, "m"))),)

    (total,) = b.loop("m", [("total", b.full(0.0, "f32", b.dims("n")))], step)
    b.store(b.cast(total, dtype), y, ["n"])
    return _program("column_sums", "rows", axes, b, (x, y), {"y"})


def all_samples() -> dict[str, Program]:
    """Every sample by name, among them open dims, one-row tiles, ragged and tiny extents."""
    rows = Sym.named("M")
    return {
        "add_bias": add_bias(), "add_bias_open": add_bias(rows), "add_bias_f32": add_bias(dtype="f32"),
        "transpose": transpose(), "softmax": softmax(), "softmax_row": softmax(tile=(1, 1024)),
        "softmax_f32": softmax(dtype="f32"), "softmax_open": softmax(rows), "softmax_long": softmax_long(),
        "softmax_long_open": softmax_long(rows, Sym.named("N")), "matmul_bias": matmul_bias(),
        "matmul_bias_f32": matmul_bias(dtype="f32"), "matmul_batched": matmul_bias(batch=3),
        "matmul_open": matmul_bias(rows), "matmul_tiny": matmul_bias(1, 1, 1), "attention": attention(),
        "attention_full": attention(causal=False), "attention_long_keys": attention(queries=17, keys=83),
        "attention_f32": attention(dtype="f32", width=80), "column_sums": column_sums(),
    }
