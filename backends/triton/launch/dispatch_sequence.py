"""What a Triton host function launches on a machine that executes its machine code.

The host function runs on tensors on the CPU with its launches noted (:mod:`.recording`), compiled for the target and not
for what is here, so grids, specialisations and arguments are those that Triton's launcher would have used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from portakern.backend import Argument, ArrayFill, CompiledBinary, Dispatch, DispatchSequence, Source
from portakern.errors import CompileError
from portakern.launch.dispatch import number_bytes

from ..compile.source_module import load_module, parameters, shape_of, strides_of, torch_dtype
from ..compile.worker import compiling_for, prepare_compiler
from .recording import SCALARS, NotReplayable, RecordedFill, RecordedLaunch, record
from .replay import PointerSource, pointer_source

_OURS = "portakern_made_{}"
"""Names of the tensors that a host function allocates."""


def dispatch_sequence(source: Source, binary: CompiledBinary, sizes: Mapping[str, int],
                      scalars: Mapping[str, Any]) -> DispatchSequence:  # fmt: skip
    """Raises :class:`CompileError` where the host function does more than allocate, fill and launch."""
    import torch

    prepare_compiler()
    arguments: list[Any] = []
    names: list[str] = []
    for array in parameters(source):
        if array.role == "scalar":
            value = scalars[array.name]
            arguments.append(value.item() if hasattr(value, "item") else value)
            continue
        known = dict(sizes)
        arguments.append(torch.empty_strided(shape_of(array, known), strides_of(array, known), dtype=torch_dtype(array.dtype)))
        names.append(array.name)
    with compiling_for(source.target.device.isa, launch=True):
        function = getattr(load_module(source), source.entry)
        try:
            found = record(function, arguments)
        except NotReplayable as why:
            raise CompileError(f"{source.operator} for {source.target} cannot be run off-silicon: {why}") from None
    tensors = [x for x in arguments if isinstance(x, torch.Tensor)]
    return _NamedTensors(source, tensors, names, found.allocated).sequence(found.steps)


class _NamedTensors:
    """Tensors by the names that a sequence has for them."""

    def __init__(self, source: Source, tensors: Sequence[Any], names: Sequence[str], made: Sequence[Any]) -> None:
        self.source = source
        self.tensors = [*tensors, *made]
        self.names = [*names, *(_OURS.format(n) for n in range(len(made)))]
        self.temporaries = [(_OURS.format(n), x.numel() * x.itemsize) for n, x in enumerate(made)]

    def sequence(self, steps: Sequence[RecordedLaunch | RecordedFill]) -> DispatchSequence:
        done = tuple(self._filled(s) if isinstance(s, RecordedFill) else self._launched(s) for s in steps)
        return DispatchSequence(done, tuple(self.temporaries))

    def _filled(self, step: RecordedFill) -> ArrayFill:
        pointer = self._source_of(step.tensor.data_ptr())
        if pointer.offset or step.tensor.numel() != self.tensors[pointer.array or 0].numel():
            raise CompileError(f"the host function of {self.source.operator} fills a part of a tensor")
        size = step.tensor.itemsize
        pattern = bytes(size) if step.constant is None else _bytes_of_first(step.constant)
        return ArrayFill(self.names[pointer.array or 0], pattern)

    def _launched(self, step: RecordedLaunch) -> Dispatch:
        metadata = step.kernel.metadata
        scratch = math.prod(step.grid) * (getattr(metadata, "global_scratch_size", 0) or 0)
        args = [self._argument(kind, value) for kind, value in step.args]
        if scratch:
            name = _OURS.format(f"scratch_{len(self.temporaries)}")
            self.temporaries.append((name, scratch))
        args += [Argument(name) if scratch else Argument(), Argument()]  # Triton's global scratch and profile scratch
        lanes = metadata.num_warps * metadata.warp_size
        # The code object's own LDS size is 0: Triton's launcher passes all of it as dynamic.
        return Dispatch(metadata.name, step.kernel.asm["hsaco"], step.kernel.asm["amdgcn"], step.grid, (lanes, 1, 1),
                        metadata.shared, tuple(args))  # fmt: skip

    def _argument(self, kind: Any, value: Any) -> Argument:
        if not isinstance(kind, str) or (not kind.startswith("*") and kind not in SCALARS):
            raise CompileError(f"a kernel of {self.source.operator} takes an argument of the type {kind}")
        if not kind.startswith("*"):
            return Argument(value=number_bytes(SCALARS[kind], value))
        if value is None:
            return Argument()
        pointer = self._source_of(value if isinstance(value, int) else value.data_ptr())
        return Argument() if pointer.array is None else Argument(self.names[pointer.array], pointer.offset)

    def _source_of(self, address: int) -> PointerSource:
        try:
            return pointer_source(address, self.tensors)
        except NotReplayable as why:
            raise CompileError(f"{self.source.operator} for {self.source.target} cannot be run off-silicon: {why}") from None


def _bytes_of_first(tensor: Any) -> bytes:
    """The bytes of a tensor's first element."""
    import torch

    return bytes(tensor.flatten()[:1].view(torch.uint8).tolist())
