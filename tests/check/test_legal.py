"""No legal evaluation is called wrong: random programs, every adversarial stage, a machine that takes liberties."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

import portakern as pk
from portakern.check.adversarial import KINDS, adversarial_inputs
from portakern.check.bounds import propagate
from portakern.check.compare import compare
from portakern.dtypes import numpy_dtype
from portakern.errors import PortakernError
from portakern.fuzz.case import FuzzCase
from portakern.fuzz.grammar import cases
from portakern.fuzz.program import FuzzProgram
from portakern.ir import tensor as t
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.spec.inputs import Family, at_sizes, make_inputs

from .legal import Machine

T = pk.Tensor

STEPS: dict[str, Any] = {
    "mul": lambda a, b, c: a * b,
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "div": lambda a, b, c: a / b,
    "exp": lambda a, b, c: pk.exp(a),
    "tanh": lambda a, b, c: pk.tanh(a),
    "sigmoid": lambda a, b, c: pk.sigmoid(a),
    "sqrt": lambda a, b, c: pk.sqrt(a),
    "log": lambda a, b, c: pk.log(a),
    "rsqrt": lambda a, b, c: pk.rsqrt(a),
    "max": lambda a, b, c: pk.maximum(a, b),
    "min": lambda a, b, c: pk.minimum(a, b),
    "abs": lambda a, b, c: pk.abs(a),
    "where": lambda a, b, c: pk.where(a > b, a, c),
    "floor": lambda a, b, c: pk.floor(a),
    "scale": lambda a, b, c: a * 0.37,
    "reciprocal": lambda a, b, c: 1.0 / a,
    "sign": lambda a, b, c: pk.sign(a),
    "less": lambda a, b, c: pk.where(a < 0.5, b, c),
    "softmax": lambda a, b, c: pk.softmax(a),
    "matmul": lambda a, b, c: a @ b,
    "transposed": lambda a, b, c: a @ pk.transpose(b),
    "residual": lambda a, b, c: a @ b + c,
    "less_product": lambda a, b, c: c - a @ b,
    "fma": lambda a, b, c: a * b + c,
    "mean": lambda a, b, c: a - pk.mean(a, axis=-1, keepdims=True),
    "largest": lambda a, b, c: a - pk.max(a, axis=-1, keepdims=True),
    "norm": lambda a, b, c: a * pk.rsqrt(pk.mean(a * a, axis=-1, keepdims=True) + 1e-6),
    "cumsum": lambda a, b, c: pk.cumsum(a),
    "prod": lambda a, b, c: b + pk.prod(a, axis=-1, keepdims=True),
    "round": lambda a, b, c: pk.cast(pk.cast(a, pk.bf16), a.dtype),
    "variance": lambda a, b, c: pk.sqrt(pk.mean(a * a, axis=-1, keepdims=True) - pk.mean(a, axis=-1, keepdims=True) ** 2) * b,
    "plus_sum": lambda a, b, c: b + pk.sum(a, axis=-1, keepdims=True),
    "clip": lambda a, b, c: pk.clip(a, -1.0, 1.0),
}
"""Of three square arrays another."""

chains = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.tuples(*[st.integers(0, 9)] * 3)), min_size=1, max_size=6)


def operator_of(chain: list[tuple[str, tuple[int, int, int]]]):
    @pk.operator
    def made(x: T["N", "N"], y: T["N", "N"], z: T["N", "N"]):
        values = [x, y, z]
        for name, picks in chain:
            values.append(STEPS[name](*(values[-1 - p % len(values)] for p in picks)))
        last = values[-1]
        return last, pk.argmax(last, axis=-1), pk.max(last, axis=0), x + y - z

    return made


def judge(program: TensorProgram, families: Mapping[str, Family], kinds: list[str], seed: int, tries: int = 3) -> None:
    for kind in kinds:
        inputs = make_inputs(program, families, seed) if kind == "values" else adversarial_inputs(kind, program, families, seed)
        wanted = propagate(program, inputs)
        for number in range(tries):
            outputs = Machine(np.random.default_rng([seed, number])).run(program, inputs)
            for (name, v), op in zip(wanted.items(), program.results, strict=True):
                of = tensor_type(op).dtype
                with np.errstate(all="ignore"):
                    result = compare(v, of, outputs[name].astype(numpy_dtype(of)))
                assert result.ratio <= 1, f"{kind}, {name}: {result.message}\n{program}"


@settings(max_examples=30, deadline=None)
@given(chains, st.sampled_from(["f32", "bf16", "f16"]), st.integers(1, 9), st.integers(0, 2**16))
def test_no_legal_evaluation_is_called_wrong(chain: Any, dtype: str, size: int, seed: int) -> None:
    judge(operator_of(chain).program({"N": size}, {}, dtype), {}, ["values", *KINDS], seed)


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]


@settings(max_examples=6, deadline=None, suppress_health_check=QUIET)
@given(cases({"large": 0, "f64": 0, "f16": 3}), st.integers(0, 2**16))
def test_no_legal_evaluation_of_a_made_up_operator_is_called_wrong(tmp_path: Path, case: FuzzCase, seed: int) -> None:
    operator = FuzzProgram(case).operator(tmp_path)
    try:
        program = operator.program(case.dims, case.params, case.dtype)
    except PortakernError:
        reject()  # sizes that the operator refuses
    assume(all(tensor_type(arg).dtype != "f64" for arg in program.args))  # the machine has f32 alone
    assume(not any(isinstance(op, t.Recur) for op in program.body.walk()))  # nor steps that give several values
    assume(sum(math.prod(static(tensor_type(v).shape)) for v in (*program.args, *program.results)) < 50_000)  # and is slow
    judge(program, at_sizes(operator.families, case.dims), ["values", *KINDS], seed, tries=2)


@pk.operator
def spread_of(x: T["M", "N"]):
    return pk.sqrt(pk.mean(x * x, axis=1) - pk.mean(x, axis=1) ** 2), pk.sqrt(pk.mean(x * x, axis=1))


@pytest.mark.parametrize("scale", [1.0, 1e-10, 1e-17, 3e-19])
def test_the_sign_of_what_cancels_is_not_decided(scale: float) -> None:
    """Of numbers that are nearly alike, however small: then a root of what is left may be none."""
    rng = np.random.default_rng(2)
    x = (scale * (1 + 1e-7 * rng.standard_normal((40, 9)))).astype(np.float32)
    program = spread_of.program({"M": 40, "N": 9}, {}, "f32")
    wanted = propagate(program, {"x": x})
    first, second = program.outputs
    nan = 0
    for seed in range(20):
        got = Machine(np.random.default_rng(seed)).run(program, {"x": x})
        nan += np.isnan(got[first]).sum()
        assert all(compare(wanted[n], "f32", got[n]).ratio <= 1 for n in program.outputs)
    assert nan > 0 and compare(wanted[second], "f32", np.full(40, np.nan, np.float32)).ratio > 1


@pk.operator
def linear_attention(q: T["S", "D"], k: T["S", "D"], v: T["S", "E"]):
    return q @ (pk.transpose(k) @ v)


@pk.operator
def with_residual(a: T["M", "K"], b: T["K", "N"], r: T["M", "N"]):
    return pk.cast(pk.matmul(a, b, dtype=pk.f32) + pk.cast(r, pk.f32), a.dtype)


def test_infinities_that_meet_zeros_in_chained_products_decide_nothing() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((8, 4)).astype(np.float32) for _ in range(3))
    k[2, 1] = v[2, 1] = -np.inf
    k[3] = q[:, 2] = 0
    v[3, 0] = np.inf
    program = linear_attention.program({"S": 8, "D": 4, "E": 4}, {}, "f32")
    wanted = propagate(program, {"q": q, "k": k, "v": v})["out"]
    for seed in range(40):
        got = Machine(np.random.default_rng(seed)).run(program, {"q": q, "k": k, "v": v})["out"]
        assert compare(wanted, "f32", got).ratio <= 1


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_residual_may_begin_the_accumulator(dtype: str) -> None:
    rng = np.random.default_rng(1)
    ordinary = {"a": rng.standard_normal((5, 3)), "b": rng.standard_normal((3, 7)), "r": rng.standard_normal((5, 7)) * 1e5}
    exact = {"a": rng.integers(-3, 4, (5, 3)), "b": rng.integers(-3, 4, (3, 7)), "r": rng.standard_normal((5, 7)) * 3}
    program = with_residual.program({"M": 5, "K": 3, "N": 7}, {}, dtype)
    for inputs in (ordinary, exact):
        inputs = {n: x.astype(numpy_dtype(dtype)) for n, x in inputs.items()}
        wanted = propagate(program, inputs)["out"]
        for seed in range(40):
            got = Machine(np.random.default_rng(seed)).run(program, inputs)["out"].astype(numpy_dtype(dtype))
            assert compare(wanted, dtype, got).ratio <= 1
        wrong = (wanted.x * (1 + (2**-18 if dtype == "f32" else 2**-5))).astype(numpy_dtype(dtype))
        assert compare(wanted, dtype, wrong).ratio > 1


@pk.operator(inputs={"index": pk.Integers(0, "N")})
def with_updates(a: T["M", "K"], b: T["K", "N"], index: T["M", "P", pk.i32], r: T["M", "P"]):
    return pk.scatter(a @ b, index, r, 1, "add")


def test_what_is_added_to_elements_of_a_product_may_begin_them() -> None:
    rng = np.random.default_rng(1)
    ordinary = {"a": rng.standard_normal((5, 16)) * 0.01, "b": rng.standard_normal((16, 7)), "r": rng.standard_normal((5, 3))}
    exact = {"a": rng.integers(-3, 4, (5, 16)), "b": rng.integers(-3, 4, (16, 7)), "r": rng.standard_normal((5, 3)) * 3}
    program = with_updates.program({"M": 5, "K": 16, "N": 7, "P": 3}, {}, "f32")
    index = rng.integers(0, 7, (5, 3)).astype(np.int32)
    for inputs in (ordinary, exact):
        inputs = {n: x.astype(np.float32) for n, x in inputs.items()} | {"index": index}
        wanted = propagate(program, inputs)["out"]
        for seed in range(40):
            got = Machine(np.random.default_rng(seed)).run(program, inputs)["out"]
            assert compare(wanted, "f32", got).ratio <= 1
        wrong = (wanted.x + 2**-18).astype(np.float32)
        assert compare(wanted, "f32", wrong).ratio > 1
