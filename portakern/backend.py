"""What a backend is made of: small typed protocols, each usable alone, and the manifest that names them.

A *backend* is one folder for one platform.  It offers one or more *languages* (``cuda``; ``sycl`` and ``opencl``), each
for some devices.  ``language:device`` is a target.  Manifests are found through the entry-point group
``portakern.backends`` (see :mod:`portakern.registry`), the ones of this repository like a stranger's.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from portakern.device import Device
from portakern.errors import PortakernError
from portakern.ir.planes import Planes, never
from portakern.ir.program import Array, Program, Repeat
from portakern.ir.schedule import Nest, Schedule, Value
from portakern.ir.size import Size
from portakern.ir.tensor import TensorProgram

if TYPE_CHECKING:
    import numpy as np

    from portakern import native
    from portakern.native import Call as NativeCall

MANIFEST_VERSION = 1
"""Raised when a manifest written for an earlier portakern would no longer be understood."""


@dataclass(frozen=True)
class Target:
    """A language aimed at a device, ``hip:gfx942`` or ``hip:mi300x``.  ``device`` may be an instruction set or product."""

    language: str
    device: Device

    def __str__(self) -> str:
        return f"{self.language}:{self.device.name}"


@dataclass(frozen=True)
class Availability:
    """Whether a part can be used on this machine.  ``detail`` is what was found (tool and version) or what is missing
    and how to get it."""

    ok: bool
    detail: str

    def __bool__(self) -> bool:
        return self.ok


# ---- emitting: pure Python, on every machine ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Missing:
    """Something a backend cannot emit: what it is, and the operator's line it comes from."""

    what: str
    where: str = ""
    alternative: str = ""


@dataclass(frozen=True)
class Pixels:
    """How the copy engine walks an array of images [image, *spatial, channel]: within corners (NVIDIA's im2col mode).

    Along each spatial dim it takes every ``steps``-th coordinate from ``lower`` to ``upper`` beyond the last, with zeros for
    those outside of the array; a row is full when that of the last dim is, and an image when its rows are.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class TensorMap:
    """A kernel parameter that describes ``array`` to the device's copy engine, made by the host before the launch.

    The array is seen from element ``offset`` on with ``shape`` and ``strides`` (in elements, outermost dim first, the last one
    contiguous).  The engine
    copies a ``box`` of elements at a time, zeros where it reaches outside, and permutes the 16-byte chunks of what it writes
    to shared memory over ``swizzle`` bytes (0: not at all).  With ``pixels``, the last two entries of ``box`` are how many
    pixels and how many channels of each are copied, the others 1.
    """

    name: str
    array: str
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    box: tuple[int, ...]
    swizzle: int = 128
    pixels: Pixels | None = None
    offset: int = 0


@dataclass(frozen=True)
class Launch:
    """One kernel launch: grid in blocks as sizes (x, y, z), block in threads, dynamic shared memory in bytes.

    ``args`` names arrays, ``maps`` and open dims in the order of the kernel's parameters (pointers and maps by value, then
    64-bit integers).  ``cluster`` is in blocks; the grid is a multiple of it.
    """

    kernel: str
    grid: tuple[Size, Size, Size]
    block: tuple[int, int, int]
    args: tuple[str, ...]
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    maps: tuple[TensorMap, ...] = ()


@dataclass(frozen=True)
class Source:
    """Emitted (or foreign) text for one target with everything needed to compile and launch it.

    ``launches`` says how its kernels are run, in order; languages whose text holds its own host function (Triton,
    Pallas, numba, C++) leave it empty and are called through ``entry`` by the language's calling convention.
    ``repeats`` says which of the launches are repeated.  ``headers`` are the (name, text) pairs the text includes.
    ``operator`` is the name of what it computes.
    """

    target: Target
    operator: str
    entry: str
    text: str
    suffix: str
    arrays: tuple[Array, ...]
    sizes: tuple[str, ...] = ()
    launches: tuple[Launch, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    schedule: tuple[Schedule, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    repeats: tuple[Repeat, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Stable hash of the text, its headers and the way it is launched."""
        parts = repr((str(self.target), self.entry, self.text, self.headers, self.launches, self.options, *self.repeats))
        return hashlib.sha256(parts.encode()).hexdigest()

    def by_role(self, *roles: str) -> tuple[Array, ...]:
        return tuple(a for a in self.arrays if a.role in roles)


