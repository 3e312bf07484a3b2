"""Long sums in plain orders are never called wrong, whatever is summed: terms that are rounded alike drift."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.check.adversarial import KINDS, adversarial_inputs
from portakern.check.bounds import propagate
from portakern.check.compare import compare
from portakern.dtypes import numpy_dtype
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.spec.inputs import make_inputs

f32 = np.float32
T = pk.Tensor
Sum = Callable[[np.ndarray], np.ndarray]


def running(x: np.ndarray) -> np.ndarray:
    return np.add.accumulate(x, -1, dtype=f32)


def sequential(x: np.ndarray) -> np.ndarray:
    return running(x)[..., -1:]


def pairwise(x: np.ndarray) -> np.ndarray:
    while x.shape[-1] > 1:
        x = np.pad(x, [(0, 0), (0, x.shape[-1] % 2)])
        x = (x[..., ::2] + x[..., 1::2]).astype(f32)
    return x


def blocked(x: np.ndarray, size: int) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, -x.shape[-1] % size)])
    return sequential(sequential(x.reshape(len(x), -1, size))[..., 0])


def lanes(x: np.ndarray, count: int) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, -x.shape[-1] % count)])
    return sequential(sequential(x.reshape(len(x), -1, count).swapaxes(1, 2))[..., 0])


ORDERS: dict[str, Sum] = {
    "sequential": sequential,
    "from the end": lambda x: sequential(x[..., ::-1]),
    "pairwise": pairwise,
    "blocks of 100": lambda x: blocked(x, 100),
    "blocks of 4096": lambda x: blocked(x, 4096),
    "two blocks": lambda x: blocked(x, -(-x.shape[-1] // 2)),
    "two lanes": lambda x: lanes(x, 2),
    "four lanes": lambda x: lanes(x, 4),
}


@pk.operator
def sums(x: T["M", "N"]):
    xf = pk.cast(x, pk.f32)
    d = xf - pk.mean(xf, axis=-1, keepdims=True)
    e = pk.exp(xf - pk.max(xf, axis=-1, keepdims=True))
    return {
        "sum": pk.sum(xf, axis=-1, keepdims=True), "mean": pk.mean(xf, axis=-1, keepdims=True),
        "squares": pk.rsqrt(pk.mean(xf * xf, axis=-1, keepdims=True) + 1e-5),
        "variance": pk.mean(d * d, axis=-1, keepdims=True), "norm": d * pk.rsqrt(pk.mean(d * d, axis=-1, keepdims=True) + 1e-5),
        "logsumexp": pk.logsumexp(xf, axis=-1, keepdims=True), "softmax": e / pk.sum(e, axis=-1, keepdims=True),
        "weighted": pk.sum(e * xf, axis=-1, keepdims=True) / pk.sum(e, axis=-1, keepdims=True),
        "sigmoids": pk.sum(pk.sigmoid(xf), axis=-1, keepdims=True), "cosines": pk.sum(pk.cos(xf), axis=-1, keepdims=True),
        "cumsum": pk.cumsum(xf), "from_end": pk.cumsum(xf, reverse=True), "cumulated": pk.cumsum(pk.exp(pk.minimum(xf, 1.0))),
    }  # fmt: skip


def plainly(x: np.ndarray, add: Sum) -> dict[str, np.ndarray]:
    n = f32(x.shape[-1])
    d = x - add(x) / n
    top = x.max(-1, keepdims=True)
    e = np.exp(x - top)
    return {
        "sum": add(x), "mean": add(x) / n, "squares": 1 / np.sqrt(add(x * x) / n + f32(1e-5)), "variance": add(d * d) / n,
        "norm": d * (1 / np.sqrt(add(d * d) / n + f32(1e-5))), "logsumexp": np.log(add(e)) + top, "softmax": e / add(e),
        "weighted": add(e * x) / add(e), "sigmoids": add(1 / (1 + np.exp(-x))), "cosines": add(np.cos(x)),
        "cumsum": running(x), "from_end": running(x[:, ::-1])[:, ::-1], "cumulated": running(np.exp(np.minimum(x, f32(1)))),
    }  # fmt: skip


def stage(kind: str, program: TensorProgram) -> dict[str, np.ndarray]:
    return make_inputs(program, {}, 3) if kind == "values" else adversarial_inputs(kind, program, {}, 3)


def assert_right(wanted: Mapping[str, Any], program: TensorProgram, got: Mapping[str, np.ndarray], how: str) -> None:
    for (name, v), op in zip(wanted.items(), program.results, strict=True):
        of = tensor_type(op).dtype
        result = compare(v, of, got[name].astype(numpy_dtype(of)))
        assert result.ratio <= 1, f"{name}, {how}: {result.message}"


@pytest.mark.parametrize("kind", ["values", *KINDS])
@pytest.mark.parametrize(("n", "dtype"), [
    (2500, "f32"), (15000, "bf16"), (100_000, "f32"),
    *(pytest.param(n, d, marks=pytest.mark.slow) for n, d in ((15000, "f32"), (100_000, "bf16"))),
])  # fmt: skip
def test_sums_in_plain_orders_are_right(kind: str, n: int, dtype: str) -> None:
    program = sums.program({"M": 2, "N": n}, {}, dtype)
    inputs = stage(kind, program)
    with np.errstate(all="ignore"):
        wanted = propagate(program, inputs)
        for how, add in ORDERS.items():
            assert_right(wanted, program, plainly(inputs["x"].astype(f32), add), f"{kind}, {how}")


@pytest.mark.parametrize("values", [(0.1,), (0.1, 0.7), (1.0, 0.3, 0.9), (1e6, 0.01), (1.0, -0.3), tuple(np.arange(7) / 7)])
@pytest.mark.parametrize("arranged", ["in turn", "one after the other", "the first once"])
def test_few_values_over_and_over_are_right(values: tuple[float, ...], arranged: str) -> None:
    n = 40_000
    row = {"in turn": np.resize(values, n), "one after the other": np.repeat(values, -(-n // len(values)))[:n],
           "the first once": np.concatenate([values[:1], np.resize(values[1:] or values, n - 1)])}[arranged]  # fmt: skip
    program = sums.program({"M": 1, "N": n}, {}, "f32")
    x = row.astype(f32)[None]
    with np.errstate(all="ignore"):
        wanted = propagate(program, {"x": x})
        for how, add in ORDERS.items():
            assert_right(wanted, program, plainly(x, add), how)


@pk.operator
def products(a: T["M", "K"], b: T["K", "N"]):
    af, bf = pk.cast(a, pk.f32), pk.cast(b, pk.f32)
    return {"plain": af @ bf, "own": af @ pk.transpose(af), "weighted": pk.exp(pk.minimum(af, 1.0)) @ bf}


def product(a: np.ndarray, b: np.ndarray, fused: bool) -> np.ndarray:
    total = np.zeros((len(a), b.shape[1]), f32)
    wide = np.float64 if fused else f32
    for k in range(a.shape[1]):
        total = (total + a[:, k : k + 1].astype(wide) * b[k].astype(wide)).astype(f32)
    return total


@pytest.mark.parametrize("kind", ["values", *KINDS])
@pytest.mark.parametrize(("k", "dtype"), [(15_000, "f32"), pytest.param(40_000, "bf16", marks=pytest.mark.slow)])
def test_products_in_one_running_sum_are_right(kind: str, k: int, dtype: str) -> None:
    program = products.program({"M": 2, "N": 3, "K": k}, {}, dtype)
    inputs = stage(kind, program)
    a, b = (inputs[n].astype(f32) for n in "ab")
    with np.errstate(all="ignore"):
        wanted = propagate(program, inputs)
        weights = np.exp(np.minimum(a, f32(1)))
        for fused in (False, True):
            got = {"plain": product(a, b, fused), "own": product(a, a.T, fused), "weighted": product(weights, b, fused)}
            assert_right(wanted, program, got, f"{kind}, {fused=}")


def test_generic_sums_keep_narrow_bounds() -> None:
    program = sums.program({"M": 2, "N": 15_000}, {}, "f32")
    x = make_inputs(program, {}, 3)["x"]
    narrow = 2.0**-24 * 1.3 * (2048 + 8) * np.abs(x.astype(float)).sum(-1, keepdims=True)
    assert (propagate(program, {"x": x})["sum"].bound() < narrow).all()
    constant = np.full_like(x, 0.7)
    assert (propagate(program, {"x": constant})["sum"].bound() > 2.0**-24 * 5000 * 0.7 * 15_000).all()
