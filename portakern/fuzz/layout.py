"""Arrays of a check that lie in memory otherwise than their kernels' default: strided, misaligned, or one array twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from portakern.backend import HostBuffer
from portakern.check.buffers import GUARD_BYTES, PAGE, Poison, guarded, surround
from portakern.check.stages import Checking
from portakern.ir.program import ArrayFacts
from portakern.ir.tensor import TensorProgram


@dataclass
class StridedBuffer(HostBuffer):
    """A host array with gaps: ``strides`` in bytes."""

    strides: tuple[int, ...] = ()

    @property
    def reach(self) -> int:
        return sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.dtype.itemsize

    @property
    def array(self) -> np.ndarray:
        first = self.storage[self.offset :].view(np.uint8)
        return np.ndarray(self.shape, self.dtype, first.data, 0, self.strides)


def laid_out(name: str, x: np.ndarray, facts: ArrayFacts, poison: Poison) -> HostBuffer:
    """``x`` copied between guard bands with the strides of ``facts`` at an address that no more than its alignment divides."""
    width = x.dtype.itemsize
    plain = tuple(s // width for s in np.empty(x.shape, x.dtype).strides)
    strides = tuple(s * width for s in (facts.strides or plain))
    reach = sum((n - 1) * s for n, s in zip(x.shape, strides, strict=True)) + width
    shift = facts.align if facts.align < 16 else 0
    raw = np.empty(-(-(reach + shift) // PAGE) * PAGE + 2 * GUARD_BYTES + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    storage = raw[start : raw.size - (PAGE - start)]
    buffer = StridedBuffer(name, storage, GUARD_BYTES + shift, x.shape, x.dtype, strides)
    surround(buffer, poison)
    storage[buffer.offset : buffer.offset + buffer.reach] = poison.bytes(name, "in", buffer.reach)
    buffer.array[...] = x
    return buffer


class LaidOut(Checking):
    """A check whose inputs lie as ``facts`` say; inputs that are one object share their memory."""

    facts: Mapping[str, ArrayFacts] = {}

    def given(self, inputs: Mapping[str, np.ndarray], poison: Poison) -> dict[str, HostBuffer]:
        places: dict[int, HostBuffer] = {}
        for name, x in inputs.items():
            if id(x) not in places:
                facts = self.facts.get(name)
                places[id(x)] = laid_out(name, x, facts, poison) if facts and x.size else guarded(name, x, poison)
        return {name: places[id(x)] for name, x in inputs.items()}


def shared(program: TensorProgram, inputs: Mapping[str, np.ndarray], facts: Mapping[str, ArrayFacts]) -> dict[str, np.ndarray]:
    """``inputs`` where arrays of one type are one array."""
    first: dict[object, np.ndarray] = {}
    kinds = {a.name: (str(a.type), facts.get(a.name)) for a in program.args}
    return {n: first.setdefault(kinds[n], x) if x.shape else x for n, x in inputs.items()}
