"""portakern: one operator, written once as math on arrays, as native kernels for every accelerator.

Public names are loaded on first use, so that ``import portakern`` stays quick and imports no other package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from portakern.version import __version__

# The functions an operator is written with.
_FUNCTIONS = [
    "abs", "adaptive_avg_pool", "adaptive_max_pool", "add", "all", "any", "arange", "argmax", "argmin",
    "argsort", "associative_scan", "avg_pool", "bernoulli", "bincount", "bitcast", "broadcast_to", "cast",
    "ceil", "cholesky", "clip", "concat", "conv", "cos", "cummax", "cummin", "cumprod", "cumsum", "det",
    "diag", "divide", "dot", "dropout", "einsum", "equal", "erf", "exp", "exp2", "expand_dims", "expm1", "fft",
    "flip", "floor", "floor_divide", "full", "gelu", "greater", "greater_equal", "grouped_matmul", "histogram",
    "ifft", "index_put", "interleave", "iota", "irfft", "isnan", "kthvalue", "less", "less_equal",
    "local_response_norm", "log", "log1p", "log2", "log_softmax", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsumexp", "lp_pool", "matmul", "max", "max_pool", "maximum", "mean", "median", "min",
    "min_pool", "minimum", "mode", "multiply", "negative", "normal", "not_equal", "one_hot", "ones", "pack", "pad",
    "permute", "pow", "prod", "random_bits", "reciprocal", "relu", "remainder", "repeat", "reshape", "rfft",
    "roll", "round", "rsqrt", "scan", "scatter", "searchsorted", "segment_all", "segment_any", "segment_max",
    "segment_mean", "segment_min", "segment_prod", "segment_sum", "shift_left",
    "shift_right", "sigmoid", "sign", "silu", "sin", "size", "softmax", "softplus", "solve_triangular",
    "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take",
    "take_along", "tanh", "tile", "topk", "transpose", "tri", "tril", "triu", "trunc", "unfold", "uniform",
    "unique_counts", "unpack", "update", "var", "where", "windows", "zeros",
]  # fmt: skip

_DTYPES = [
    "bf16", "f16", "f32", "f64", "f8e4m3", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "i4", "i8", "i16", "i32", "i64",
    "u4", "u8", "u16", "u32", "u64",
]  # fmt: skip

# Public name -> the module that defines it.
_PUBLIC: dict[str, str] = {
    "PortakernError": "portakern.errors",
    "bench": "portakern.api",
    "build": "portakern.api",
    "compare": "portakern.api",
    "evaluate": "portakern.api",
    "gate": "portakern.api",
    "inspect": "portakern.api",
    "judge": "portakern.api",
    "results": "portakern.api",
    "sweep": "portakern.api",
    "task": "portakern.api",
    "tune": "portakern.api",
    "from_torch": "portakern.torch_import",
    "grad": "portakern.gradients",
    "model": "portakern.model_study",
    "swap": "portakern.torch_swap",
    "targets": "portakern.registry",
    "operator": "portakern.spec.operator",
    "Operator": "portakern.spec.operator",
    "dynamic": "portakern.spec.operator",
    "load_operator": "portakern.spec.load",
    "Tensor": "portakern.spec.annotations",
    "Scalar": "portakern.spec.annotations",
    "Normal": "portakern.spec.inputs",
    "Uniform": "portakern.spec.inputs",
    "Integers": "portakern.spec.inputs",
    "Labels": "portakern.spec.inputs",
    "Offsets": "portakern.spec.inputs",
    **dict.fromkeys(_FUNCTIONS, "portakern.spec.functions"),
    **dict.fromkeys(_DTYPES, "portakern.dtypes"),
    "boolean": "portakern.dtypes",
}

# Modules that are called or looked into: pk.check(...), pk.emit(...), pk.cache.size().
_MODULES = ("cache", "check", "emit")

__all__ = ["__version__", *_PUBLIC, *_MODULES]

if TYPE_CHECKING:  # the same names for type checkers, which do not follow __getattr__
    from portakern import cache
    from portakern.api import bench, build, check, compare, emit, evaluate, gate, inspect, judge, results, sweep, task, tune
    from portakern.dtypes import (
        bf16,
        boolean,
        f8e4m3,
        f8e4m3fnuz,
        f8e5m2,
        f8e5m2fnuz,
        f16,
        f32,
        f64,
        i8,
        i16,
        i32,
        i64,
        u8,
        u16,
        u32,
        u64,
    )
    from portakern.errors import PortakernError
    from portakern.gradients import grad
    from portakern.model_study import model
    from portakern.registry import targets
    from portakern.spec.annotations import Scalar, Tensor
    from portakern.spec.functions import *
    from portakern.spec.inputs import Integers, Labels, Normal, Offsets, Uniform
    from portakern.spec.load import load_operator
    from portakern.spec.operator import Operator, dynamic, operator
    from portakern.torch_import import from_torch
    from portakern.torch_swap import swap


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"portakern.{name}")
    raise AttributeError(f"module 'portakern' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_MODULES})
