"""What every element of a large output is compared with: the tensor program itself on an array library's arrays."""

from __future__ import annotations

import importlib.util

import numpy as np

from portakern.backend import Target
from portakern.check.sampled import Reference, program_reference
from portakern.errors import PortakernError, ToolMissing
from portakern.spec.bind import bind
from portakern.study.work import Work
from portakern.timing.inputs import HostPlace, TorchPlace, place_of, to_numpy


def reference_for(work: Work, target: Target) -> Reference:
    """The program on torch's tensors where the kernel runs; on numpy's arrays where there is no torch, or it has not the
    operations."""
    program = bind(work.program, work.sizes)
    if importlib.util.find_spec("torch") is not None:
        try:
            where = TorchPlace("cpu") if target.device.kind == "cpu" else place_of(target)
        except ToolMissing:  # no such silicon: what a simulator runs, it runs on the host
            where = TorchPlace("cpu")
        try:
            return program_reference(program, where.put, to_numpy, "torch", "the program on torch's tensors")
        except PortakernError:
            pass  # numpy has them all
    return program_reference(program, HostPlace().put, np.asarray, "numpy", "the program on numpy's arrays")
