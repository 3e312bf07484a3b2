"""The library's operators: the oracle against formulas written in plain numpy, and what every operator declares."""

from __future__ import annotations

import itertools
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


def attention_varlen(q, k, v, lengths, causal=False):
    scores = q @ k[:, :, None].swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    row, column = np.indices(scores.shape[-2:])
    length = lengths[:, None, None, None, None]
    seen = (column < length) & ((column <= row + length - q.shape[-2]) | (not causal))
    return softmax(np.where(seen, scores, -np.inf)) @ v[:, :, None]


def cross_entropy(logits, labels, ignore_index=-100):
    counted = labels != ignore_index
    valid = counted & (labels >= 0) & (labels < logits.shape[-1])
    picked = np.where(valid, logits[np.arange(len(labels)), np.where(valid, labels, 0).astype(int)], np.nan)
    top = logits.max(-1, initial=-np.inf)
    losses = np.log(np.exp(logits - top[:, None]).sum(-1)) + top - picked
    return np.where(counted, losses, 0).sum() / counted.sum()


def segment_sum(x, offsets):
    return np.array([x[lo:hi].sum(0) for lo, hi in itertools.pairwise(offsets.astype(int))]).reshape(-1, x.shape[1])


def embedding(table, ids):
    rows = table[np.clip(ids, 0, len(table) - 1).astype(int)]
    return np.where(((ids >= 0) & (ids < len(table)))[..., None], rows, 0)


def cumsum(x, exclusive=False, reverse=False):
    x = x[:, ::-1] if reverse else x
    y = np.cumsum(np.pad(x, [(0, 0), (1, 0)]), -1)
    y = y[:, :-1] if exclusive else y[:, 1:]
    return y[:, ::-1] if reverse else y


def linear_recurrence(a, b, reverse=False):
    h = np.zeros_like(b)
    steps = range(b.shape[1])
    before = np.zeros((b.shape[0], b.shape[2]))
    for t in reversed(steps) if reverse else steps:
        before = h[:, t] = a[:, t] * before + b[:, t]
    return h


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, h0, c0, w_ih, w_hh, bias, reverse=False):
    h, c, states = h0, c0, np.zeros((len(x), *h0.shape))
    for t in range(len(x))[:: -1 if reverse else 1]:
        i, f, g, o = np.split(x[t] @ w_ih.T + h @ w_hh.T + bias, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = states[t] = sigmoid(o) * np.tanh(c)
    return {"out0": states, "out1": h, "out2": c}


def gru(x, h0, w_ih, w_hh, b_ih, b_hh, reverse=False):
    h, states = h0, np.zeros((len(x), *h0.shape))
    for t in range(len(x))[:: -1 if reverse else 1]:
        (r, z, n), (of_r, of_z, of_n) = (np.split(y, 3, -1) for y in (x[t] @ w_ih.T + b_ih, h @ w_hh.T + b_hh))
        z = sigmoid(z + of_z)
        h = states[t] = (1 - z) * np.tanh(n + sigmoid(r + of_r) * of_n) + z * h
    return {"out0": states, "out1": h}


def patches(x, window: int, stride: int, padding: int, dilation: int = 1, value: float = 0.0):
    """Windows of x [N, H, W, C] as [N, positions, positions, C, window, window]."""
    around = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)], constant_values=value)
    reach = dilation * (window - 1) + 1
    seen = np.lib.stride_tricks.sliding_window_view(around, (reach, reach), (1, 2))
    return seen[:, ::stride, ::stride, :, ::dilation, ::dilation]


def conv2d(x, w, window=3, stride=1, padding=1, dilation=1, groups=1, layout="NHWC"):
    if layout == "NCHW":
        return conv2d(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), window, stride, padding, dilation,
                      groups).transpose(0, 3, 1, 2)  # fmt: skip
    parts = zip(np.split(x, groups, -1), np.split(w, groups, -1), strict=True)
    return np.concatenate([np.einsum("nhwcij,ijco->nhwo", patches(a, window, stride, padding, dilation), b)
                           for a, b in parts], -1)  # fmt: skip


