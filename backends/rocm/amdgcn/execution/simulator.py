"""Executes code objects for AMD GPUs on the CPU, from the assembly they were assembled from: evidence ``simulated``.

Arrays keep their addresses, so a kernel works on the caller's memory; what it may touch is the arrays themselves and nothing
around them.  What the simulator models, detects and leaves out is in ``docs/amd-simulator.md``.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portakern.backend import Argument, ArrayFill, Availability, CompiledBinary, Dispatch, HostBuffer, Source, Target
from portakern.errors import RuntimeFault, SimulatorError
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from portakern.launch.dispatch import dispatch_sequence_of
from portakern.tools.cache import Cache, digest

from .. import hazards
from ..code_objects.arguments import Parameter, dispatch_packet, pack, parameters
from .arrays import aligned, empty
from .program import GENERATIONS, Code, load, native, parsed

if TYPE_CHECKING:
    import numpy as np

VERSION = 1
BUDGET = 200_000_000
"""Instructions a wave may execute before it counts as an endless loop."""


class AmdMachine:
    """The simulator of every language that is compiled to AMDGPU code objects."""

    evidence = "simulated"

    def available(self, target: Target) -> Availability:
        if target.device.isa not in GENERATIONS:
            return Availability(False, f"the AMD machine does not know {target.device.isa}")
        try:
            variant = native().variant()
        except SimulatorError as error:
            return Availability(False, f"{error.message}; {error.hint}")
        return Availability(True, f"AMD machine {VERSION} ({variant})")

    def method(self, target: Target) -> str:
        return f"machine code on the AMD machine {VERSION} ({target.device.isa})"

    def load(self, source: Source, binary: CompiledBinary | None) -> MachineProgram:
        if binary is None:
            raise RuntimeFault(
                f"{source.operator} for {source.target} is simulated from a binary only", hint="compile it first"
            )
        return MachineProgram(source, binary)


@dataclass(frozen=True)
class Translated:
    """A kernel as the machine takes it, and where its arguments lie."""

    code: Code
    parameters: tuple[Parameter, ...]


@cache
def _translator() -> str:
    """Changes with the code that translates, and with the handlers it refers to by position."""
    rooms = Path(__file__).parents[1]
    names = ("code_objects", "assembly", "isa", "hazards", "execution")
    files = sorted(f for name in names for f in (rooms / name).glob("*.py"))
    return digest(*((f.name, f.read_bytes()) for f in files), native().handlers(), native().OP_BYTES)


def translate(assembly: str, kernel: str) -> Translated:
    """A kernel of an assembly text, from the cache where it was translated before.

    Raises :class:`SimulatorError` naming the first instruction that the machine does not know.
    """
    key = digest("amd-machine", _translator(), assembly, kernel)
    kept = Cache().get(key)
    if kept is not None:
        return pickle.loads(kept)
    made = Translated(load(assembly, kernel), parameters(assembly).get(kernel, ()))
    _check_wait_states(assembly, kernel, made.code.isa)
    Cache().put(key, pickle.dumps(made, protocol=pickle.HIGHEST_PROTOCOL))
    return made


def _check_wait_states(assembly: str, kernel: str, isa: str) -> None:
    """Raises :class:`SimulatorError` where instructions follow too soon, on paths too that no launch takes."""
    found = hazards.find(parsed(assembly), kernel, GENERATIONS[isa])
    if found:
        i = found[0].instruction
        where = f"line {i.line} of the assembly, `{i}`" + (f" ({i.source})" if i.source else "")
        more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
        raise SimulatorError(f"{kernel}: missing wait states: {where}: {found[0].message}{more}",
                             hint="put s_nop between them; docs/amd-simulator.md lists the rules", where=i.source,
                             kind="hazard")  # fmt: skip


@dataclass(frozen=True)
class Some:
    """Workgroups by their places in the grid; none begins after so many seconds."""

    places: Sequence[int]
    seconds: float


@dataclass
class MachineProgram:
    """The kernels of a source, to be run on host arrays."""

    source: Source
    binary: CompiledBinary
    guards: bool = True
    seed: int = 0
    """Of the order in which the waves of a workgroup take turns."""
    budget: int = BUDGET
    threads: int = 0
    """Over which workgroups are spread; 0: as many as this process may use."""
    executed: int = 0
    """Wave instructions so far."""
    _translated: dict[tuple[str, str], Translated] = field(default_factory=dict, repr=False)
    _images: dict[str, Image] = field(default_factory=dict, repr=False)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Raises :class:`SimulatorError` with the instruction, workgroup, wave and lane of the first thing that is wrong."""
        self._run(buffers, sizes)

    def blocks(self, sizes: Mapping[str, int]) -> int:
        """Workgroups of the one kernel; 0 where there are several launches, or arrays that workgroups leave to each other."""
        sequence = dispatch_sequence_of(self.source, self.binary, sizes)
        launched = [s for s in sequence.steps if isinstance(s, Dispatch)]
        return math.prod(launched[0].grid) if len(launched) == len(sequence.steps) == 1 and not sequence.temporaries else 0

    def run_blocks(self, blocks: Sequence[int], buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int],
                   seconds: float = math.inf) -> int:  # fmt: skip
        """As :meth:`run`, with these workgroups alone, of which none begins after so many seconds: how many ran."""
        return self._run(buffers, sizes, Some(blocks, seconds))

    def _run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int], some: Some | None = None) -> int:
        moved = {name: aligned(b) for name, b in buffers.items()}
        ran = self._execute({name: b.array for name, b in moved.items()}, sizes, some)
        for name, b in moved.items():
            if b is not buffers[name]:
                buffers[name].storage[...] = b.storage
        return ran

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """On host arrays; outputs are numpy arrays."""
        import numpy as np

        from portakern.dtypes import numpy_dtype

        arrays: dict[str, np.ndarray] = {}
        for a, x in zip(self.source.by_role("input", "scalar"), inputs, strict=True):
            arrays[a.name] = empty(np.shape(x), numpy_dtype(a.dtype))
            arrays[a.name][...] = x
        outputs = self.source.by_role("output")
        for a in outputs:
            shape = tuple(evaluate(n, sizes) for n in a.type.shape) if isinstance(a.type, BufferType) else ()
            arrays[a.name] = empty(shape, numpy_dtype(a.dtype))
        self._execute(arrays, sizes)
        results = tuple(arrays[a.name] for a in outputs)
        return results[0] if len(results) == 1 else results

    def _execute(self, arrays: dict[str, np.ndarray], sizes: Mapping[str, int], some: Some | None = None) -> int:
        import numpy as np

        scalars = {a.name: arrays[a.name] for a in self.source.by_role("scalar")}
        sequence = dispatch_sequence_of(self.source, self.binary, sizes, scalars)
        for name, size in sequence.temporaries:
            arrays[name] = empty((size,), np.dtype(np.uint8))
        inputs = {a.name for a in self.source.by_role("input")}
        defined = inputs | {a.name for a in self.source.by_role("inout")}
        memory = SimulatedMemory({n: a for n, a in arrays.items() if n not in scalars}, inputs, defined)
        ran = 0
        for step in sequence.steps:
            if isinstance(step, ArrayFill):
                memory.fill(step)
            else:
                ran += self._dispatch(step, memory, some)
        return ran

    def _dispatch(self, d: Dispatch, memory: SimulatedMemory, some: Some | None = None) -> int:
        import numpy as np

        code, expected = self._kernel(d)
        values = [memory.value(x) for x in d.args]
        packed, defined = pack(d.kernel, expected, values, code.argument_bytes, d.grid, d.block, d.shared_bytes)
        segment = empty((len(packed),), np.dtype(np.uint8))
        segment[...] = np.frombuffer(bytes(packed), np.uint8)
        shadow = np.frombuffer(bytes(defined), np.uint8)
        start = segment.ctypes.data
        packet = np.frombuffer(
            dispatch_packet(d.grid, d.block, code.scratch_bytes, d.shared_bytes + code.shared_bytes), np.uint8
        )
        regions = [
            *memory.regions(),
            (start, start + len(packed), shadow.ctypes.data if len(packed) else 0, False, "the kernel's arguments"),
            (packet.ctypes.data, packet.ctypes.data + packet.size, 0, False, "the dispatch packet"),
        ]
        program = code.program if code.data is None else self._image(d.assembly, code)
        if code.data is not None:
            regions += self._images[d.assembly].regions()
        machine = native()
        try:
            ran, executed = machine.run(program, d.grid, d.block, start, packet.ctypes.data, regions, d.shared_bytes,
                                        self.budget, self.seed, self.threads or threads(),
                                        *((list(some.places), some.seconds) if some is not None else ()))  # fmt: skip
        except machine.Fault as fault:
            raise report(code, *fault.args) from None
        self.executed += executed
        return ran

    def _image(self, assembly: str, code: Code) -> Any:
        """The program of a kernel that names tables, variables or functions.  Variables keep their values between launches."""
        if assembly not in self._images:
            self._images[assembly] = Image(code)
        return self._images[assembly].program(code)

    def _kernel(self, d: Dispatch) -> tuple[Code, tuple[Parameter, ...]]:
        if not d.assembly:
            raise RuntimeFault(f"the binary of {d.kernel} comes without its assembly, which the machine executes",
                               hint="toolchains must keep it in CompiledBinary.assembly")  # fmt: skip
        key = d.assembly, d.kernel
        if key not in self._translated:
            self._translated[key] = translate(*key)
        found = self._translated[key]
        return found.code, found.parameters


