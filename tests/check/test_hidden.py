"""The check with a secret: what a kernel could foresee, and what large or open sizes hid, is caught; legal ways pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.backend import HostBuffer
from portakern.check import Verdict
from portakern.check.buffers import Poison, damage, guarded, unwritten
from portakern.check.hidden import check_hidden, hidden_sizes
from portakern.errors import UsageError
from portakern.ir import oracle
from portakern.referee.secret import Secret
from portakern.spec.bind import bind, solve_dims
from portakern.spec.inputs import make_inputs
from tests.check.running import FunctionExecutable

pytestmark = pytest.mark.quick

f32 = np.float32
SECRET = Secret.read("00112233445566778899aabbccddeeff")
ZEROS = Secret.read("7511d4102555c7d051703a82cb532d9d")
"""Draws rows of few numbers among zeros, where a mean that is corrected by every element rounds more often than a sum."""
LARGE = {"M": 150, "N": 800}
"""Above what goes through every stage."""

Rows = Callable[..., np.ndarray]


def held(name: str, function: Rows, dims: dict[str, Any], secret: Secret = SECRET, sizes: dict[str, int] | None = None
         ) -> Verdict:  # fmt: skip
    op = pk.load_operator(name)
    program = op.program(dims, {}, "f32")
    return check_hidden(FunctionExecutable(function), program, sizes, families=op.families, secret=secret)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True, dtype=f32)


def softmax_without_maximum(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True, dtype=f32)


def add_relu(a, b):
    return np.maximum(a + b, f32(0))


def add_relu_that_loses_nan(a, b):
    return np.fmax(a + b, f32(0))


def centred(x, mean, variance, weight, bias):
    return (x - mean) / np.sqrt(variance + f32(1e-5)) * weight + bias


def layer_norm(x, weight, bias):
    mean = x.mean(-1, keepdims=True)
    return centred(x, mean, np.square(x - mean).mean(-1, keepdims=True), weight, bias)


def layer_norm_by_welford(x, weight, bias):
    mean, squares = np.zeros((len(x), 1), f32), np.zeros((len(x), 1), f32)
    for n in range(x.shape[1]):
        off = x[:, n : n + 1] - mean
        mean = mean + off / f32(n + 1)
        squares = squares + off * (x[:, n : n + 1] - mean)
    return centred(x, mean, squares / f32(x.shape[1]), weight, bias)


def layer_norm_in_one_pass(x, weight, bias):
    mean = x.mean(-1, keepdims=True)
    return centred(x, mean, np.maximum(np.square(x).mean(-1, keepdims=True) - np.square(mean), f32(0)), weight, bias)


LEGAL = [("softmax", softmax), ("add_relu", add_relu), ("layer_norm", layer_norm), ("layer_norm", layer_norm_by_welford)]
WRONG = [("softmax", softmax_without_maximum, "steep"), ("add_relu", add_relu_that_loses_nan, "nonfinite"),
         ("layer_norm", layer_norm_in_one_pass, "offset")]  # fmt: skip
SIZES = [({"M": 9, "N": 50}, {}), (LARGE, {}), ({"M": pk.dynamic, "N": pk.dynamic}, LARGE)]
IDS = ["small", "large", "open"]


@pytest.mark.parametrize(("dims", "sizes"), SIZES, ids=IDS)
@pytest.mark.parametrize(("name", "function"), LEGAL, ids=lambda v: getattr(v, "__name__", ""))
def test_legal_ways_pass_with_any_secret(name: str, function: Rows, dims: dict, sizes: dict):
    for secret in (SECRET, ZEROS, Secret.drawn()):
        verdict = held(name, function, dims, secret, sizes)
        assert verdict.correct, (secret.text, verdict.message)


@pytest.mark.parametrize(("dims", "sizes"), SIZES, ids=IDS)
@pytest.mark.parametrize(("name", "function", "stage"), WRONG, ids=lambda v: getattr(v, "__name__", ""))
def test_what_ordinary_numbers_hide_is_seen_at_any_size(name: str, function: Rows, stage: str, dims: dict, sizes: dict):
    verdict = held(name, function, dims, Secret.drawn(), sizes)
    assert not verdict.correct and any(f.stage.startswith(stage) for f in verdict.failures), verdict.message


def right_at(good: Callable[[int, int], bool]) -> Rows:
    return lambda x: softmax(x) if good(*x.shape) else np.zeros_like(x)


@pytest.mark.parametrize("good", [
    lambda m, n: (m, n) == (64, 96), lambda m, n: n == 96, lambda m, n: n % 32 == 0, lambda m, n: m % 8 == 0,
    lambda m, n: n >= 96], ids=["asked", "long", "tiles", "row tiles", "smallest"])  # fmt: skip
def test_a_kernel_of_open_dims_is_held_to_other_sizes(good: Callable[[int, int], bool]):
    verdict = held("softmax", right_at(good), {"M": pk.dynamic, "N": pk.dynamic}, Secret.drawn(), {"M": 64, "N": 96})
    assert not verdict.correct and all(" at M=" in f.stage for f in verdict.failures), verdict.message


def test_inputs_follow_the_sizes_that_are_drawn():
    """Labels are below the number of classes, whatever that is, or the oracle would not take them."""
    op = pk.load_operator("cross_entropy")
    program = op.program({"M": pk.dynamic, "N": pk.dynamic}, {}, "f32")
    seen = set()

    def by_oracle(**arrays: np.ndarray) -> Any:
        sizes = solve_dims(program, {n: x.shape for n, x in arrays.items()})
        seen.add(tuple(sizes.values()))
        assert max(a.max() for a in arrays.values() if a.dtype.kind == "i") < sizes["N"]
        return oracle.evaluate(bind(program, sizes), arrays)["out"]

    verdict = check_hidden(FunctionExecutable(by_oracle), program, {"M": 20, "N": 90}, families=op.families, secret=SECRET)
    assert verdict.correct and len(seen) == 4


def test_hidden_sizes_are_those_that_the_operator_takes():
    @pk.operator
    def tail(x: pk.Tensor["M", "N"]):
        return x[:, 40:] * 2.0

    program = tail.program({"M": pk.dynamic, "N": pk.dynamic}, {}, "f32")
    found = hidden_sizes(program, SECRET.random(), {})
    assert len(found) == 3 and all(s["N"] >= 40 for s in found)


def test_one_of_the_hidden_sizes_is_more_than_a_tile_in_every_dim():
    program = pk.load_operator("matmul").program(dict.fromkeys("MNK", pk.dynamic), {}, "f32")
    for _ in range(3):
        assert any(min(s.values()) >= 60 for s in hidden_sizes(program, Secret.drawn().random(), {}))


def test_answers_for_inputs_that_were_foreseen_are_of_no_use():
    op = pk.load_operator("softmax")
    program = op.program({"M": 9, "N": 50}, {}, "f32")
    known = {x.tobytes(): softmax(x) for seed in range(50) for x in make_inputs(program, {}, seed).values()}
    verdict = held("softmax", lambda x: known.get(x.tobytes(), x), {"M": 9, "N": 50}, Secret.drawn())
    assert {f.stage for f in verdict.failures} >= {"values"}


def test_a_secret_repeats_a_judgement_exactly_and_another_does_not():
    one, two, other = (held("softmax", softmax, {"M": 9, "N": 50}, s) for s in (SECRET, SECRET, Secret.drawn()))
    assert one == two
    assert one.fingerprint != other.fingerprint and set(one.stages) == set(other.stages)
    assert len({held("softmax", softmax, {"M": 9, "N": 50}, Secret.drawn()).stages for _ in range(4)}) > 1


def test_what_is_drawn_for_one_use_tells_nothing_of_another():
    assert len({SECRET.number("a"), SECRET.number("b"), SECRET.number("a", 1), SECRET.other("a").number("a")}) == 4
    assert SECRET.text not in repr(SECRET)
    with pytest.raises(UsageError, match="no secret"):
        Secret.read("seven")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_drawn_poison_is_no_constant_and_is_known_again(dtype: str):
    def made(seed: int) -> HostBuffer:
        return guarded("out", np.empty((5, 7), dtype), Poison(seed=seed), fill=False)

    one, two = made(1), made(2)
    assert len(np.unique(one.storage)) > 100
    assert (one.storage != two.storage).mean() > 0.9
    assert not damage(one, Poison(seed=1)) and unwritten(one, Poison(seed=1)).all() and damage(one, Poison(seed=2))
    one.array[2, 3] = 1
    one.storage[one.offset - 3] ^= 1
    assert "before out" in damage(one, Poison(seed=1)) and not unwritten(one, Poison(seed=1))[2, 3]
    if dtype != "int8":
        assert (np.abs(two.array[np.isfinite(two.array)]) >= 2).all()


class AddsUp:
    """Adds to what its output holds, so that it is right where that is zero."""

    guards = True

    def run(self, buffers, sizes) -> None:
        with np.errstate(all="ignore"):
            buffers["out"].array[...] += softmax(buffers["x"].array)


def test_what_is_added_to_an_output_is_lost_in_its_poison():
    program = pk.load_operator("softmax").program({"M": 1, "N": 1}, {}, "f32")
    assert not check_hidden(AddsUp(), program, secret=Secret.drawn()).correct  # type: ignore[arg-type]
