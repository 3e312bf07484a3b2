"""Roundings that a kernel may leave out: those to bf16 and f16 between an operator's operations.

An operator says where it rounds, and our kernels do.  PyTorch's fused kernels, and many a good one from elsewhere, keep such
values in float32, which is nearer to the mathematics.  So a stranger's kernel may do either; the values that it gives are
rounded, and narrower types and integers always are, since numbers are made small there on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.tensor import TensorProgram

NARROW = ("bf16", "f16")

_free: ContextVar[bool] = ContextVar("free", default=False)
_kept: ContextVar[frozenset[int] | None] = ContextVar("kept", default=None)


@contextmanager
def free_rounding(free: bool = True) -> Iterator[None]:
    """Whether kernels that are compared meanwhile may leave roundings out."""
    token = _free.set(free)
    try:
        yield
    finally:
        _free.reset(token)


def is_free() -> bool:
    return _free.get()


@contextmanager
def of_program(program: TensorProgram) -> Iterator[None]:
    """While bounds go through this program."""
    token = _kept.set(frozenset(map(id, program.results)) if _free.get() else None)
    try:
        yield
    finally:
        _kept.reset(token)


def may_be_left_out(op: Op) -> bool:
    """Whether a rounding is free: not that of an output."""
    kept = _kept.get()
    return kept is not None and isinstance(op, t.Convert) and op.dtype in NARROW and id(op) not in kept
