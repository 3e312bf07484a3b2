"""Gradients against PyTorch's autograd of the same program, both in float64."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import portakern as pk
from portakern.array_program.function import array_function
from portakern.dtypes import DTYPES
from portakern.ir.core import format_function
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.ir.text import parse_function
from portakern.spec.inputs import Family, at_sizes, make_inputs


def in_f64(program: TensorProgram) -> TensorProgram:
    """``program`` with f64 in place of f32, so that nothing rounds."""
    return parse_function(re.sub(r"\bf32\b", "f64", format_function(program)))  # type: ignore[return-value]


def drawn(program: TensorProgram, families: Mapping[str, Family], seed: int = 0) -> dict[str, np.ndarray]:
    found = make_inputs(program, families, seed)
    return {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in found.items()}


def both(operator: pk.Operator, dims: Mapping[str, Any], params: Mapping[str, Any] | None = None,
         wrt: Any = None, seed: int = 0, save: Any = ()) -> dict[str, tuple[np.ndarray, np.ndarray]]:  # fmt: skip
    """(ours, PyTorch's) for every gradient, for standard normal gradients of the outputs."""
    backward = pk.grad(operator, wrt, save)
    params = dict(params or {})
    forward = in_f64(operator.program(dims, params, "f32"))
    program = in_f64(backward.program(dims, params, "f32"))
    given = drawn(program, at_sizes(backward.families, dims), seed)
    tensors = [torch.tensor(given[a.name], requires_grad=_is_float(a) and a.name not in forward.scalars) for a in forward.args]
    made = array_function(forward, "torch").call(*tensors)
    outputs = dict(zip(forward.outputs, made if isinstance(made, tuple) else (made,), strict=True))
    given |= {n: outputs[n].detach().numpy() for n in backward.save}
    ours = evaluate(program, given)
    total = sum((outputs[n] * torch.tensor(given[f"d_{n}"])).sum() for n in backward.cotangents)
    inputs = {a.name: x for a, x in zip(forward.args, tensors, strict=True)}
    wanted = [inputs[n] for n in backward.wrt]
    assert isinstance(total, torch.Tensor)
    theirs = torch.autograd.grad(total, wanted, allow_unused=True)
    return {n: (ours[f"d_{n}"], np.zeros(tuple(x.shape)) if g is None else g.numpy())
            for n, x, g in zip(backward.wrt, wanted, theirs, strict=True)}  # fmt: skip


def agree(operator: pk.Operator, dims: Mapping[str, Any], params: Mapping[str, Any] | None = None, wrt: Any = None,
          save: Any = (), rtol: float = 1e-7) -> None:  # fmt: skip
    """Whether every gradient is PyTorch's."""
    for name, (ours, theirs) in both(operator, dims, params, wrt, save=save).items():
        scale = np.abs(theirs).max(initial=0.0) or 1.0
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * scale, err_msg=f"d_{name} of {operator.name}")


def _is_float(arg: Any) -> bool:
    return DTYPES[tensor_type(arg).dtype].is_float
