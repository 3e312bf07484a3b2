"""Whether kernels compute what a module does, and how fast: nothing is replaced without that."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from portakern.check import agreement as close
from portakern.check.sampled import affordable
from portakern.errors import PortakernError
from portakern.ir.tensor import tensor_type
from portakern.study.steps import judged
from portakern.study.work import Work
from portakern.torch_import import ImportedOperator
from portakern.torch_import.agreement import agreement, in_float64
from portakern.torch_import.arrays import as_numpy
from portakern.torch_import.trees import leaves
from portakern.torch_swap.recording import Call
from portakern.torch_swap.stand_in import Kernels

ROUNDS, SECONDS = 5, 0.3
"""How often both are timed in turns at least, and how long at most after that."""


def verify(op: ImportedOperator, work: Work, kernels: Kernels, call: Call) -> float:
    """The largest error of the kernels as a share of its bound.

    The import is held against PyTorch in float64, the kernels against the float64 oracle within their bounds, and the results
    on the example, as the stand-in gives them, against the module's in float64.

    Raises:
        PortakernError: one of them is wrong.
    """
    if affordable(op.program(op.typical.dims)):
        agreement(op).raise_if_wrong(op)
    verdict = judged(kernels.built.executable, work, 0, full=False).verdict
    if not verdict.correct:
        raise PortakernError("incorrect", verdict.message)
    made = [x for x in leaves(kernels(leaves((call.args, dict(call.kwargs))))) if hasattr(x, "detach")]
    dtypes = tuple(tensor_type(r).dtype for r in op.program().results)
    for name, ours, theirs in zip(op.program().outputs, made, in_float64(op), strict=True):
        found = close.agreement(theirs, as_numpy(ours), (*dtypes, *op.dtypes))
        if found.message:
            raise PortakernError("incorrect", f"{name} against the module in float64: {found.message}")
    return verdict.max_error_ratio


def times_as_fast(theirs: Callable[[], Any], ours: Callable[[], Any]) -> float:
    """How many times as fast ``ours`` is, by the quickest of runs in turns, which what else the machine does disturbs least."""
    import torch

    taken: tuple[list[float], list[float]] = ([], [])
    with torch.no_grad():
        theirs()
        ours()
        begun = time.perf_counter()
        while len(taken[0]) < ROUNDS or time.perf_counter() - begun < SECONDS:
            for run, seconds in zip((theirs, ours), taken, strict=True):
                at = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - at)
    return min(taken[0]) / min(taken[1])
