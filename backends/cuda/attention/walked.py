"""Whether attention can be a walk of warpgroups along the keys, on Hopper or on Blackwell."""

from __future__ import annotations

from portakern.backend import Target
from portakern.errors import ScheduleError
from portakern.ir import tile as t

from ..plans import CudaKernelPlan
from .planning import Obstacle, Walk
from .tensor_planning import TensorWalk


def walked(plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> CudaKernelPlan:
    """``plan`` as a walk of warpgroups where that is possible and not forbidden.

    Raises :class:`ScheduleError` where the schedule asks for it and it cannot be had.
    """
    if kernel.family != "attention":
        return plan
    asked = [str(kernel.schedule.option(name, "auto")) for name in ("mma", "copies")]
    if "sync" in asked or "threads" in asked:
        return plan
    walk = TensorWalk if target.device.has("tcgen05") else Walk
    try:
        return walk(plan, kernel, target).plan()
    except Obstacle as obstacle:
        if not {"engine", "wgmma", "tcgen05"} & {*asked}:
            return plan
        raise ScheduleError(f"{kernel.name} cannot be a walk of warpgroups on {target}: {obstacle}",
                            hint="take mma=sync, or other tiles", schedule=str(kernel.schedule)) from None  # fmt: skip
