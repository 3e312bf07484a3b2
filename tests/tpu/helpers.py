"""What the tests of the TPU backend share: targets, sample programs with legal tiles, float64 references, buffers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from portakern.backend import HostBuffer, Target
from portakern.ir.program import Program
from portakern.ir.size import Sym
from portakern.registry import registry

NUMPY = {"f32": np.dtype("float32"), "bf16": np.dtype(ml_dtypes.bfloat16), "i32": np.dtype("int32"),
         "i8": np.dtype("int8"), "bool": np.dtype("bool")}
M, N = Sym.named("M"), Sym.named("N")


def _samples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("samples", Path(__file__).parents[1] / "samples.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("samples", module)
    spec.loader.exec_module(module)
    return module


samples = _samples()


def target(device: str = "v5e") -> Target:
    return registry().target(f"pallas:{device}")


def language() -> Any:
    return registry().language("pallas")


def programs() -> dict[str, Program]:
    """The sample programs with blocks that Mosaic takes."""
    dots = (64, 128, 128)
    return {
        "add_bias": samples.add_bias(), "add_bias_open": samples.add_bias(M), "add_bias_f32": samples.add_bias(dtype="f32"),
        "transpose": samples.transpose(tile=(128, 128)), "transpose_big": samples.transpose(300, 500, tile=(128, 128)),
        "softmax": samples.softmax(tile=(8, 1024)), "softmax_row": samples.softmax(tile=(1, 1024)),
        "softmax_open": samples.softmax(M, tile=(16, 1024)), "softmax_f32": samples.softmax(37, dtype="f32", tile=(8, 1024)),
        "softmax_long": samples.softmax_long(tile=(8, 1024)), "softmax_long_row": samples.softmax_long(),
        "softmax_long_rows": samples.softmax_long(37, 2500, "bf16", (16, 512)),
        "softmax_long_open": samples.softmax_long(M, N, tile=(8, 1024)),
        "matmul_bias": samples.matmul_bias(300, 400, 500, tile=(128, 128, 128)),
        "matmul_bias_f32": samples.matmul_bias(300, 200, 260, dtype="f32", tile=(128, 128, 128)),
        "matmul_whole": samples.matmul_bias(tile=dots),
        "matmul_batched": samples.matmul_bias(130, 140, 150, batch=3, tile=dots),
        "matmul_open": samples.matmul_bias(M, tile=dots), "matmul_open_k": samples.matmul_bias(M, 72, N, tile=dots),
        "matmul_tiny": samples.matmul_bias(1, 1, 1, tile=dots),
        "attention": samples.attention(tile=(32, 128)),
        "attention_blocks": samples.attention(queries=300, keys=300, tile=(128, 128)),
        "attention_full": samples.attention(queries=150, keys=300, causal=False, tile=(64, 128)),
        "attention_long_keys": samples.attention(queries=170, keys=283, tile=(64, 128)),
        "attention_f32": samples.attention(dtype="f32", width=80, queries=200, keys=200, tile=(64, 128)),
        "column_sums": samples.column_sums(tile=(16, 128)), "column_sums_blocks": samples.column_sums(330, 700, tile=(64, 256)),
    }  # fmt: skip


Reference = Callable[[Mapping[str, np.ndarray]], np.ndarray]


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def _attention(a: Mapping[str, np.ndarray], causal: bool) -> np.ndarray:
    q, k, v = a["q"], a["k"], a["v"]
    s = np.einsum("bhgmd,bhnd->bhgmn", q, k) * q.shape[-1] ** -0.5
    m, n = s.shape[-2:]
    if causal:
        s = np.where(np.arange(n)[None, :] <= np.arange(m)[:, None] + n - m, s, -np.inf)
    return np.einsum("bhgmn,bhnd->bhgmd", _softmax(s), v)


def reference(name: str) -> Reference:
    """The float64 answer of a sample."""
    if name.startswith("add_bias"):
        return lambda a: np.maximum(a["x"] + a["b"], 0)
    if name.startswith("transpose"):
        return lambda a: a["x"].T
    if name.startswith("softmax"):
        return lambda a: _softmax(a["x"])
    if name.startswith("matmul"):
        return lambda a: _gelu(a["a"] @ a["w"] + a["bias"])
    if name.startswith("attention"):
        return lambda a: _attention(a, "full" not in name)
    return lambda a: a["x"].sum(0)


def buffers(program: Program, sizes: Mapping[str, int], seed: int = 0) -> dict[str, HostBuffer]:
    """Inputs filled with random numbers, outputs with NaN (or a pattern)."""
    rng = np.random.default_rng(seed)
    found = {}
    for a in program.arrays:
        if a.role == "temporary":
            continue
        shape, kind = program.shape(a.name, sizes), NUMPY[a.dtype]
        storage = np.zeros(int(np.prod(shape, dtype=np.int64)) * kind.itemsize, np.uint8)
        buffer = HostBuffer(a.name, storage, 0, shape, kind)
        if a.role != "output":
            values = rng.standard_normal(shape) if kind.kind in "fV" else rng.integers(-5, 6, shape)
            buffer.array[...] = values.astype(kind)
        elif kind.kind in "fV":
            buffer.array[...] = np.nan
        found[a.name] = buffer
    return found


def inputs64(program: Program, found: Mapping[str, HostBuffer]) -> dict[str, np.ndarray]:
    return {a.name: found[a.name].array.astype(np.float64) for a in program.by_role("input", "scalar")}


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference relative to the size of the answer; NaN counts as infinite."""
    if wanted.size == 0:
        return 0.0
    difference = np.abs(found.astype(np.float64) - wanted)
    return float(np.where(np.isnan(difference), np.inf, difference).max() / max(1.0, np.abs(wanted).max()))
