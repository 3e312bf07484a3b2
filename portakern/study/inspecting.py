"""A kernel from elsewhere that belongs to no operator: compiled, its resources, an estimate, and a run that says what is wrong.

:func:`examine` runs in a worker process; whatever goes wrong there is in the inspection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from portakern.backend import (
    CompiledBinary,
    HostBuffer,
    InspectedKernel,
    JudgesAlone,
    KernelArgument,
    ReadsCode,
    SaysMethod,
    Simulator,
    Source,
    Target,
)
from portakern.dtype_names import dtype_name
from portakern.dtypes import DTYPES, numpy_dtype
from portakern.errors import CompileError, PortakernError, SimulatorError, ToolMissing, UsageError
from portakern.launch.packing import shape_of
from portakern.registry import registry
from portakern.study import steps
from portakern.study.row import estimate_dict, resources_of
from portakern.tools.workers import WorkerFault, WorkerPool

LIMIT_S = 300.0
GUARD = 256


@dataclass(frozen=True)
class Inspection:
    """What was found on one target.  ``kernels`` are resources, one entry each; ``instructions`` how many there are of each
    kind, by kernel, where the machine code can be read; ``estimate`` that of a row; ``ran`` says what
    executed the kernel (on arrays that its file brings: ``own_arrays``), ``fault`` what it reported, with the ``line`` of the
    text that it names (``None``: nothing, where it ran); ``notes`` what was not done and why; ``remarks`` are of the text's
    lines (:class:`~portakern.backend.Remark`), with the ``source`` line."""

    target: str
    device: str = ""
    tool: str = ""
    kernels: tuple[dict[str, Any], ...] = ()
    instructions: dict[str, dict[str, int]] = field(default_factory=dict)
    estimate: dict[str, Any] | None = None
    ran: str = ""
    fault: dict[str, str] | None = None
    notes: tuple[str, ...] = ()
    remarks: tuple[dict[str, Any], ...] = ()
    error: dict[str, str] | None = None
    assembly: str = field(default="", repr=False)
    own_arrays: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {k: v for k, v in asdict(self).items() if k != "assembly"}


def inspect_all(kernel: InspectedKernel, targets: Sequence[Target], seed: int = 0, run: bool = True) -> list[Inspection]:
    """One inspection per target, each made in a worker process of its own language.

    Raises :class:`UsageError` for a language that looks at no such kernels, and for what is wrong in the question.
    """
    for target in targets:
        if registry().language(target.language).bare is None:
            able = ", ".join(n for n, x in registry().languages.items() if x.bare is not None)
            raise UsageError(f"{target.language} looks at no kernels without an operator", hint=f"these do: {able}")
        _check_origin(kernel.origin, target)
    found = []
    for target in targets:
        with WorkerPool(1, env=steps.build_environment(registry().language(target.language))) as pool:
            try:
                found.append(pool.call(f"{__name__}:examine", kernel, str(target), seed, run, timeout_s=LIMIT_S))
            except UsageError:
                raise
            except PortakernError as error:
                found.append(Inspection(str(target), target.device.title, error=error.to_dict()))
    return found


def _check_origin(origin: str, target: Target) -> None:
    readers = {n: (n, *x.reads) for n, x in registry().languages.items() if x.bare is not None}
    if origin and origin not in readers.get(target.language, ()):
        able = [n for n, reads in readers.items() if origin in reads]
        if not able:
            raise UsageError(f"no language reads {origin!r}", hint=f"these are read: {', '.join(readers)}")
        raise UsageError(f"{target.language} reads nothing that is written in {origin}", hint=f"these do: {', '.join(able)}")


def examine(kernel: InspectedKernel, target_name: str, seed: int = 0, run: bool = True) -> Inspection:
    """Raises :class:`UsageError` for what is wrong in the question; other errors are in the inspection."""
    target = registry().target(target_name)
    inspection = Inspection(target_name, target.device.title, remarks=_remarks(kernel, target))
    try:
        source, binary = _compiled(kernel, target)
    except UsageError:
        raise
    except PortakernError as error:
        return replace(inspection, error=_with_log(error))
    inspection = replace(
        inspection, tool=binary.tool, kernels=tuple(map(resources_of, binary.resources)), assembly=binary.assembly or ""
    )
    inspection = _counted(inspection, target, binary)
    if not kernel.arguments and not source.arrays:
        why = "neither estimated nor run: its arguments are not given (--args, --grid)"
        return replace(inspection, notes=(*inspection.notes, why))
    inspection = _estimated(inspection, kernel, source, binary)
    return _ran(inspection, kernel, source, binary, seed) if run else inspection


def _compiled(kernel: InspectedKernel, target: Target) -> tuple[Source, CompiledBinary]:
    """Compiled once to see what the text holds, and again (from the cache where nothing changes) for the kernel asked for."""
    language = registry().language(target.language)
    assert language.bare is not None
    if language.toolchain is None or not (available := language.toolchain.available(target)):
        detail = available.detail if language.toolchain is not None else f"{language.name} has no compiler"  # type: ignore[possibly-undefined]
        raise ToolMissing(f"nothing here compiles for {target}: {detail}", hint=steps.install_hint(language))
    source = language.bare(kernel, target, ())
    _, binary = steps.compile_cached(language, source)
    names = [r.kernel for r in binary.resources]
    if not source.launches:
        return source, binary
    if not names:
        hint = "a C++ template has no code until somebody uses it: ask for an instance, 'FILE:NAME<ARGUMENTS>'"
        raise UsageError(f"the compiled text holds no kernel for {target}", hint=hint)
    if kernel.entry or kernel.arguments or kernel.block:
        source = language.bare(kernel, target, names)
        _, binary = steps.compile_cached(language, source)
        mine = tuple(r for r in binary.resources if r.kernel == source.launches[0].kernel)
        binary = replace(binary, resources=mine)
    return source, binary


def _remarks(kernel: InspectedKernel, target: Target) -> tuple[dict[str, Any], ...]:
    look = registry().language(target.language).remarks
    lines = kernel.text.splitlines()
    return tuple(asdict(r) | {"source": lines[r.line - 1].strip()} for r in (look(kernel, target) if look else ()))


def _counted(inspection: Inspection, target: Target, binary: CompiledBinary) -> Inspection:
    toolchain = registry().language(target.language).toolchain
    if not isinstance(toolchain, ReadsCode):
        return inspection
    try:
        counts, listing = toolchain.instructions(binary), toolchain.listing(binary)
    except PortakernError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return replace(inspection, notes=(*inspection.notes, f"its instructions are not counted: {error.message}{hint}"))
    mine = {k["kernel"]: dict(counts[k["kernel"]]) for k in inspection.kernels if k["kernel"] in counts}
    return replace(inspection, instructions=mine, assembly="\n\n".join(filter(None, (inspection.assembly.rstrip(), listing))))


def _estimated(inspection: Inspection, kernel: InspectedKernel, source: Source, binary: CompiledBinary) -> Inspection:
    from portakern.launch.dispatch import dispatch_sequence_of

    estimator = registry().estimator(source.target)
    if estimator is None:
        why = f"not estimated: there is no model of {source.target.device.name}"
        return replace(inspection, notes=(*inspection.notes, why))
    if not (available := estimator.available(source.target)):
        return replace(inspection, notes=(*inspection.notes, f"not estimated: {available.detail}"))
    try:
        sequence = dispatch_sequence_of(source, binary, {}, _scalars(kernel))
        return replace(inspection, estimate=estimate_dict(estimator.estimate(source, binary, sequence, None)))
    except PortakernError as error:
        return replace(inspection, notes=(*inspection.notes, f"not estimated: {error.message}"))


def _ran(inspection: Inspection, kernel: InspectedKernel, source: Source, binary: CompiledBinary, seed: int) -> Inspection:
    simulator = _simulator(source.target)
    if simulator is None:
        return replace(
            inspection, notes=(*inspection.notes, f"not run: nothing here executes machine code of {source.target.device.name}")
        )
    if not (available := simulator.available(source.target)):
        return replace(inspection, notes=(*inspection.notes, f"not run: {available.detail}"))
    own = not kernel.arguments and bool(source.arrays)
    inspection = replace(inspection, ran=simulator.method(source.target), own_arrays=own)
    try:
        executable = simulator.load(source, binary)
        executable.run(_buffers(kernel, source, seed), {})
    except SimulatorError as error:
        if error.kind != SimulatorError.default_kind:  # what the kernel does wrong
            return replace(inspection, fault=error.to_dict() | _line_of(error.to_dict()["message"], kernel))
        note = f"not run to its end, {inspection.ran}: {error.message}"
        return replace(inspection, ran="", notes=(*inspection.notes, note))
    except PortakernError as error:
        return replace(inspection, fault=error.to_dict())
    did = executable.method if isinstance(executable, SaysMethod) else ""
    return replace(inspection, ran=f"{inspection.ran}: {did}" if did else inspection.ran)


def _line_of(message: str, kernel: InspectedKernel) -> dict[str, str]:
    """The line of the file that a message names, as ``line``."""
    name = Path(kernel.file).name
    place = re.search(rf"{re.escape(name)}:(\d+)", message) if name else None
    lines = kernel.text.splitlines()
    if place is None or not 0 < int(place[1]) <= len(lines):
        return {}
    return {"line": f"{place[1]} | {lines[int(place[1]) - 1]}"}


def _simulator(target: Target) -> Simulator | None:
    """What executes the compiled code, or the language's own interpreter where it can tell right from wrong without an
    operator."""
    machine = registry().machine(target)
    if machine is not None:
        return machine.simulator
    own = registry().language(target.language).simulator
    return own if isinstance(own, JudgesAlone) and own.alone else None


def _scalars(kernel: InspectedKernel) -> dict[str, Any]:
    return {g.name: g.value for g in kernel.arguments if g.shape is None}


def _given_of(source: Source) -> tuple[KernelArgument, ...]:
    """The arrays of a source that brings its own."""
    return tuple(KernelArgument(a.name, a.dtype, shape_of(a, {})) for a in source.arrays)


def _buffers(kernel: InspectedKernel, source: Source, seed: int) -> dict[str, HostBuffer]:
    """Arrays of random numbers between guard bands, and the scalars."""
    import numpy as np

    random = np.random.default_rng(seed)
    found = {}
    for g in kernel.arguments or _given_of(source):
        shape, dtype = g.shape or (), numpy_dtype(g.dtype or "i32")
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = HostBuffer(g.name, np.full(count + 2 * GUARD, 0xC3, np.uint8), GUARD, shape, dtype)
        whole = DTYPES[g.dtype or "i32"].is_int
        values = random.integers(0, 4, shape) if whole else random.standard_normal(shape)
        buffer.array[...] = (values if g.shape is not None else np.asarray(g.value)).astype(dtype)
        found[g.name] = buffer
    return found


def _with_log(error: PortakernError) -> dict[str, str]:
    """The first errors that the compiler names, beside our own words."""
    said = error.to_dict()
    log = error.log if isinstance(error, CompileError | WorkerFault) else ""
    lines = [x.strip() for x in log.splitlines() if re.search(r"\berror:", x)]
    if lines and lines[0] not in said["message"]:
        said["message"] = "\n".join([said["message"], *lines[:5]])
    return said


# ---- reading what a user writes -------------------------------------------------------------------------------------------

_ARRAY = re.compile(r"(\w+)\s*[=:]\s*(\w+)\[([\d,\sx]*)\]")
_NUMBER = re.compile(r"(\w+)(?:\s*:\s*(\w+))?\s*=\s*(\S+)")


def arguments_of(text: str) -> tuple[KernelArgument, ...]:
    """``x=bf16[64,128], n=4096, s:f32=0.5``: arrays by dtype and shape, numbers by value (i32 or f32 unless said).

    Raises :class:`UsageError` for what is neither.
    """
    return tuple(map(_given, filter(None, (p.strip() for p in re.split(r",(?![^\[]*\])", text)))))


def _given(part: str) -> KernelArgument:
    if match := _ARRAY.fullmatch(part):
        shape = tuple(int(n) for n in re.split(r"[,x]", match[3]) if n.strip())
        return KernelArgument(match[1], _dtype(match[2], part), shape)
    match = _NUMBER.fullmatch(part)
    if match is None:
        raise UsageError(f"--args {part}: neither an array nor a number", hint="write x=bf16[64,128],n=4096,s:f32=0.5")
    try:
        value: float | int = int(match[3], 0)
    except ValueError:
        try:
            value = float(match[3])
        except ValueError:
            raise UsageError(f"--args {part}: {match[3]} is no number", hint="arrays are written x=bf16[64,128]") from None
    return KernelArgument(match[1], _dtype(match[2] or ("i32" if isinstance(value, int) else "f32"), part), None, value)


def _dtype(name: str, part: str) -> str:
    try:
        return dtype_name(name)
    except UsageError as error:
        raise UsageError(f"--args {part}: {error.message}", hint=error.hint) from None
