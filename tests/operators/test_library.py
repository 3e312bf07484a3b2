"""The library's operators: the oracle against formulas written in plain numpy, and what every operator declares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import tensor_type
from portakern.spec.inputs import make_inputs
from portakern.spec.load import library

pytestmark = pytest.mark.quick


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True)) if x.size else x
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, weight, bias, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + np.float32(eps)) * weight + bias


def matmul(a, b, transpose_a=False, transpose_b=False):
    return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)


def matmul_bias_gelu(x, w, bias):
    y = x @ w + bias
    return 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))


def attention(q, k, v, causal=False, scale=None):
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else np.float32(scale)
    scores = q @ k[:, :, None].swapaxes(-1, -2) * factor
    if causal:
        row, column = np.indices(scores.shape[-2:])
        scores = np.where(column <= row, scores, -np.inf)
    return softmax(scores) @ v[:, :, None]


def cross_entropy(logits, labels, ignore_index=-100):
    counted = labels != ignore_index
    valid = counted & (labels >= 0) & (labels < logits.shape[-1])
    picked = np.where(valid, logits[np.arange(len(labels)), np.where(valid, labels, 0).astype(int)], np.nan)
    top = logits.max(-1, initial=-np.inf)
    losses = np.log(np.exp(logits - top[:, None]).sum(-1)) + top - picked
    return np.where(counted, losses, 0).sum() / counted.sum()


def embedding(table, ids):
    rows = table[np.clip(ids, 0, len(table) - 1).astype(int)]
    return np.where(((ids >= 0) & (ids < len(table)))[..., None], rows, 0)


def cumsum(x, exclusive=False, reverse=False):
    x = x[:, ::-1] if reverse else x
    y = np.cumsum(np.pad(x, [(0, 0), (1, 0)]), -1)
    y = y[:, :-1] if exclusive else y[:, 1:]
    return y[:, ::-1] if reverse else y


FORMULAS: dict[str, Callable[..., Any]] = {
    "add_relu": lambda a, b, broadcast="none": np.maximum(a + b, 0),
    "silu_mul": lambda gate, up: gate / (1 + np.exp(-gate)) * up,
    "row_sum": lambda x: x.sum(-1),
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": lambda x, w, eps=1e-6: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * w,
    "transpose": lambda x: x.T,
    "matmul": matmul,
    "matmul_bias_gelu": matmul_bias_gelu,
    "attention": attention,
    "cross_entropy": cross_entropy,
    "cumsum": cumsum,
    "embedding": embedding,
}

CASES = [(op, case) for op in library() for case in op.cases]


@pytest.mark.parametrize(("op", "case"), CASES, ids=[f"{o.name}-{c.name}" for o, c in CASES])
def test_the_oracle_agrees_with_numpy(op, case) -> None:
    program = op.program(case.dims, case.params, "f32")
    inputs = make_inputs(program, case.inputs)
    wide = {n: x.astype(np.float64) for n, x in inputs.items()}
    with np.errstate(all="ignore"):
        want = FORMULAS[op.name](**wide, **case.params)
    got = evaluate(program, inputs)["out"]
    assert got.shape == want.shape
    # An explicit cast to f32 rounds.
    np.testing.assert_allclose(got, want, rtol=3e-7, atol=1e-9 if op.name != "cumsum" else 1e-6)


@pytest.mark.parametrize("op", library(), ids=lambda o: o.name)
def test_every_operator_declares_what_is_needed(op) -> None:
    assert op.doc
    assert {"f32", "bf16"} <= set(op.dtypes)
    assert len(op.cases) >= 6
    sizes = [int(np.prod(v)) for c in op.cases for v in c.dims.values()]
    assert {"typical", "ragged", "tiny", "zero", "one", "long", "unaligned"} <= {c.name for c in op.cases}
    assert 0 in sizes
    assert 1 in sizes
    assert op.typical.name == "typical"


@pytest.mark.parametrize("op", library(), ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_results_have_the_dtype_of_the_inputs(op, dtype: str) -> None:
    assert {tensor_type(r).dtype for r in op.trace({}, dtype).results} == {dtype}


def test_narrow_inputs_are_accumulated_in_f32() -> None:
    for name, word in (("row_sum", "fold"), ("matmul", "contract"), ("attention", "contract")):
        program = pk.load_operator(name).trace({}, "bf16")
        found = [tensor_type(op).dtype for op in program.body.ops if op.mnemonic() == word]
        assert found
        assert set(found) == {"f32"}


@pytest.mark.parametrize("op", library(), ids=lambda o: o.name)
def test_what_torch_s_users_write_computes_the_same(op) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'portakern[torch]')")
    from portakern.timing.peers import Subject, find

    compared = 0
    for case in op.cases:
        size = sum(int(np.prod(v)) for v in case.dims.values())
        if case.name == "outside" or size > 2000 or 0 in case.dims.values():  # torch refuses wrong labels
            continue
        program = op.program(case.dims, case.params, "f32")
        inputs = make_inputs(program, case.inputs)
        peer = find("torch.eager", Subject(program, op.torch, op.check_params(case.params)))
        got = peer.call(*(torch.from_numpy(np.asarray(inputs[a.name])) for a in program.args))
        want = evaluate(program, inputs)["out"]
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4, err_msg=case.name)
        compared += 1
    assert compared