@runtime_checkable
class Plan(Protocol):
    """A backend's frozen decisions between tile IR and text: for every value its memory space, layout, stage and role."""

    def __str__(self) -> str: ...


class Emitter(Protocol):
    """Kernel programs to text.  Imports no toolchain, driver or framework."""

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        """Everything in ``program`` this emitter has no rule for; empty when it can emit it."""
        ...

    def plan(self, program: Program, target: Target) -> Plan | None:
        """The plan ``emit`` prints from, or ``None`` for a language that needs none."""
        ...

    def emit(self, program: Program, target: Target) -> Source: ...

    def standalone(self, source: Source) -> str:
        """The text with the headers it uses inlined: one file that compiles by itself."""
        ...


# ---- compiling: on any machine, in a child process -------------------------------------------------------------------


@dataclass(frozen=True)
class Resources:
    """What a kernel uses, read from the binary.  ``None``: not defined or not known for this device.

    Registers are per thread (lane); ``shared_bytes`` is shared memory, LDS, local memory or VMEM; ``occupancy`` is the
    share of the unit's thread slots that can be filled, limited by ``limiter``; ``source`` says where it was read.
    ``extra`` holds what only this platform has (``agprs``, ``vmem_bytes`` ...).
    """

    kernel: str = ""
    registers: int | None = None
    spills: int | None = None
    scratch_bytes: int | None = None
    shared_bytes: int | None = None
    code_bytes: int | None = None
    occupancy: float | None = None
    limiter: str | None = None
    source: str = ""
    extra: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class CompiledBinary:
    """Machine code (or the compiler's last form of it) for one source.

    ``format`` is ``cubin``, ``hsaco``, ``shared-object``, ``spirv`` ...; ``assembly`` its text where it can be had;
    ``tool`` the compiler with version; ``resources`` one entry per kernel.  ``machine_code`` is false where ``data`` is
    not final code for the device, so that the row stays ``emitted`` (SPIR-V without an Intel GPU compiler).
    """

    format: str
    data: bytes
    tool: str
    resources: tuple[Resources, ...] = ()
    assembly: str | None = None
    log: str = ""
    machine_code: bool = True

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class KernelArgument:
    """An argument of a kernel from elsewhere: an array of ``shape``, or the number ``value``."""

    name: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    value: float | int | None = None


@dataclass(frozen=True)
class InspectedKernel:
    """A kernel from elsewhere that belongs to no operator, to be looked at: ``entry`` in ``text``, and how it is called.

    Without ``arguments`` there is only its code to be looked at, if its language needs no more to compile it.  ``grid`` and
    ``block`` are ``None`` where the text itself, or its host function, says.  ``origin`` is the language that it is written in
    where that need not be the target's.
    """

    text: str
    entry: str = ""
    arguments: tuple[KernelArgument, ...] = ()
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    shared_bytes: int = 0
    file: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Remark:
    """What there is to say of a ``line`` of a kernel from elsewhere before it is compiled.

    ``kind`` is ``missing`` (it has no counterpart on the target), ``assumes`` (right where it was written for, perhaps not on
    the target) or ``note``; ``text`` says what it is, ``instead`` what the target has.
    """

    line: int
    kind: str
    text: str
    instead: str = ""


class Toolchain(Protocol):
    def available(self, target: Target) -> Availability: ...

    def fingerprint(self, target: Target) -> str:
        """Compiler, version and flags: part of the cache key."""
        ...

    def compile(self, source: Source) -> CompiledBinary:
        """Compile in a child process.  Raises :class:`CompileError` with the log, or :class:`ToolMissing`."""
        ...


@runtime_checkable
class SeesHelpers(Protocol):
    """A toolchain that sees in a binary what it may let do its work instead of doing it."""

    def helpers(self, binary: CompiledBinary) -> Sequence[str]:
        """Functions and libraries by which a binary reaches other libraries, programs or interpreters."""
        ...


@runtime_checkable
class ReadsCode(Protocol):
    """A toolchain that reads machine code back."""

    def instructions(self, binary: CompiledBinary) -> Mapping[str, Mapping[str, int]]:
        """For each kernel how many instructions of each kind its code holds.  Raises :class:`PortakernError`."""
        ...

    def listing(self, binary: CompiledBinary) -> str:
        """The machine code as text; empty where ``binary.assembly`` has it.  Raises :class:`PortakernError`."""
        ...