def threads() -> int:
    """As many as this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def report(
    code: Code, kind: str, message: str, at: int, group: tuple[int, int, int], wave: int, lane: int, cause: int, because: str
) -> SimulatorError:
    """What went wrong and where, as an error; ``cause`` is an instruction before that may be why, -1 for none."""
    i = code.instructions[at]
    place = f"workgroup {group}, wave {wave}" + (f", lane {lane}" if lane >= 0 else "")
    where = f"line {i.line} of the assembly, `{i}`" + (f" ({i.source})" if i.source else "")
    if cause >= 0:
        first = code.instructions[cause]
        source = f" ({first.source})" if first.source else ""
        message += f"; first in this workgroup, line {first.line}, `{first}`{source}, {because}"
    return SimulatorError(f"{code.name}: {kind}: {where}: {message} [{place}]",
                          hint="`emit --as asm` or `inspect --asm FILE` shows the assembly; see docs/amd-simulator.md",
                          where=i.source, kind="hazard")  # fmt: skip


class Image:
    """The data of a code object in memory."""

    def __init__(self, code: Code) -> None:
        import numpy as np

        assert code.data is not None
        self.data = code.data
        self.bytes = empty((max(1, len(self.data.image)),), np.dtype(np.uint8))
        self.start = self.bytes.ctypes.data
        linked = self.data.linked(self.start, lambda symbol: code.address(symbol, self.start))
        self.bytes[: len(linked)] = np.frombuffer(linked, np.uint8)
        self.programs: dict[str, Any] = {}

    def program(self, code: Code) -> Any:
        if code.name not in self.programs:
            self.programs[code.name] = code.linked(self.start)
        return self.programs[code.name]

    def regions(self) -> list[tuple[int, int, int, bool, str]]:
        return [(self.start + s.offset, self.start + s.offset + s.size, 0, s.writable, f"the variable {name}")
                for name, s in self.data.symbols.items() if s.size]  # fmt: skip


class SimulatedMemory:
    """The arrays of a program: where they lie, and which bytes of them were written."""

    def __init__(self, arrays: Mapping[str, np.ndarray], inputs: set[str], defined: set[str]) -> None:
        import numpy as np

        self.arrays = arrays
        self.inputs = inputs
        self.shadows = {n: np.zeros(a.nbytes, np.uint8) for n, a in arrays.items() if n not in defined}

    def value(self, x: Argument) -> bytes:
        """What the kernel gets for an argument."""
        if not x.array:
            return x.value or bytes(8)
        return (self.arrays[x.array].ctypes.data + x.offset).to_bytes(8, "little")

    def fill(self, step: ArrayFill) -> None:
        import numpy as np

        raw = self.arrays[step.array].reshape(-1).view(np.uint8)
        raw[...] = np.resize(np.frombuffer(step.pattern, np.uint8), raw.size)
        if step.array in self.shadows:
            self.shadows[step.array][...] = 1

    def regions(self) -> list[tuple[int, int, int, bool, str]]:
        found = []
        for name, a in self.arrays.items():
            start, shadow = a.ctypes.data, self.shadows.get(name)
            found.append((start, start + a.nbytes, shadow.ctypes.data if shadow is not None and a.nbytes else 0,
                          name not in self.inputs, name))  # fmt: skip
        return found
