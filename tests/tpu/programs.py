"""Tile programs beyond the shared samples: every operation, every reduction, views, several outputs and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Op, Result
from portakern.ir.program import Array, Program, verify_program
from portakern.ir.schedule import Schedule
from portakern.ir.tile import (
    ArgReduce,
    Axis,
    BufferType,
    Dot,
    Index,
    Kernel,
    Mask,
    Reduce,
    TileType,
)

Answer = Callable[[Mapping[str, np.ndarray]], tuple[np.ndarray, ...]]
Sample = tuple[Program, Answer]


def program(name: str, axes: tuple[Axis, ...], b: Builder, args: tuple[Arg, ...], outputs: tuple[str, ...]) -> Program:
    schedule = Schedule(tuple((a.name, a.tile) for a in axes))
    kernel = Kernel(name, Block(args, b.ops), "elementwise", axes, schedule)
    roles = {a.name: "output" if a.name in outputs else "scalar" if isinstance(a.type, TileType) else "input" for a in args}
    found = Program(name, tuple(Array(a.name, a.of, roles[a.name]) for a in args), (kernel,))  # type: ignore[arg-type]
    verify_program(found)
    return found


def buffer(name: str, *shape: int, dtype: str = "f32") -> Arg:
    return Arg(name, BufferType(shape, dtype))


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil,
    "round": np.round, "sign": np.sign,
}  # fmt: skip

POSITIVE = {"log": np.log, "log2": np.log2, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
            "reciprocal": lambda x: 1 / x}

BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
}  # fmt: skip

INTEGER: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "rem": np.mod, "floordiv": np.floor_divide, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def functions(positive: bool = False) -> Sample:
    """Every function of one value, each its own output."""
    table = POSITIVE if positive else UNARY
    axes = (Axis("m", "grid", 20, 8), Axis("n", "grid", 200, 256))
    x, outs = buffer("x", 20, 200), [buffer(f"y_{fn}", 20, 200) for fn in table]
    b = Builder(axes)
    v = b.load(x, ["m", "n"])
    v = b.binary("add", b.unary("abs", v), b.const(0.1, "f32")) if positive else v
    for fn, out in zip(table, outs, strict=True):
        b.store(b.unary(fn, v), out, ["m", "n"])
    shifted: Callable[[np.ndarray], np.ndarray] = (lambda x: np.abs(x) + 0.1) if positive else (lambda x: x)
    return (program("functions", axes, b, (x, *outs), tuple(o.name for o in outs)),
            lambda a: tuple(f(shifted(a["x"])) for f in table.values()))


def operators(dtype: str = "f32") -> Sample:
    """Every function of two values."""
    table = BINARY if dtype == "f32" else INTEGER
    axes = (Axis("m", "grid", 20, 8), Axis("n", "grid", 200, 256))
    x, y = buffer("x", 20, 200, dtype=dtype), buffer("y", 200, dtype=dtype)
    outs = [buffer(f"z_{fn}", 20, 200, dtype=dtype) for fn in table]
    b = Builder(axes)
    left, right = b.load(x, ["m", "n"]), b.load(y, ["n"])
    if dtype == "i32":  # never divide by zero
        right = b.binary("or", right, b.const(1, "i32"))
    for fn, out in zip(table, outs, strict=True):
        b.store(b.binary(fn, left, right), out, ["m", "n"])

    def answer(a: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        if dtype == "f32":
            return tuple(f(a["x"], a["y"]) for f in table.values())
        p, q = a["x"].astype(np.int64), a["y"].astype(np.int64) | 1
        return tuple(f(p, np.broadcast_to(q, p.shape)) for f in table.values())

    return program("operators", axes, b, (x, y, *outs), tuple(o.name for o in outs)), answer


def booleans() -> Sample:
    """Arrays of booleans, logic on them, and a choice between masks."""
    axes = (Axis("m", "grid", 20, 8), Axis("n", "grid", 200, 256))
    x, flag = buffer("x", 20, 200), buffer("flag", 20, 200, dtype="bool")
    out, both = buffer("out", 20, 200), buffer("both", 20, 200, dtype="bool")
    b = Builder(axes)
    v, f = b.load(x, ["m", "n"]), b.load(flag, ["m", "n"])
    positive, small = b.compare("gt", v, b.const(0.0, "f32")), b.compare("lt", v, b.const(1.0, "f32"))
    chosen = b.select(f, positive, small)
    b.store(b.select(chosen, v, b.const(7.0, "f32")), out, ["m", "n"])
    b.store(b.binary("xor", b.unary("not", chosen), f), both, ["m", "n"])

    def answer(a: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        chosen = np.where(a["flag"] != 0, a["x"] > 0, a["x"] < 1)
        return np.where(chosen, a["x"], 7.0), ~chosen ^ (a["flag"] != 0)

    return program("booleans", axes, b, (x, flag, out, both), ("out", "both")), answer


REDUCTIONS: dict[str, tuple[float, Callable[..., np.ndarray]]] = {
    "sum": (0.0, np.sum), "max": (float("-inf"), np.max), "min": (float("inf"), np.min), "prod": (1.0, np.prod),
}  # fmt: skip


def reductions(axis: str, loop: bool) -> Sample:
    """Every reduction along rows (n) or columns (m), in one block or over several."""
    whole, walked = ("whole", 512) if axis == "n" else ("whole", 64), (128 if axis == "n" else 16)
    extent = {"m": 37, "n": 300}
    tile = {"m": 8, "n": 128} | {axis: walked if loop else whole[1]}
    kinds = {"m": "grid", "n": "grid"} | {axis: "loop" if loop else "whole"}
    axes = tuple(Axis(a, kinds[a], extent[a], tile[a]) for a in sorted("mn", key=lambda a: a == axis))
    x = buffer("x", 37, 300)
    kept = "m" if axis == "n" else "n"
    outs = [buffer(f"y_{fn}", extent[kept]) for fn in REDUCTIONS]
    b = Builder(axes)

    def part(fn: str, identity: float) -> Op:
        v = b.load(x, ["m", "n"])
        v = b.binary("mul", v, b.const(0.5, "f32")) if fn == "prod" else v
        return b.add(Reduce(fn, b.add(Mask(v, axis, identity)), axis))

    joins = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}
    if loop:
        def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
            return tuple(b.binary(joins[fn], c, part(fn, identity))
                         for (fn, (identity, _)), c in zip(REDUCTIONS.items(), carried, strict=True))

        init = [(fn, b.full(identity, "f32", b.dims(kept))) for fn, (identity, _) in REDUCTIONS.items()]
        results = b.loop(axis, init, step)
    else:
        results = tuple(part(fn, identity) for fn, (identity, _) in REDUCTIONS.items())
    for value, out in zip(results, outs, strict=True):
        b.store(value, out, [kept])
    number = 1 if axis == "n" else 0
    return (program("reductions", axes, b, (x, *outs), tuple(o.name for o in outs)),
            lambda a: tuple(f(a["x"] * (0.5 if fn == "prod" else 1.0), axis=number) for fn, (_, f) in REDUCTIONS.items()))


def extremes(axis: str) -> Sample:
    """The largest value and where it is."""
    axes = (Axis("m", "grid", 20, 8), Axis("n", "whole", 300, 384)) if axis == "n" else (
        Axis("n", "grid", 300, 128), Axis("m", "whole", 20, 32))
    kept = {"n": "m", "m": "n"}[axis]
    x = buffer("x", 20, 300)
    value, where = buffer("value", 20 if kept == "m" else 300), buffer("where", 20 if kept == "m" else 300, dtype="i32")
    b = Builder(axes)
    found = b.add(ArgReduce("max", b.load(x, ["m", "n"], pad=float("-inf")), axis))
    b.store(b.add(Result(found, 0)), value, [kept])
    b.store(b.add(Result(found, 1)), where, [kept])
    number = 1 if axis == "n" else 0
    return (program("extremes", axes, b, (x, value, where), ("value", "where")),
            lambda a: (a["x"].max(number), a["x"].argmax(number)))


def middle_sum() -> Sample:
    """y[a, c] = sum over b and d of x[a, b, c, d]: nested loops, and an axis walked one by one inside the array."""
    axes = (Axis("c", "grid", 20, 8), Axis("a", "grid", 3, 1), Axis("b", "loop", 5, 1), Axis("d", "loop", 300, 128))
    x, y = buffer("x", 3, 5, 20, 300), buffer("y", 3, 20)
    b = Builder(axes)

    def outer(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        def inner(inside: tuple[Op, ...]) -> tuple[Op, ...]:
            v = b.load(x, ["a", "b", "c", "d"], pad=0.0)
            return (b.binary("add", inside[0], b.add(Reduce("sum", v, "d"))),)

        return b.loop("d", [("total", carried[0])], inner)

    (total,) = b.loop("b", [("total", b.full(0.0, "f32", b.dims("c")))], outer)
    b.store(total, y, ["a", "c"])
    return program("middle_sum", axes, b, (x, y), ("y",)), lambda a: (a["x"].sum((1, 3)),)


def shuffled() -> Sample:
    """y[n, a, m] = x[m, a, n] * s[a]: squeezed axes between tiled ones, on both sides."""
    axes = (Axis("a", "grid", 4, 1), Axis("m", "grid", 40, 64), Axis("n", "grid", 200, 128))
    x, s, y = buffer("x", 40, 4, 200), buffer("s", 4), buffer("y", 200, 4, 40)
    b = Builder(axes)
    v = b.binary("mul", b.load(x, ["m", "a", "n"]), b.load(s, ["a"]))
    b.store(b.permute(v, ["n", "m"]), y, ["n", "a", "m"])
    return (program("shuffled", axes, b, (x, s, y), ("y",)),
            lambda a: ((a["x"] * a["s"][None, :, None]).transpose(2, 1, 0),))


def scaled_and_turned(dtype: str = "i8") -> Sample:
    """y = (x[2 i, 49 - j] * alpha): steps, a flip, a run-time scalar, a narrow dtype."""
    axes = (Axis("i", "grid", 20, 8), Axis("j", "grid", 50, 128))
    x, alpha, y = buffer("x", 40, 50, dtype=dtype), Arg("alpha", TileType((), "f32")), buffer("y", 20, 50)
    b = Builder(axes)
    v = b.load(x, [Index.of("i", 2), Index.of("j", -1, 49)])
    b.store(b.binary("mul", b.cast(v, "f32"), alpha), y, ["i", "j"])
    found = program("scaled_and_turned", axes, b, (x, alpha, y), ("y",))
    order = {"input": 0, "scalar": 1, "output": 2}
    arrays = tuple(sorted(found.arrays, key=lambda a: order[a.role]))
    return Program(found.name, arrays, found.kernels), lambda a: (a["x"][::2, ::-1] * a["alpha"],)


def transposed_product(dtype: str = "bf16") -> Sample:
    """c[m, n] = sum_k a[k, m] * b[n, k], with a prologue on one operand and the shape of a vector on demand."""
    axes = (Axis("m", "grid", 150, 128), Axis("n", "grid", 140, 128), Axis("k", "loop", 300, 128))
    a, w, c = buffer("a", 300, 150, dtype=dtype), buffer("w", 140, 300, dtype=dtype), buffer("c", 150, 140)
    b = Builder(axes)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        left = b.load(a, ["k", "m"], pad=0.0)
        right = b.cast(b.binary("max", b.cast(b.load(w, ["n", "k"], pad=0.0), "f32"), b.const(0.0, "f32")), dtype)
        return (b.add(Dot(left, right, carried[0], "k")),)

    (acc,) = b.loop("k", [("acc", b.full(0.0, "f32", b.dims("m", "n")))], step)
    b.store(acc, c, ["m", "n"])
    return (program("transposed_product", axes, b, (a, w, c), ("c",)),
            lambda v: (v["a"].T @ np.maximum(v["w"], 0).T,))


def normalised_product() -> Sample:
    """y = softmax(x) @ w, walking the columns of w: the softmax is computed once and kept for the steps."""
    axes = (Axis("m", "grid", 40, 16), Axis("k", "whole", 200, 256), Axis("n", "loop", 300, 128))
    x, w, y = buffer("x", 40, 200), buffer("w", 200, 300), buffer("y", 40, 300)
    b = Builder(axes)
    v = b.load(x, ["m", "k"], pad=float("-inf"))
    e = b.unary("exp", b.binary("sub", v, b.add(Reduce("max", v, "k"))))
    e = b.binary("div", e, b.add(Reduce("sum", b.add(Mask(e, "k", 0.0)), "k")))

    def step(_: tuple[Op, ...]) -> tuple[Op, ...]:
        right = b.load(w, ["k", "n"], pad=0.0)
        b.store(b.add(Dot(e, right, b.full(0.0, "f32", b.dims("m", "n")), "k")), y, ["m", "n"])
        return ()

    b.loop("n", [], step)

    def answer(a: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        p = np.exp(a["x"] - a["x"].max(1, keepdims=True))
        return (p / p.sum(1, keepdims=True) @ a["w"],)

    return program("normalised_product", axes, b, (x, w, y), ("y",)), answer


def centred() -> Sample:
    """Two kernels: column means into a temporary, then the difference from them."""
    first = (Axis("n", "grid", 300, 128), Axis("m", "loop", 70, 16))
    x, mean, y = buffer("x", 70, 300), buffer("mean", 300), buffer("y", 70, 300)
    b = Builder(first)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        return (b.binary("add", carried[0], b.add(Reduce("sum", b.load(x, ["m", "n"], pad=0.0), "m"))),)

    (total,) = b.loop("m", [("total", b.full(0.0, "f32", b.dims("n")))], step)
    b.store(b.binary("div", total, b.const(70.0, "f32")), mean, ["n"])
    one = Kernel("means", Block((x, mean), b.ops), "rows", first, Schedule(()))
    second = (Axis("m", "grid", 70, 16), Axis("n", "grid", 300, 128))
    b = Builder(second)
    b.store(b.binary("sub", b.load(x, ["m", "n"]), b.load(mean, ["n"])), y, ["m", "n"])
    two = Kernel("differences", Block((x, mean, y), b.ops), "elementwise", second, Schedule(()))
    arrays = tuple(Array(a.name, a.of, r) for a, r in ((x, "input"), (y, "output"), (mean, "temporary")))  # type: ignore[arg-type]
    found = Program("centred", arrays, (one, two))
    verify_program(found)
    return found, lambda a: (a["x"] - a["x"].mean(0),)


def all_programs() -> dict[str, Sample]:
    found = {
        "functions": functions(), "functions_positive": functions(True), "operators": operators(),
        "operators_i32": operators("i32"), "booleans": booleans(), "extremes_n": extremes("n"), "extremes_m": extremes("m"),
        "middle_sum": middle_sum(), "shuffled": shuffled(), "scaled_and_turned": scaled_and_turned(),
        "transposed_product": transposed_product(), "transposed_product_f32": transposed_product("f32"), "centred": centred(),
        "normalised_product": normalised_product(),
    }  # fmt: skip
    for axis in "mn":
        for loop in (False, True):
            found[f"reductions_{axis}{'_loop' if loop else ''}"] = reductions(axis, loop)
    return found