# ---- running: on silicon, or in a simulator ----------------------------------------------------------------------------


@dataclass
class HostBuffer:
    """A host array inside a larger allocation, whose bytes around the array are guard bands.

    ``storage`` is the whole allocation (uint8); the array of ``shape`` and numpy ``dtype`` starts at byte ``offset``.
    Executables copy the whole storage to the device and back, so that a write outside the array is seen.
    """

    name: str
    storage: np.ndarray
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def reach(self) -> int:
        """Bytes from the array's first to after its last."""
        import numpy as np

        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def array(self) -> np.ndarray:
        raw = self.storage[self.offset : self.offset + self.reach]
        return raw.view(self.dtype).reshape(self.shape)


class Prepared(Protocol):
    """One call with its arguments fixed: shapes, dtypes and strides were checked and arguments packed once.

    Every call reads the same inputs and writes the same ``outputs``, and only queues work where the device has a queue.
    ``call`` is what the timing core launches by itself, ``None`` where a call goes through Python (Triton's launcher, numba).
    ``stream`` is the native handle that calls queue on unless told otherwise: what the inputs' library had as its current
    stream when the call was prepared, 0 (the default stream) where nothing has streams.
    """

    stream: int

    @property
    def outputs(self) -> tuple[Any, ...]: ...

    @property
    def call(self) -> NativeCall | None: ...

    def __call__(self, stream: int | None = None) -> None:
        """Queue once more, on ``stream`` (a native handle) or on :attr:`stream`."""
        ...


class Executable(Protocol):
    """A loaded program.  ``guards`` says whether writes outside an array would reach its guard bands.

    It may also be one that :class:`PreparesCalls` or :class:`SpecialisesCalls`, which makes calls cheaper
    (:mod:`portakern.launch` does without where it is not), or that :class:`SaysMethod` or :class:`ShowsParts`.
    """

    guards: bool

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        """Run once on host data: inputs are read, outputs written in place.  Temporaries are the executable's own.

        ``buffers`` holds inputs and outputs by name; scalars come as zero-dim buffers.  Raises
        :class:`RuntimeFault`; a fault that would take the process down must do so (it runs in a worker).
        """
        ...

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Run on arrays that speak DLPack, on their own device and without a copy; outputs are new arrays of the same
        kind (a tuple where there are several)."""
        ...


@runtime_checkable
class PreparesCalls(Protocol):
    """An executable whose calls can be packed once and repeated."""

    def prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int], outputs: Sequence[Any] | None = None) -> Prepared:
        """One call on ``inputs`` that writes ``outputs``, new arrays where ``None``; both are checked.  Raises as ``call``
        does, and :class:`UsageError` for outputs that are not what the operator writes."""
        ...


@runtime_checkable
class SpecialisesCalls(Protocol):
    """An executable that can leave out what ``call`` checks each time."""

    def specialise(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
        """``call`` for arrays that are like ``inputs`` in library, device, dtype, shape, strides and alignment: nothing is
        checked again.  Raises as ``call`` does."""
        ...


@runtime_checkable
class SaysMethod(Protocol):
    """An executable whose way of running differs from run to run."""

    @property
    def method(self) -> str:
        """What its runs went through so far, in words for the row's ``method``; may be empty."""
        ...


@runtime_checkable
class RunsInPart(Protocol):
    """A runtime or simulator whose executables, once they :meth:`ShowsParts.watch`, can do one part of a run.

    ``parts`` are of ``kernels`` (what the last run launched, once more and without the host code) and ``host`` (all of it but
    the kernels).  ``recalls`` says that a part needs a run before it, of the same sizes, integers and scalars.
    """

    parts: tuple[str, ...]
    recalls: bool


