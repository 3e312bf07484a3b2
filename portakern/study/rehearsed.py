"""The operator that a process is rehearsed with before it holds a kernel (:mod:`portakern.referee.zygote`)."""

# pyright: reportUndefinedVariable=false
# (dims are names in annotations)

from __future__ import annotations

import portakern.spec.functions as f
from portakern.backend import OpensDevices, Target
from portakern.dtypes import numpy_dtype
from portakern.errors import PortakernError
from portakern.ir.tensor import tensor_type
from portakern.referee.zygote import Rehearsal, Rehearsals
from portakern.registry import registry
from portakern.spec.annotations import Tensor
from portakern.spec.operator import Operator, operator
from portakern.study import steps
from portakern.study.work import Problem, works

SIZES = {"M": 4, "N": 40}


@operator
def rehearsed(x: Tensor["M", "N"], w: Tensor["N"]):  # noqa: F821
    """What many kernels do, and none is asked for: a maximum, a sum, exponentials, a root, a choice."""
    shifted = f.exp(x - f.max(x, axis=-1, keepdims=True))
    scaled = x * f.rsqrt(f.mean(x * x, axis=-1, keepdims=True) + 1.5) * w
    return f.where(x > 0.0, scaled, shifted / f.sum(shifted, axis=-1, keepdims=True))


@operator
def begun(x: Tensor["M", "N"]):  # noqa: F821
    """The least that a kernel does: what is rehearsed for every kernel anew must not take long."""
    return x + 1.0


def rehearsals_for(target: Target, runner: str) -> Rehearsals:
    """None at all for a language that cannot emit it: its kernels wait for what the first one sets up.  A device with memory of
    its own is opened by each child for itself, whatever may be done before."""
    language = registry().language(target.language)
    forks = language.forks and not (isinstance(language.toolchain, OpensDevices) and language.toolchain.opens_devices)
    if forks and (runner != "runtime" or target.device.kind == "cpu"):
        return _rehearsal(rehearsed, target, runner), None
    before = _rehearsal(rehearsed, target, "") if forks else None
    return before, _rehearsal(begun, target, runner) if runner or before is None else None


def _rehearsal(operator: Operator, target: Target, runner: str) -> Rehearsal | None:
    try:
        (work,) = works(Problem(operator, SIZES, {}), [target], ["f32"], "default")
        source = steps.emission(work).source
    except PortakernError:
        return None
    named = zip(work.program.outputs, work.program.results, strict=True)
    arrays = [(a.name, tensor_type(a)) for a in work.program.args] + [(n, tensor_type(r)) for n, r in named]
    buffers = tuple((n, tuple(int(s) for s in t.shape), numpy_dtype(t.dtype).name) for n, t in arrays)  # type: ignore[arg-type]
    return Rehearsal(source, runner, buffers)
