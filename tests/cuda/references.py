"""Inputs and float64 results of the sample programs (tests/samples.py), and how far a result may be from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from portakern.backend import HostBuffer
from portakern.ir.program import Array, Program

NUMPY: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i64": np.int64, "i32": np.int32,
    "bool": np.bool_,
}  # fmt: skip
SIZES = {"M": 11, "N": 1300}
"""Values of the open dims."""

GUARD = 256
"""Bytes of the guard bands before and after each array."""


def make_buffers(program: Program, seed: int = 0) -> dict[str, HostBuffer]:
    """Normal random inputs, and outputs full of garbage, all between guard bands."""
    rng = np.random.default_rng(seed)
    buffers: dict[str, HostBuffer] = {}
    for array in program.by_role("input", "output"):
        shape = program.shape(array.name, SIZES)
        buffer = empty_buffer(array, shape)
        if array.role == "input":
            buffer.array[...] = rng.standard_normal(shape).astype(NUMPY[array.dtype])
        buffers[array.name] = buffer
    return buffers


def empty_buffer(array: Array, shape: tuple[int, ...]) -> HostBuffer:
    dtype = np.dtype(NUMPY[array.dtype])
    count = math.prod(shape) * dtype.itemsize
    storage = np.full(GUARD + count + GUARD, 0xA5, np.uint8)
    return HostBuffer(array.name, storage, GUARD, shape, dtype)


def guards_intact(buffer: HostBuffer) -> bool:
    end = buffer.offset + buffer.array.nbytes
    return bool((buffer.storage[: buffer.offset] == 0xA5).all() and (buffer.storage[end:] == 0xA5).all())


def error_ratio(program: Program, buffers: Mapping[str, HostBuffer]) -> float:
    """The largest error of the outputs as a share of the tolerance: 1 is the most that passes, NaN where one is due to."""
    expected = expect(program, {b.name: b.array.astype(np.float64) for b in buffers.values()})
    worst = 0.0
    for name, want in expected.items():
        got = buffers[name].array.astype(np.float64)
        unit = {"bf16": 2.0**-8, "f16": 2.0**-11}.get(program.array(name).dtype, 2.0**-17)
        # The intermediate matrix of attention is rounded to the operands' type: as much again for each result.
        allowed = 4 * unit * (np.abs(want) + np.abs(want).max(initial=0) * 0.25) + 1e-30
        ratio = np.abs(got - want) / allowed
        worst = math.nan if np.isnan(ratio).any() else max(worst, float(ratio.max(initial=0)))
    return worst


def expect(program: Program, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs in float64."""
    x = given
    match program.name:
        case "add_bias":
            return {"y": np.maximum(x["x"] + x["b"], 0)}
        case "transpose":
            return {"y": x["x"].T}
        case "softmax" | "softmax_long":
            return {"y": _softmax(x["x"])}
        case "matmul_bias":
            z = x["a"] @ x["w"] + x["bias"]
            return {"c": 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))}
        case "attention":
            return {"o": _attention(program, x["q"], x["k"], x["v"])}
        case "column_sums":
            return {"y": x["x"].sum(0)}
    raise KeyError(program.name)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _attention(program: Program, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = np.einsum("bhgmk,bhnk->bhgmn", q, k) / math.sqrt(q.shape[-1])
    if any(type(op).__name__ == "Start" for op in program.kernels[0].body.walk()):  # causal, from the end of the keys
        rows, cols = np.arange(q.shape[3])[:, None], np.arange(k.shape[2])[None, :]
        scores = np.where(cols <= rows + k.shape[2] - q.shape[3], scores, -np.inf)
    return np.einsum("bhgmn,bhnd->bhgmd", _softmax(scores), v)