class ShowsParts(Protocol):
    """An executable by which it is seen whether kernels or the host code beside them do the work."""

    def watch(self) -> None:
        """From now on runs are noted, so that they can be repeated in part.  Called before the first run."""
        ...

    def run_part(self, part: str, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> str:
        """As :meth:`Executable.run` does, with ``part`` alone; what there is to say of the host code.  ``sizes``, integers and
        scalars are those of the last run."""
        ...


@runtime_checkable
class RunsBlocks(Executable, Protocol):
    """An executable of a simulator that can run some blocks of a grid alone: all of them may take days."""

    def blocks(self, sizes: Mapping[str, int]) -> int:
        """How many there are; 0 where they need what others leave, as those of several launches do."""
        ...

    def run_blocks(self, blocks: Sequence[int], buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int],
                   seconds: float = math.inf) -> int:  # fmt: skip
        """As :meth:`Executable.run` does, with the first of these blocks, named by their places in the grid: none begins
        after so many seconds.  How many ran; what the others write is left as it was."""
        ...


class Runtime(Protocol):
    """Finds silicon and runs on it."""

    def available(self, target: Target) -> Availability: ...

    def device_name(self, target: Target) -> str:
        """The silicon as its driver names it."""
        ...

    def load(self, source: Source, binary: CompiledBinary | None) -> Executable: ...


@runtime_checkable
class OnDevice(Protocol):
    """A runtime whose work runs on a device of the native core, which events, memory and timing need."""

    def device(self, target: Target) -> native.Device | None:
        """The device, or ``None`` where calls return when their work is done and the host's clock tells all.  Raises
        :class:`PortakernError` where there is no such device here."""
        ...


@runtime_checkable
class NamesArrays(Protocol):
    """A runtime that says what libraries of arrays call its devices (``cuda``, ``xpu``), since those here may be others'."""

    arrays: str


@runtime_checkable
class HeldByOne(Protocol):
    """A runtime whose device one process at a time may use, from its first kernel until it ends (``held_by_one``)."""

    @property
    def held_by_one(self) -> bool: ...


@runtime_checkable
class OpensDevices(Protocol):
    """A toolchain whose compiler opens the device that it finds here, after which its process must not be forked."""

    @property
    def opens_devices(self) -> bool: ...


@runtime_checkable
class ReadyToFork(Protocol):
    """A runtime whose device each child of a process opens for itself, and that can do part of the way before."""

    def before_fork(self) -> None:
        """Loads what needs no device, and starts no thread.  Raises nothing: what is missing is said when a kernel needs it."""
        ...


class Simulator(Protocol):
    """Executes what was compiled (evidence ``simulated``), or interprets the source (``interpreted``), on the CPU.

    It may also be one that :class:`NeedsEnvironment` or :class:`JudgesAlone`.
    """

    evidence: str

    def available(self, target: Target) -> Availability: ...

    def method(self, target: Target) -> str:
        """What executes the kernel, with version: goes into the row's ``method``."""
        ...

    def load(self, source: Source, binary: CompiledBinary | None) -> Executable: ...


@runtime_checkable
class NeedsEnvironment(Protocol):
    """A toolchain, runtime or simulator that needs variables set in its workers beside the language's own
    (:attr:`Language.environment`), before anything is imported."""

    @property
    def environment(self) -> Mapping[str, str]: ...


@runtime_checkable
class JudgesAlone(Protocol):
    """A simulator that can tell right from wrong without an operator to compare with, so that ``inspect`` may run a kernel
    from elsewhere in it; it does where ``alone`` is true."""

    @property
    def alone(self) -> bool: ...


# ---- machines: what executes or predicts compiled code, whatever language it was written in ---------------------------------


@dataclass(frozen=True)
class Argument:
    """A kernel's argument as the machine gets it: the address of ``array`` and ``offset`` bytes, or the bytes ``value``.

    A pointer to nothing has neither an array nor a value.
    """

    array: str = ""
    offset: int = 0
    value: bytes = b""


@dataclass(frozen=True)
class Dispatch:
    """One launch with everything fixed: ``code`` and ``assembly`` of the one module that holds ``kernel``, the grid in
    blocks, the block in threads, dynamic shared memory in bytes, arguments in the order of the kernel's parameters."""

    kernel: str
    code: bytes = field(repr=False)
    assembly: str = field(repr=False)
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: tuple[Argument, ...]


@dataclass(frozen=True)
class ArrayFill:
    """An array is filled with ``pattern``, the bytes of one element, over and over."""

    array: str
    pattern: bytes


