"""What every element of a large output is compared with: the tensor program itself on an array library's arrays."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from portakern.backend import Target
from portakern.check.sampled import LARGE_FLOPS, Reference, program_reference
from portakern.errors import PortakernError, ToolMissing
from portakern.ir.tensor import TensorProgram
from portakern.spec.bind import bind
from portakern.spec.cost import cost
from portakern.study.turns import between_processes
from portakern.study.work import Work
from portakern.timing.inputs import ArrayPlace, HostPlace, TorchPlace, give_back, to_numpy, torch_place
from portakern.timing.peers import precision_of


def reference_for(work: Work, target: Target, turn: str = "") -> Reference:
    """The program on torch's tensors where the kernel runs; on numpy's arrays where there is no torch, or it has not the
    operations.  ``turn`` names a device that is used while nobody times there."""
    program = bind(work.program, work.sizes)
    if importlib.util.find_spec("torch") is not None:
        try:
            where = TorchPlace("cpu") if target.device.kind == "cpu" else torch_place()
        except ToolMissing:  # no such silicon: what a simulator runs, it runs on the host
            where = TorchPlace("cpu")
        held = _Held(where)
        try:
            found = program_reference(program, held.put, to_numpy, "torch", "the program on torch's tensors",
                                      lambda: _torch_in_turn(program, turn))  # fmt: skip
            on_host = where.device.type == "cpu"
            exact = _with_room(found.exact, on_host and LARGE_FLOPS, program)
            unrounded = _with_room(found.unrounded, on_host and DECIDING_FLOPS, program)
            return replace(found, compute=lambda inputs: held.computed(found, inputs), exact=exact, unrounded=unrounded)
        except PortakernError:
            pass  # numpy has them all
    return program_reference(program, HostPlace().put, np.asarray, "numpy", "the program on numpy's arrays")


DECIDING_FLOPS = 16 * LARGE_FLOPS
"""What a host computes in float64 where that decides of right and wrong, which is worth half a minute."""


Computed = Callable[[Mapping[str, np.ndarray]], Sequence[Any] | None]


def _with_room(exact: Computed | None, most_flops: int, program: TensorProgram) -> Computed | None:
    """``exact``, which gives nothing where there is no room for numbers twice as wide, or torch lacks an operation on them; no
    such function of a program with more than ``most_flops`` (0: any), for whose convolutions libraries have no quick ones."""
    flops = cost(program).flops
    if exact is None or (most_flops and not (isinstance(flops, int) and flops <= most_flops)):
        return None

    def computed(inputs: Mapping[str, np.ndarray]) -> Sequence[Any] | None:
        import torch

        try:
            return exact(inputs)
        except (torch.OutOfMemoryError, NotImplementedError):
            give_back()
            return None

    return computed


class _Held:
    """Where tensors are put: the host's memory once the device had no room for them."""

    def __init__(self, place: ArrayPlace) -> None:
        self.place = place

    def put(self, host: np.ndarray) -> Any:
        return self.place.put(host)

    def computed(self, reference: Reference, inputs: Mapping[str, np.ndarray]) -> Sequence[Any]:
        import torch

        try:
            return reference.compute(inputs)
        except torch.OutOfMemoryError:
            pass
        give_back()
        self.place = TorchPlace("cpu")
        return reference.compute(inputs)


@contextlib.contextmanager
def _torch_in_turn(program: TensorProgram, turn: str) -> Iterator[None]:
    """PyTorch computes as precisely as the program says (its own default of tf32 for convolutions is no rounding of f32), and
    gives back what it took."""
    with between_processes(turn) if turn else contextlib.nullcontext(), precision_of(program):
        try:
            yield
        finally:
            give_back()