def conv_transpose2d(x, w, window=4, stride=2, padding=1, extra=0):
    n, h, width, _ = x.shape
    out = np.zeros((n, (h - 1) * stride + window, (width - 1) * stride + window, w.shape[-1]))
    for i, j in np.ndindex(h, width):
        out[:, i * stride : i * stride + window, j * stride : j * stride + window] += np.einsum("nc,ijco->nijo", x[:, i, j], w)
    rows, columns = (size - 2 * padding + extra for size in out.shape[1:3])
    out = np.pad(out, [(0, 0), (0, extra), (0, extra), (0, 0)])
    return out[:, padding : padding + rows, padding : padding + columns]


def avg_pool(x, window=2, stride=2, padding=0, count_pads=True):
    inside = patches(np.ones_like(x), window, stride, padding).sum((-1, -2))
    return patches(x, window, stride, padding).sum((-1, -2)) / (window * window if count_pads else inside)


def normed(x, axes, eps=1e-5):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + np.float32(eps))


def group_norm(x, weight, bias, groups=2, eps=1e-5):
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return normed(parts, (2, 3, 4), eps).reshape(x.shape) * weight[:, None, None] + bias[:, None, None]


def rope(x, cos, sin, pairs=False):
    a, b = (x[..., ::2], x[..., 1::2]) if pairs else np.split(x, 2, -1)
    turned = (a + 1j * b) * (cos + 1j * sin)[:, None]
    return np.stack([turned.real, turned.imag], -1 if pairs else -2).reshape(x.shape)


def sort(x, descending=False):
    order = np.argsort(-x if descending else x, -1, kind="stable")
    return {"values": np.take_along_axis(x, order, -1), "indices": order}


def top_k(x, k=4):
    order = np.argsort(-x, -1, kind="stable")[:, :k]
    return {"values": np.take_along_axis(x, order, -1), "indices": order}


def scatter_add(table, ids, rows):
    out, kept = table.copy(), (ids >= 0) & (ids < len(table))
    np.add.at(out, ids[kept].astype(int), rows[kept])
    return out


def dropout(x, seed, chance=0.5):
    number = np.arange(x.size, dtype=np.uint64)
    bits = philox(number >> np.uint64(2), np.uint64(int(seed) % 2**64))[number % np.uint64(4), np.arange(x.size)]
    return np.where(bits.reshape(x.shape) < round(chance * 2**32), 0, x / np.float32(1 - chance))


