"""What the tile programs of tests/samples.py compute, in float64, and arrays with guard bands to run them on."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from portakern.backend import HostBuffer
from portakern.dtypes import dtype, numpy_dtype
from portakern.ir.program import Array, Program
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

GUARD = 256


def guarded(a: Array, shape: tuple[int, ...], values: np.ndarray | None = None) -> HostBuffer:
    """``a`` inside a larger allocation of 0xA5 bytes; outputs begin as 0xA5 too."""
    kind = numpy_dtype(a.dtype)
    count = math.prod(shape) * kind.itemsize
    storage = np.full(count + 2 * GUARD, 0xA5, np.uint8)
    buffer = HostBuffer(a.name, storage, GUARD, shape, kind)
    if values is not None:
        buffer.array[...] = values.astype(kind)
    return buffer


def intact(b: HostBuffer) -> bool:
    """Whether nothing was written around the array."""
    end = b.offset + b.array.nbytes
    return bool((b.storage[: b.offset] == 0xA5).all() and (b.storage[end:] == 0xA5).all())


def buffers_for(program: Program, sizes: Mapping[str, int], seed: int = 0) -> dict[str, HostBuffer]:
    rng = np.random.default_rng(seed)
    made = {}
    for a in program.by_role("input", "output", "scalar"):
        shape = tuple(evaluate(n, sizes) for n in a.type.shape) if isinstance(a.type, BufferType) else ()
        made[a.name] = guarded(a, shape, rng.standard_normal(shape) if a.role != "output" else None)
    return made


def tolerance(name: str) -> float:
    """Relative to the largest magnitude of the result: a few roundings of the output's dtype."""
    return 4 * max(dtype(name).rounding, 2.0**-22)


def _f(b: HostBuffer) -> np.ndarray:
    return b.array.astype(np.float64)


def expected(program: Program, b: Mapping[str, HostBuffer]) -> dict[str, np.ndarray]:
    """The outputs of a sample in float64, from the values its inputs hold."""
    match program.name:
        case "add_bias":
            return {"y": np.maximum(_f(b["x"]) + _f(b["b"]), 0)}
        case "transpose":
            return {"y": _f(b["x"]).T}
        case "softmax" | "softmax_long":
            return {"y": _softmax(_f(b["x"]))}
        case "matmul_bias":
            x = _f(b["a"]) @ _f(b["w"]) + _f(b["bias"])
            return {"c": 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))}
        case "attention":
            return {"o": _attention(program, b)}
        case "column_sums":
            return {"y": _f(b["x"]).sum(0)}
    raise KeyError(program.name)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _attention(program: Program, b: Mapping[str, HostBuffer]) -> np.ndarray:
    q, k, v = _f(b["q"]), _f(b["k"])[:, :, None], _f(b["v"])[:, :, None]
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if _causal(program):
        queries, keys = s.shape[-2:]
        s = np.where(np.arange(keys) <= np.arange(queries)[:, None] + keys - queries, s, -np.inf)
    return _softmax(s) @ v


def _causal(program: Program) -> bool:
    from portakern.ir.tile import For

    return any(isinstance(op, For) and op.hi is not None for op in program.kernels[0].body.walk())
