"""What the cases of benchmarks/nvidia.py are compared with, and their traced programs."""

from __future__ import annotations

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
    if case.eager == "sdpa":
        return {f"SDPA {name}": lambda b=backend: sdpa(b) for name, backend in SDPA.items()}
    return {EAGER: lambda: peer_forms.find(EAGER, subject).call}


def compile_mode(subject: peer_forms.Subject) -> str:
    return peer_forms.COMPILE_MODES[subject.has_products]


def compiled(case: Case, subject: peer_forms.Subject) -> Function:
    """torch.compile of it, from the beginning; compiles at the first call."""
    import torch

    plain = sdpa("") if case.eager == "sdpa" else peer_forms.find(COMPILED, subject).call
    peer_forms.fresh_compiler()
    return torch.compile(plain, mode=compile_mode(subject), dynamic=False)


def sdpa(backend: str) -> Function:
    """PyTorch's causal attention by one backend; by whichever it chooses where none is named."""
    import contextlib

    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def call(q: Any, k: Any, v: Any) -> Any:
        with sdpa_kernel([getattr(SDPBackend, backend)]) if backend else contextlib.nullcontext():
            return F.scaled_dot_product_attention(q[:, :, 0], k, v, is_causal=True)[:, :, None]

    return call