def philox(counter: np.ndarray, key: np.uint64) -> np.ndarray:
    """The four words of Philox 4x32-10 (Salmon et al. 2011) for each counter."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    words = [counter & low, counter >> half, np.zeros_like(counter), np.zeros_like(counter)]
    k0, k1 = key & low, key >> half
    for _ in range(10):
        a, b = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(b >> half) ^ words[1] ^ k0, b & low, (a >> half) ^ words[3] ^ k1, a & low]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.array(words)


def fft(real, imag, inverse=False):
    found = (np.fft.ifft if inverse else np.fft.fft)(real + 1j * imag) if real.size else real + 1j * imag
    return {"re": found.real, "im": found.imag}


def interpolate(x, height=16, width=16):
    for axis, count in ((2, height), (3, width)):
        size = x.shape[axis]
        places = np.clip((np.arange(count) + 0.5) * size / count - 0.5, 0, size - 1)
        first = np.floor(places).astype(int)
        weight = np.expand_dims(places - first, [d for d in range(4) if d != axis])
        x = x.take(first, axis) * (1 - weight) + x.take(np.minimum(first + 1, size - 1), axis) * weight
    return x


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
    "linear_recurrence": linear_recurrence,
    "lstm": lstm,
    "gru": gru,
    "conv2d": conv2d,
    "conv2d_bias_relu": lambda x, w, bias, **how: np.maximum(conv2d(x, w, **how) + bias, 0),
    "depthwise_conv": lambda x, w, **how: conv2d(x, w, groups=x.shape[-1], **how),
    "conv_transpose2d": conv_transpose2d,
    "max_pool": lambda x, window=3, stride=2, padding=1: patches(x, window, stride, padding, 1, -np.inf).max((-1, -2)),
    "avg_pool": avg_pool,
    "batch_norm": lambda x, weight, bias, eps=1e-5: (
        normed(x, (0, 2, 3), eps) * weight[:, None, None] + bias[:, None, None]),
    "group_norm": group_norm,
    "rope": rope,
    "sort": sort,
    "top_k": top_k,
    "attention_varlen": attention_varlen,
    "segment_sum": segment_sum,
    "moe_grouped_matmul": lambda x, w, offsets: np.concatenate(
        [x[a:b] @ m for (a, b), m in zip(itertools.pairwise(offsets.astype(int)), w, strict=True)]),
    "spmm": lambda values, columns, offsets, b: segment_sum(values[:, None] * b[columns.astype(int)], offsets),
    "sddmm": lambda a, b, rows, columns: (a[rows.astype(int)] * b[columns.astype(int)]).sum(-1),
    "scatter_add": scatter_add,
    "dropout": dropout,
    "interpolate": interpolate,
    "fft": fft,
}

SMALL = {"cumsum": 1e-6, "interpolate": 1e-6, "rope": 1e-6, "fft": 1e-5}
"""How far results, where they are small differences of what was rounded to f32, may be from those in f64."""

WITHOUT_PEER = ("attention_varlen", "dropout", "linear_recurrence")
"""PyTorch draws other bits, and has no call for the other two."""

CASES = [(op, case) for op in library() for case in op.cases]


@pytest.mark.parametrize(("op", "case"), CASES, ids=[f"{o.name}-{c.name}" for o, c in CASES])
def test_the_oracle_agrees_with_numpy(op, case) -> None:
    program = op.program(case.dims, case.params, "f32")
    inputs = make_inputs(program, case.inputs)
    wide = {n: x.astype(np.float64) for n, x in inputs.items()}
    with np.errstate(all="ignore"):
        want = FORMULAS[op.name](**wide, **case.params)
    got = evaluate(program, inputs)
    wanted = want if isinstance(want, dict) else {"out": want}
    assert {n: x.shape for n, x in got.items()} == {n: x.shape for n, x in wanted.items()}
    for name, x in wanted.items():
        # An explicit cast to f32 rounds.
        np.testing.assert_allclose(got[name], x, rtol=3e-7, atol=SMALL.get(op.name, 1e-9))


@pytest.mark.parametrize("op", library(), ids=lambda o: o.name)
def test_every_operator_declares_what_is_needed(op) -> None:
    assert op.doc
    assert op.torch or op.name in WITHOUT_PEER
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
    results = op.program(op.typical.dims, op.typical.params, dtype).results
    assert {tensor_type(r).dtype for r in results} - {"i32"} == {dtype}  # i32 are indices


def test_narrow_inputs_are_accumulated_in_f32() -> None:
    for name, word in (("row_sum", "fold"), ("matmul", "contract"), ("attention", "contract")):
        program = pk.load_operator(name).trace({}, "bf16")
        found = [tensor_type(op).dtype for op in program.body.ops if op.mnemonic() == word]
        assert found
        assert set(found) == {"f32"}


@pytest.mark.parametrize("op", [op for op in library() if op.torch], ids=lambda o: o.name)
def test_what_torch_s_users_write_computes_the_same(op) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'portakern[torch]')")
    from portakern.timing.peers import Subject, find, host_outputs

    compared = 0
    for case in op.cases:
        size = sum(int(np.prod(v)) for v in case.dims.values())
        if case.name in ("outside", "equal") or size > 2000 or 0 in case.dims.values():
            continue  # it refuses wrong labels, and takes any of equals
        program = op.program(case.dims, case.params, "f32")
        inputs = make_inputs(program, case.inputs)
        peer = find("torch.eager", Subject(program, op.torch, op.check_params(case.params)))
        got = host_outputs(peer.call(*(torch.from_numpy(np.asarray(inputs[a.name])) for a in program.args)))
        for have, want in zip(got, evaluate(program, inputs).values(), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4, err_msg=case.name)
        compared += 1
    assert compared