@dataclass(frozen=True)
class DispatchSequence:
    """What a source does on a machine at given sizes: steps in order, over the operator's arrays and ``temporaries``
    (name and bytes).  ``sizes`` are the values of open dims, for an estimator that reads the launches itself."""

    steps: tuple[Dispatch | ArrayFill, ...]
    temporaries: tuple[tuple[str, int], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        return tuple(s for s in self.steps if isinstance(s, Dispatch))


@dataclass(frozen=True)
class Estimate:
    """A predicted time.  Never printed where a measured one belongs.

    ``limiter`` names in words what bounds it; ``report`` is what there is to say about it in lines for a reader, and
    ``details`` the same as JSON.
    """

    us: float
    limiter: str
    model: str
    version: str
    confidence: str
    report: tuple[str, ...] = field(default=(), repr=False)
    details: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)


class Estimator(Protocol):
    """Predicts times.  It may also be one that :class:`EstimatesPeers`."""

    @property
    def version(self) -> str:
        """Of the model; estimates are kept by it."""
        ...

    def available(self, target: Target) -> Availability: ...

    def estimate(self, source: Source, binary: CompiledBinary, sequence: DispatchSequence, program: Program | None) -> Estimate:
        """Predict ``sequence``.  ``program`` is what the source was emitted from, ``None`` for a foreign kernel.  Raises
        :class:`PortakernError` naming what the model does not know."""
        ...


@runtime_checkable
class EstimatesPeers(Protocol):
    """An estimator that also knows what others make of an operator under the same model."""

    def peers(self, program: TensorProgram, target: Target) -> Mapping[str, Estimate | PortakernError]:
        """By name of the peer its estimate, or why there is none.  All dims of ``program`` are bound."""
        ...


@dataclass(frozen=True, eq=False)
class Machine:
    """Executes or predicts compiled code of one binary format on any CPU, for some instruction sets.

    Every language whose toolchain makes that format (:attr:`Language.format`) uses it through the registry, from whichever
    backend it comes.  The simulator's evidence is ``simulated``; it gets what to run from
    :func:`portakern.launch.dispatch.dispatch_sequence_of`.  Devices of a target are those of the language's own backend: what
    a machine must know beside the name of the instruction set it reads from its own descriptions.
    """

    format: str
    targets: tuple[str, ...]
    simulator: Simulator | None = None
    estimator: Estimator | None = None


