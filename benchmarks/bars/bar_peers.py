"""What the cases of benchmarks/nvidia.py are compared with, and their traced programs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from bar_cases import Case

from portakern.api import split
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study.work import Problem, works
from portakern.timing import peers as peer_forms

EAGER, COMPILED = "torch.eager", "torch.compile"

SDPA = {"cuDNN": "CUDNN_ATTENTION", "Flash": "FLASH_ATTENTION", "memory-efficient": "EFFICIENT_ATTENTION"}
"""PyTorch's backends of attention, each a peer of its own."""

Function = Callable[..., Any]


def work_of(case: Case, target: str) -> Any:
    op = load_operator(case.operator)
    dims, params = split(op, case.values)
    return works(Problem(op, dims, params), [registry().target(target)], [case.dtype])[0]


def subject_of(work: Any) -> peer_forms.Subject:
    return peer_forms.Subject(work.program, work.torch, work.row.params or {})


def eager(case: Case, subject: peer_forms.Subject) -> dict[str, Callable[[], Function]]:
    """How to make each of PyTorch's own forms, by name: one, or every backend of attention."""
    if case.eager != "sdpa":
        return {EAGER: lambda: peer_forms.find(EAGER, subject).call}
    causal = bool(case.values.get("causal"))
    found = {f"SDPA {name}": lambda b=backend: sdpa(b, causal) for name, backend in SDPA.items()}
    if case.values["G"] > 1 and not causal:
        found |= {f"SDPA {name}, queries of a group as rows": lambda b=backend: folded(b) for name, backend in SDPA.items()}
    return found


def compile_mode(subject: peer_forms.Subject) -> str:
    return peer_forms.COMPILE_MODES[subject.has_products]


def compiled(case: Case, subject: peer_forms.Subject) -> Function:
    """torch.compile of it, from the beginning; compiles at the first call."""
    import torch

    plain = sdpa("", bool(case.values.get("causal"))) if case.eager == "sdpa" else peer_forms.find(COMPILED, subject).call
    peer_forms.fresh_compiler()
    return torch.compile(plain, mode=compile_mode(subject), dynamic=False)


def sdpa(backend: str, causal: bool = True) -> Function:
    """PyTorch's attention by one backend; by whichever it chooses where none is named.  Heads of a group share their keys."""
    import torch.nn.functional as F

    def call(q: Any, k: Any, v: Any) -> Any:
        with _only(backend):
            found = F.scaled_dot_product_attention(q.flatten(1, 2), k, v, is_causal=causal, enable_gqa=q.shape[2] > 1)
        return found.unflatten(1, q.shape[1:3])

    return call


def folded(backend: str) -> Function:
    """The same without a mask, where the queries of a group are further rows of one head: keys are read once for all."""
    import torch.nn.functional as F

    def call(q: Any, k: Any, v: Any) -> Any:
        with _only(backend):
            return F.scaled_dot_product_attention(q.flatten(2, 3), k, v).unflatten(2, q.shape[2:4])

    return call


def _only(backend: str) -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([getattr(SDPBackend, backend)]) if backend else contextlib.nullcontext()
