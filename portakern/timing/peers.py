"""What a kernel is timed against: numpy, PyTorch as it is and compiled, or a function in a file.

A peer is called with the operator's inputs in order and its parameters by name.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError, ToolMissing, UsageError

NAMES = ("numpy", "torch.eager", "torch.compile")


@dataclass(frozen=True)
class Peer:
    """``call(*arrays)`` does the work on arrays of the kind ``arrays`` (``numpy`` or ``torch``)."""

    name: str
    arrays: str
    call: Callable[..., Any]


def check_names(names: Sequence[str]) -> None:
    """Raises :class:`UsageError` for what is no peer and no file:function."""
    for name in names:
        if name in NAMES:
            continue
        path, _, function = name.rpartition(":")
        if not path.endswith(".py") or not function:
            raise UsageError(f"unknown peer {name!r}", hint=f"peers are {', '.join(NAMES)} and FILE.py:FUNCTION")
        if not Path(path).is_file():
            raise UsageError(f"there is no file {path}", hint="a peer in a file is given as FILE.py:FUNCTION")


def find(name: str, operator: str, torch_function: str, params: Mapping[str, Any]) -> Peer:
    """The peer called ``name`` for an operator.

    Args:
        name: as in :func:`check_names`.
        operator: the operator's name.
        torch_function: the ``module:name`` it declares as its counterpart in PyTorch, or ''.
        params: its compile-time parameters.

    Raises:
        PortakernError: it has no such peer, or what the peer needs is not installed.
    """
    if name == "numpy":
        if operator not in NUMPY:
            raise PortakernError("no-peer", f"no numpy form of {operator} is known", hint="write one: FILE.py:FUNCTION")
        return Peer(name, "numpy", _with(NUMPY[operator], params))
    if name in ("torch.eager", "torch.compile"):
        if importlib.util.find_spec("torch") is None:
            raise ToolMissing(f"{name} needs torch", hint="pip install 'portakern[torch]'")
        call = _with(_torch_form(operator, torch_function), params)
        return Peer(name, "torch", call if name == "torch.eager" else _compiled(call))
    return _from_file(name, params)


def _with(function: Callable[..., Any], params: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda *arrays: function(*arrays, **params)


def _torch_form(operator: str, torch_function: str) -> Callable[..., Any]:
    if operator in TORCH:
        return TORCH[operator]
    if not torch_function:
        raise PortakernError("no-peer", f"{operator} names no counterpart in PyTorch",
                             hint="declare one, @pk.operator(torch='module:function'), or give FILE.py:FUNCTION")
    module, _, function = torch_function.partition(":")
    return getattr(importlib.import_module(module), function)


def _compiled(call: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    return torch.compile(call)


def _from_file(name: str, params: Mapping[str, Any]) -> Peer:
    path, _, function = name.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"portakern_peer_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise PortakernError("peer", f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PortakernError("peer", f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise PortakernError("peer", f"{path} has no function {function!r}")
    # A file that works with torch imports it; any other is given numpy arrays.
    return Peer(name, "torch" if hasattr(module, "torch") else "numpy", _with(found, params))


# ---- numpy ---------------------------------------------------------------------------------------------------------


def _np() -> Any:
    import numpy

    return numpy


def _f32(x: Any) -> Any:
    return x.astype("float32")


def _np_softmax(x: Any) -> Any:
    e = _np().exp(_f32(x) - _f32(x).max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)


def _np_layer_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    f = _f32(x)
    d = f - f.mean(-1, keepdims=True)
    return (d / _np().sqrt((d * d).mean(-1, keepdims=True) + eps) * _f32(weight) + _f32(bias)).astype(x.dtype)


def _np_rms_norm(x: Any, w: Any, eps: float) -> Any:
    f = _f32(x)
    return (f / _np().sqrt((f * f).mean(-1, keepdims=True) + eps)).astype(x.dtype) * w


def _np_matmul(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    return (_f32(a) @ _f32(b)).astype(a.dtype)


def _np_matmul_bias_gelu(x: Any, w: Any, bias: Any) -> Any:
    y = _f32(x) @ _f32(w) + _f32(bias)
    return (0.5 * y * (1 + _np().tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))).astype(x.dtype)


def _np_silu_mul(gate: Any, up: Any) -> Any:
    g = _f32(gate)
    return (g / (1 + _np().exp(-g)) * _f32(up)).astype(gate.dtype)


def _np_attention(q: Any, k: Any, v: Any, causal: bool, scale: float | None) -> Any:
    s = _f32(q) @ _f32(k)[:, :, None].swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        s = _np().where(_np().tri(q.shape[-2], k.shape[-2], dtype=bool), s, -math.inf)
    return (_np_softmax(s) @ _f32(v)[:, :, None]).astype(v.dtype)


NUMPY: dict[str, Callable[..., Any]] = {
    "add_relu": lambda a, b, broadcast: _np().maximum(a + b, 0).astype(a.dtype),
    "attention": _np_attention,
    "layer_norm": _np_layer_norm,
    "matmul": _np_matmul,
    "matmul_bias_gelu": _np_matmul_bias_gelu,
    "rms_norm": _np_rms_norm,
    "row_sum": lambda x: _f32(x).sum(-1).astype(x.dtype),
    "silu_mul": _np_silu_mul,
    "softmax": _np_softmax,
    "transpose": lambda x: _np().ascontiguousarray(x.T),
}

# ---- PyTorch, as its users write it ----------------------------------------------------------------------------------


def _F() -> Any:
    import torch.nn.functional

    return torch.nn.functional


def _torch_matmul(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    return (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)


def _torch_attention(q: Any, k: Any, v: Any, causal: bool, scale: float | None) -> Any:
    b, h, g, s, d = q.shape
    out = _F().scaled_dot_product_attention(q.reshape(b, h * g, s, d), k, v, is_causal=causal, scale=scale, enable_gqa=g > 1)
    return out.reshape(b, h, g, s, d)


TORCH: dict[str, Callable[..., Any]] = {
    "add_relu": lambda a, b, broadcast: (a + b).relu(),
    "attention": _torch_attention,
    "layer_norm": lambda x, weight, bias, eps: _F().layer_norm(x, x.shape[-1:], weight, bias, eps),
    "matmul": _torch_matmul,
    "matmul_bias_gelu": lambda x, w, bias: _F().gelu(x @ w + bias, approximate="tanh"),
    "rms_norm": lambda x, w, eps: _F().rms_norm(x, x.shape[-1:], w, eps),
    "row_sum": lambda x: x.sum(-1),
    "silu_mul": lambda gate, up: _F().silu(gate) * up,
    "softmax": lambda x: _F().softmax(x, -1),
    "transpose": lambda x: x.T.contiguous(),
}