# ---- the manifest --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Language:
    """One language of a backend.

    ``targets`` are the instruction sets in the default target list.  ``schedules`` answers a nest with the schedules
    this language allows on a device, default first; ``options`` documents the schedule options it declares.
    ``environment`` is set in the worker processes that compile or run for it.  ``convention`` says in one paragraph how
    a foreign kernel of this language is called; ``adopt`` wraps such a text as a :class:`Source` for the arrays of an
    operator (``None``: foreign kernels are not taken).  ``choices`` adds to what tuning tries for a nest beside the values that
    ``schedules`` lists: by axis, role, ``warps``, ``stages`` or option the values worth trying.  ``emitter_version`` is raised
    when what the emitter makes of a schedule has changed so much that a schedule tuned before says nothing any more.
    ``format`` is the format of what its toolchain makes for a device, by which machines are found (see :class:`Machine`);
    ``dispatch_sequence`` says what a source whose text holds its own host function launches: (source, binary, values of open
    dims, values of run-time scalars) to a :class:`DispatchSequence`, where the language's environment is set.  Sources with
    ``launches`` need none.
    ``bare`` makes a source of a kernel that belongs to no operator (``None``: there is nothing to look at without one); it may
    be given the kernels that the text was found to hold.  ``remarks`` says what there is to say of its lines, ``reads``
    from which other languages' texts ``bare`` makes a source.
    ``takes_pixels``: the rows of a tile may be pixels, each found by the division of a flat coordinate, and those outside of
    their array are zeros; then convolutions are products over all pixels of their result, and what they pad is not stored.
    ``takes_planes``: for which convolutions of planes columns of a tile may be pixels, and its rows their taps and channels, so
    that one of images whose channels do not lie last is one product, and none of it is stored before.
    ``long_steps``: its products take many elements along k at a time, which few channels of a pixel do not fill; then the taps
    of a pixel are put side by side before.
    ``picks_elements``: loads may take single elements at coordinates that a kernel computes, which sorts and scatters of long
    lines are made of.  ``sorts``: a tile sorts so many elements of a line, a power of two (0: none).
    ``shares_arrays``: a kernel may store to one part of an array of which others read another part, so that concatenations that
    grow are one array.
    ``strided``: kernels are lowered for the strides of arrays; else as for row-major ones, which the host makes of others.
    ``least_step``: how many elements a step of a product takes at least along the summed dim.  Weights with scales for smaller
    groups are dequantised before their product, others inside of it.
    ``pairs``: whether a pair of products with an operand in common (a nest of two ``products``) is one kernel, which is as fast
    for its work as a single product (``None``: none is).  ``halves_of_heads``: so is one of the halves of heads of at least 128
    columns, a head to a block, so that a rotation of heads is the end of their product.  ``units``: whether its products
    of a dtype of 16 bits keep up with memory for a single row too, so that those of a vector are no sums of rows.
    ``multiplies``: whether it has products of matrices of these integers, summed in those; where not, they are sums of rows.
    ``joins``: whether two neighbouring dims of an array may be seen as one, by their sizes and how many dims lie inside of
    them.  Where memory has the last two dims in tiles, that may be another array, which something must make.
    ``holds_parts``: a block that walks steps may hold a part of an axis, along which what is shown is summed part by part.
    ``partial``: it does not have every operation; of another language a rule that is missing is a fault.
    ``shares_process``: its compiler and its kernels may be in one process with those of other languages that say so, under the
    environments of all of them, so that what is imported and measured there is so once.
    ``preload`` are modules that compiling or running imports anyway and that start no threads: a process that has imported
    them is forked for many kernels.  ``forks`` says that it may be forked after it has compiled a kernel, and run one that
    needs no device with memory of its own: no thread or shared memory is left of that.
    ``extra`` is the pip extra its tools come from; ``tools`` names executables from outside pip that it uses where they are,
    each with what it gives (for ``portakern doctor``).
    ``words`` are regular expressions by which a report finds the lines that do a tile operation, by kind (``load``, ``dot``)
    or by kind and name (``reduce max``), with ``{name}`` or ``{Name}`` for the array or function: see
    :mod:`portakern.study.report.linking`.
    """

    name: str
    title: str
    targets: tuple[str, ...]
    emitter: Emitter
    schedules: Callable[[Nest, Device], Sequence[Schedule]]
    extra: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    toolchain: Toolchain | None = None
    runtime: Runtime | None = None
    simulator: Simulator | None = None
    estimator: Estimator | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    convention: str = ""
    adopt: Callable[[str, str | None, Program, Target], Source] | None = None
    choices: Callable[[Nest, Device], Mapping[str, Sequence[Value]]] | None = None
    emitter_version: int = 1
    format: Callable[[Device], str] | None = None
    dispatch_sequence: Callable[[Source, CompiledBinary, Mapping[str, int], Mapping[str, Any]], DispatchSequence] | None = None
    bare: Callable[[InspectedKernel, Target, Sequence[str]], Source] | None = None
    remarks: Callable[[InspectedKernel, Target], Sequence[Remark]] | None = None
    reads: tuple[str, ...] = ()
    takes_pixels: bool = False
    takes_planes: Planes = never
    long_steps: bool = True
    picks_elements: bool = True
    sorts: int = 0
    shares_arrays: bool = True
    strided: bool = True
    least_step: int = 16
    pairs: Callable[[Nest, Device], bool] | None = None
    halves_of_heads: bool = False
    units: Callable[[Device, str], bool] = lambda device, dtype: True
    multiplies: Callable[[Device, str, str], bool] = lambda device, dtype, summed: True
    joins: Callable[[Size, Size, int], bool] = lambda outer, inner, inside: True
    holds_parts: bool = True
    partial: bool = False
    shares_process: bool = False
    preload: tuple[str, ...] = ()
    forks: bool = False
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Backend:
    """The manifest of one platform.  ``devices`` is the folder with its device descriptions (TOML); a folder ``tuned`` beside
    it holds the schedules that it ships tuned (see :mod:`portakern.tuned.database`).  ``machines`` serve every backend."""

    name: str
    languages: tuple[Language, ...]
    devices: Path
    version: int = MANIFEST_VERSION
    machines: tuple[Machine, ...] = ()

    def language(self, name: str) -> Language:
        return next(x for x in self.languages if x.name == name)
