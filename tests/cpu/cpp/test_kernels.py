"""Shapes of kernels that the samples do not have, run against numpy: dtypes, scalars, names, nested loops, flips."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array, Program, verify_program
from portakern.ir.schedule import Schedule
from portakern.ir.tile import Axis, BufferType, Compare, Dot, Index, Kernel, Mask, Reduce, TileType
from portakern.registry import registry
from tests.cpu.cpp.references import buffers_for, intact


def program(name: str, axes: tuple[Axis, ...], b: Builder, args: list[tuple[Arg, str]]) -> Program:
    schedule = Schedule(tuple((a.name, a.tile) for a in axes), warps=1)
    kernel = Kernel(name, Block(tuple(a for a, _ in args), b.ops), "rows", axes, schedule)
    made = Program(name, tuple(Array(a.name, a.of, role) for a, role in args), (kernel,))  # type: ignore[arg-type]
    verify_program(made)
    return made


def run(p: Program, **values: np.ndarray) -> dict[str, np.ndarray]:
    language, target = registry().language("cpp"), registry().target("cpp:cpu")
    assert language.toolchain is not None and language.runtime is not None
    source = language.emitter.emit(p, target)
    executable = language.runtime.load(source, language.toolchain.compile(source))
    buffers = buffers_for(p, {})
    for name, value in values.items():
        buffers[name].array[...] = value
    executable.run(buffers, {})
    assert all(intact(x) for x in buffers.values())
    return {name: x.array for name, x in buffers.items()}


@pytest.mark.parametrize("dtype", ["f64", "f32", "i32", "i64"])
@pytest.mark.parametrize("fn", ["sum", "max", "min", "prod"])
def test_reductions(dtype: str, fn: str) -> None:
    axes = (Axis("m", "grid", 5, 2), Axis("n", "whole", 77, 80))
    x, y = Arg("x", BufferType((5, 77), dtype)), Arg("y", BufferType((5,), dtype))
    b = Builder(axes)
    identity = {"sum": 0, "prod": 1, "max": -(2**31), "min": 2**31 - 1}[fn]
    value = b.add(Mask(b.load(x, ["m", "n"]), "n", identity))
    b.store(b.add(Reduce(fn, value, "n")), y, ["m"])
    low, high = (1, 3) if fn == "prod" else (-50, 50)
    data = np.random.default_rng(0).integers(low, high, (5, 77))
    if fn == "prod":
        data[:, 20:] = 1
    got = run(program("reduction", axes, b, [(x, "input"), (y, "output")]), x=data)
    want = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}[fn](data, axis=1)
    assert np.array_equal(got["y"], want)


@pytest.mark.parametrize("fn", ["any", "all"])
def test_bools(fn: str) -> None:
    axes = (Axis("m", "grid", 9, 1), Axis("n", "whole", 40, 40))
    x, y = Arg("x", BufferType((9, 40), "f32")), Arg("y", BufferType((9,), "bool"))
    b = Builder(axes)
    positive = b.add(Compare("gt", b.load(x, ["m", "n"]), b.broadcast(b.const(1.5, "f32"), b.dims("n"))))
    b.store(b.add(Reduce(fn, positive, "n")), y, ["m"])
    data = np.random.default_rng(0).standard_normal((9, 40))
    data[3] = 2.0
    got = run(program("some", axes, b, [(x, "input"), (y, "output")]), x=data)
    assert np.array_equal(got["y"], getattr(data > 1.5, fn)(1))


def test_a_scalar_of_run_time() -> None:
    axes = (Axis("n", "grid", 100, 32),)
    x, s, y = Arg("x", BufferType((100,), "f16")), Arg("scale", TileType((), "f32")), Arg("y", BufferType((100,), "f16"))
    b = Builder(axes)
    b.store(b.cast(b.binary("mul", b.cast(b.load(x, ["n"]), "f32"), s), "f16"), y, ["n"])
    p = program("scaled", axes, b, [(s, "scalar"), (x, "input"), (y, "output")])
    got = run(p, scale=np.array(0.5, np.float32))
    assert np.array_equal(got["y"], (got["x"].astype(np.float32) * np.float32(0.5)).astype(np.float16))


@pytest.mark.parametrize("names", [("row", "col"), ("float", "Tile"), ("x", "x_tile"), ("sum", "m0"), ("int", "template")])
def test_names_that_collide(names: tuple[str, str]) -> None:
    """Axes and arrays called as the emitter would call its own things."""
    first, second = names
    axes = (Axis("row", "grid", 6, 1), Axis("col", "grid", 40, 16))
    x, y = (Arg(name, BufferType((6, 40), "f32")) for name in (first, "y"))
    w = Arg(second, BufferType((40,), "f32"))
    b = Builder(axes)
    number = b.cast(b.binary("add", b.coord("col"), b.coord("row")), "f32")
    total = b.binary("add", b.load(x, ["row", "col"]), b.load(w, ["col"]))
    b.store(b.binary("add", b.binary("mul", total, total), number), y, ["row", "col"])
    got = run(program("operator", axes, b, [(x, "input"), (w, "input"), (y, "output")]))
    want = (got[first] + got[second]) ** 2 + np.arange(40) + np.arange(6)[:, None]
    assert np.allclose(got["y"], want, atol=1e-5)


def test_strided_and_flipped_loads() -> None:
    axes = (Axis("n", "grid", 25, 16),)
    x, y = Arg("x", BufferType((50,), "f32")), Arg("y", BufferType((25,), "f32"))
    b = Builder(axes)
    even, back = b.load(x, [Index.of("n", 2)]), b.load(x, [Index.of("n", -1, 49)])
    b.store(b.binary("sub", even, back), y, ["n"])
    got = run(program("ends", axes, b, [(x, "input"), (y, "output")]))
    assert np.array_equal(got["y"], got["x"][::2] - got["x"][::-1][:25])


def test_loops_inside_loops_carry_on() -> None:
    axes = (Axis("n", "grid", 20, 8), Axis("i", "loop", 3, 1), Axis("j", "loop", 10, 4))
    x, y = Arg("x", BufferType((3, 10, 20), "f32")), Arg("y", BufferType((20,), "f32"))
    b = Builder(axes)

    def inner(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        value = b.load(x, ["i", "j", "n"], pad=0.0)
        return (b.binary("add", carried[0], b.add(Reduce("sum", value, "j"))),)

    def outer(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        return b.loop("j", [("total", carried[0])], inner)

    (total,) = b.loop("i", [("total", b.full(0.0, "f32", b.dims("n")))], outer)
    b.store(total, y, ["n"])
    p = program("both", axes, b, [(x, "input"), (y, "output")])
    got = run(p)
    assert np.allclose(got["y"], got["x"].astype(np.float64).sum((0, 1)), atol=1e-5)
    text = registry().language("cpp").emitter.emit(p, registry().target("cpp:cpu")).text
    assert text.count("total = ") == 2, "one variable carries the sum through both loops"


@pytest.mark.parametrize(("lhs", "rhs"), [("mk", "kn"), ("km", "kn"), ("mk", "nk"), ("km", "nk")])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_products_of_transposed_operands(lhs: str, rhs: str, dtype: str) -> None:
    extent = {"m": 45, "n": 51, "k": 37}
    axes = (Axis("m", "grid", 45, 16), Axis("n", "grid", 51, 48), Axis("k", "loop", 37, 16))
    kind = "f64" if dtype == "f64" else "f32"
    a, w = (Arg(x, BufferType(tuple(extent[i] for i in dims), dtype)) for x, dims in (("a", lhs), ("w", rhs)))
    c = Arg("c", BufferType((45, 51), kind))
    b = Builder(axes)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        return (b.add(Dot(b.load(a, list(lhs), pad=0.0), b.load(w, list(rhs), pad=0.0), carried[0], "k")),)

    (acc,) = b.loop("k", [("acc", b.full(0.0, kind, b.dims("m", "n")))], step)
    b.store(acc, c, ["m", "n"])
    got = run(program("product", axes, b, [(a, "input"), (w, "input"), (c, "output")]))
    left = got["a"].astype(np.float64).T if lhs == "km" else got["a"].astype(np.float64)
    right = got["w"].astype(np.float64).T if rhs == "nk" else got["w"].astype(np.float64)
    assert np.abs(got["c"] - left @ right).max() < (1e-12 if dtype == "f64" else 2e-5)


def test_operands_that_were_computed() -> None:
    axes = (Axis("m", "grid", 40, 16), Axis("n", "grid", 40, 32), Axis("k", "loop", 30, 16))
    a, c = Arg("a", BufferType((40, 30), "f32")), Arg("c", BufferType((40, 40), "f32"))
    b = Builder(axes)

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        left = b.add(Mask(b.unary("exp", b.load(a, ["m", "k"])), "k", 0.0))
        right = b.load(a, [Index.of("n"), Index.of("k")], pad=0.0)  # the same array, as the other operand
        return (b.add(Dot(left, right, carried[0], "k")),)

    (acc,) = b.loop("k", [("acc", b.full(0.0, "f32", b.dims("m", "n")))], step)
    b.store(acc, c, ["m", "n"])
    got = run(program("mixed", axes, b, [(a, "input"), (c, "output")]))
    x = got["a"].astype(np.float64)
    assert np.abs(got["c"] - np.exp(x) @ x.T).max() < 1e-4


def test_unary_functions_of_both_floats() -> None:
    names = ["neg", "abs", "exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid",
             "erf", "sin", "cos", "floor", "ceil", "round", "sign"]  # fmt: skip
    import math

    exact = {"neg": np.negative, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "round": np.rint,
             "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": np.vectorize(math.erf)}  # fmt: skip
    for dtype in ("f32", "f64"):
        axes = (Axis("n", "grid", 300, 128),)
        x = Arg("x", BufferType((300,), dtype))
        outs = [Arg(f"y_{fn}", BufferType((300,), dtype)) for fn in names]
        b = Builder(axes)
        value = b.load(x, ["n"])
        for fn, y in zip(names, outs, strict=True):
            b.store(b.unary(fn, value), y, ["n"])
        p = program("functions", axes, b, [(x, "input"), *((y, "output") for y in outs)])
        data = np.random.default_rng(0).uniform(0.01, 4, 300)
        got = run(p, x=data)
        for fn in names:
            want = exact.get(fn) or getattr(np, fn)
            assert np.allclose(got[f"y_{fn}"], want(got["x"].astype(np.float64)), rtol=3e-7 if dtype == "f32" else 1e-14,
                               atol=1e-7 if dtype == "f32" else 1e-15), (fn, dtype)


def test_binary_functions_on_integers_and_floats() -> None:
    for dtype in ("i32", "i64", "f32"):
        axes = (Axis("n", "grid", 200, 64),)
        x, z = Arg("x", BufferType((200,), dtype)), Arg("z", BufferType((200,), dtype))
        own = ["div", "pow"] if dtype == "f32" else ["and", "or", "xor"]
        names = ["add", "sub", "mul", "max", "min", "rem", "floordiv", *own]
        outs = [Arg(f"y_{fn}", BufferType((200,), dtype)) for fn in names]
        b = Builder(axes)
        u, v = b.load(x, ["n"]), b.load(z, ["n"])
        for fn, y in zip(names, outs, strict=True):
            b.store(b.binary(fn, u, v), y, ["n"])
        p = program("functions", axes, b, [(x, "input"), (z, "input"), *((y, "output") for y in outs)])
        rng = np.random.default_rng(0)
        left, right = rng.integers(-50, 50, 200), rng.choice([-7, -3, 2, 5, 9], 200)
        if dtype == "f32":
            left = np.abs(left) + 1
        got = run(p, x=left, z=right)
        exact = {"sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "rem": np.remainder,
                 "floordiv": np.floor_divide, "div": np.divide, "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or,
                 "xor": np.bitwise_xor}  # fmt: skip
        for fn in names:
            want = exact.get(fn, np.add)(*((left, right) if dtype[0] == "i" else (left.astype(float), right.astype(float))))
            assert np.allclose(got[f"y_{fn}"], want, rtol=1e-6), (fn, dtype)
