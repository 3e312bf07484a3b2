"""The way of one row, step by step, in worker processes.  Each step's failure becomes the row's error; none loses the row.

:func:`build` lowers, emits and compiles (or finds the binary in the cache); :func:`check` loads what was built and
compares it with the oracle.  They are separate calls because they want different environments, and so that a kernel
that takes its process down loses nothing of what was known before.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pickle
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from portakern.backend import (
    CompiledBinary,
    Estimate,
    EstimatesPeers,
    Estimator,
    Executable,
    HeldByOne,
    HostBuffer,
    Language,
    NeedsEnvironment,
    RunsBlocks,
    RunsInPart,
    Runtime,
    SaysMethod,
    SeesHelpers,
    ShowsParts,
    Simulator,
    Source,
    Target,
    Toolchain,
)
from portakern.dtypes import DTYPES
from portakern.emit.room import no_room
from portakern.errors import (
    BackendError,
    CacheError,
    MissingRuleError,
    PortakernError,
    ScheduleError,
    ToolMissing,
    UnsupportedDtype,
    UsageError,
)
from portakern.ir.collecting import without_collections
from portakern.ir.program import Array, Program
from portakern.ir.schedule import LOWERED_OPTIONS, Nest, Schedule
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.referee import RemoteExecutable, compile_remotely
from portakern.referee.messages import printable
from portakern.referee.process import Allowance
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study import stranger
from portakern.study.operations import Operation, operations
from portakern.study.row import Row, estimate_dict, resources_dict
from portakern.study.stranger import kernel_process
from portakern.study.turns import between_processes
from portakern.study.work import Work
from portakern.tools.cache import Cache, digest
from portakern.tools.deep import with_room

if TYPE_CHECKING:
    from portakern.check.sampled import Sampled


@dataclass(frozen=True)
class Build:
    """What :func:`build` reached: the row, the source, the binary's key in the cache, and what can run it here.

    ``runner`` is ``runtime``, ``machine``, ``simulator`` or empty.  ``preparation`` is the source of what hangs on weights
    alone, where the work names some, and ``preparation_key`` its binary's key.  ``operations`` are those of its kernels.
    """

    row: Row
    source: Source | None = None
    binary_key: str = ""
    runner: str = ""
    preparation: Source | None = None
    preparation_key: str = ""
    operations: tuple[Operation, ...] = ()


def guarded(row: Row, step: Callable[[], Build]) -> Build:
    """``step()``, or ``row`` with the error it raised; an error nobody foresaw is one too, and says where it arose."""
    try:
        return step()
    except PortakernError as error:
        return Build(row.failed(error))
    except Exception as error:
        return Build(row.failed(defect(error)))


def defect(error: Exception) -> PortakernError:
    """An unforeseen exception as an error with its place."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.filename.rsplit('/portakern/', 1)[-1]}:{place.lineno}"
    return PortakernError("defect", f"{type(error).__name__}: {error} (raised at {where})",
                          hint="this is a defect of portakern or of the backend; please report it")


# ---- from tensor program to source ---------------------------------------------------------------------------------


def lowered(work: Work, target: Target, avoided: Collection[str] = ()) -> Program:
    """The kernels of ``work`` under the schedule asked for, or that chosen for it, or the first that is not ``avoided``.

    Raises :class:`UnsupportedDtype` where the device cannot have a dtype, else what lowering raises.
    """
    from portakern.lower import lower_for

    refuse_dtypes(work.program, target)
    language = registry().language(target.language)
    options = {**LOWERED_OPTIONS, **language.options}
    pick = work.chosen.picker(options, language.emitter_version) if work.chosen is not None else None
    if avoided:
        pick = functools.partial(_first_but, avoided)
    return lower_for(work.program, target, language, dict(work.schedule), dict(work.names), dict(work.facts), pick)


def _first_but(avoided: Collection[str], nest: Nest, space: Sequence[Schedule]) -> Schedule:
    return next((s for s in space if str(s) not in avoided), space[0])


def refuse_dtypes(program: TensorProgram, target: Target) -> None:
    """Raise :class:`UnsupportedDtype` when an input or output has a dtype that the device does not list.

    Integer inputs are left to the emitter, which may take indices of 64 bits in another form; so are results of 64 bits that
    are known to fit into 32, or of which the bits are all that is computed.
    """
    from portakern.lower.narrow import without_wide_integers
    from portakern.lower.small_integers import small
    from portakern.lower.word_pairs import has_words

    device = target.device
    inputs = [a for a in program.args if not DTYPES[tensor_type(a).dtype].is_int]
    for op in (*program.results, *inputs):
        dtype = tensor_type(op).dtype
        if dtype not in device.dtypes and dtype != "i64":
            instead = device.alternatives.get(dtype)
            hint = f"use {instead}" if instead else f"{device.name} has {', '.join(device.dtypes)}"
            raise UnsupportedDtype(f"{target} has no {dtype}, which {program.name} is asked in", hint=hint,
                                   where=str(op.loc or ""))
    if "i64" in device.dtypes or all(tensor_type(r).dtype != "i64" for r in program.results):
        return
    for name, op in zip(program.outputs, without_wide_integers(program).results, strict=True):
        if tensor_type(op).dtype == "i64" and small(op) is None and not has_words(op):
            raise UnsupportedDtype(
                f"{target} has no i64, and the numbers of {name} in {program.name} are not known to fit into 32 bits",
                hint="places, counts and what is limited (pk.clip, torch.clamp) are known to; or give back i32, or f32",
                where=str(op.loc or ""))  # fmt: skip


@dataclass(frozen=True)
class Emission:
    """What a work became: ``work`` has the schedule that was used, ``note`` says why a tuned one was not (empty: it was, or
    there is none).  ``preparation`` is what is done once for all calls, where the work names weights and something hangs on
    them alone: ``source`` and ``program`` take what it gives as further inputs then."""

    work: Work
    source: Source
    program: Program
    note: str = ""
    preparation: tuple[Source, Program] | None = None


def emission(work: Work) -> Emission:
    """The source of ``work`` under its tuned schedule, or under the default one where that no longer fits.

    Raises what stands in the way; needs no tool.
    """
    with without_collections():
        return with_room(len(work.program.body.ops), lambda: _with_its_schedule(work))


def _with_its_schedule(work: Work) -> Emission:
    try:
        return _emission(work)
    except PortakernError as error:
        if work.chosen is None or work.chosen.exact:
            raise
        return _emission(*without_tuned(work, error))


def _emission(work: Work, note: str = "") -> Emission:
    if not work.weights or work.foreign is not None:
        return Emission(work, *emit(work), note)
    target = registry().target(work.target)
    language = registry().language(target.language)
    main, preparation = _first_that_fits(work, target, lambda program: _apart(program, work.weights, target, language))
    return Emission(work, *main, note, preparation)


Emitted = tuple[Source, Program]


def _apart(program: Program, weights: Collection[str], target: Target, language: Language) -> tuple[Emitted, Emitted | None]:
    """What is done at every call, and what once."""
    from portakern.lower import hoisted

    parts = hoisted(program, weights)
    if parts is None:
        return source_of(program, target, language), None
    return source_of(parts.main, target, language), source_of(parts.preparation, target, language)


def without_tuned(work: Work, error: PortakernError) -> tuple[Work, str]:
    """``work`` with the backend's default schedule, and why the tuned one is not used."""
    assert work.chosen is not None
    return replace(work, chosen=None), f"{work.chosen.origin} is not used: {error.message}"


def schedule_from(work: Work) -> str:
    """Whether the schedule is ``given``, ``tuned`` or the backend's ``default``."""
    return "given" if work.schedule else "tuned" if work.chosen is not None else "default"


def emitted(work: Work, target: Target, language: Language) -> tuple[Source, Program]:
    """The source for ``work``: emitted, or the foreign text with our arrays.

    Where a block of the device cannot hold what the backend's first schedule needs, the next one is taken.
    Raises :class:`MissingRuleError` with everything the emitter lacks, at once.
    """
    if work.foreign is not None:
        return adopted(work, target, language)
    return _first_that_fits(work, target, lambda program: source_of(program, target, language))


Made = TypeVar("Made")


def _first_that_fits(work: Work, target: Target, make: Callable[[Program], Made]) -> Made:
    """What ``make`` gives of the kernels under the first schedule for which a block of the device has room."""
    avoided: set[str] = set()
    while True:
        try:
            return make(lowered(work, target, avoided))
        except ScheduleError as error:
            if work.schedule or work.chosen is not None or not error.schedule or error.schedule in avoided:
                raise
            avoided.add(error.schedule)


def source_of(program: Program, target: Target, language: Language) -> tuple[Source, Program]:
    """The source of lowered kernels.  Raises :class:`MissingRuleError` with everything the emitter lacks, at once."""
    missing = language.emitter.missing(program, target)
    if missing:
        alternatives = dict.fromkeys(m.alternative for m in missing if m.alternative)
        raise MissingRuleError(
            f"{language.name} cannot emit {program.name} for {target.device.name}", hint="; ".join(alternatives),
            missing=tuple(f"{m.what} ({m.where})" if m.where else m.what for m in missing))  # fmt: skip
    return language.emitter.emit(program, target), program


_ENTRY = re.compile(r"[A-Za-z_]\w{0,199}")
"""The entry of a stranger's text; it becomes the name of a file, too."""


def adopted(work: Work, target: Target, language: Language) -> tuple[Source, Program]:
    """A foreign text as a source for the operator's arrays."""
    assert work.foreign is not None
    if language.adopt is None:
        raise BackendError(f"{language.name} takes no foreign kernels", kind="no-foreign-kernels")
    if work.foreign.entry is not None and not _ENTRY.fullmatch(work.foreign.entry):
        raise PortakernError("bad-source", f"{work.foreign.entry[:80]!r} is no name of a function")
    refuse_dtypes(work.program, target)
    try:
        program = lowered(work, target)
    except PortakernError:
        # The operator may be one that we cannot lower: a foreign kernel needs its arrays only.
        program = Program(work.program.name, arrays_of(work.program), ())
    return read_text(language, work.foreign.text, work.foreign.entry, program, target), program


TEXT_CHARACTERS = 1 << 20
"""A kernel's text has no more."""


def read_text(language: Language, text: str, entry: str | None, program: Program, target: Target) -> Source:
    """A stranger's text as a source.  Whatever goes wrong when it is read is wrong in the text: ``bad-source``."""
    assert language.adopt is not None
    if len(text) > TEXT_CHARACTERS:
        raise PortakernError("bad-source", f"the text has {len(text)} characters, where {TEXT_CHARACTERS} are the most")
    try:
        text.encode()
        return language.adopt(text, entry, program, target)
    except UsageError as error:
        raise PortakernError("bad-source", *map(printable, (error.message, error.hint, error.where))) from error
    except (RecursionError, MemoryError) as error:
        raise PortakernError("bad-source", "the text cannot be read: it is nested too deeply") from error
    except (ValueError, ArithmeticError) as error:
        told = f"{type(error).__name__}: {error}"[:400]
        raise PortakernError("bad-source", printable(f"the text cannot be read: {told}")) from error


def arrays_of(program: TensorProgram) -> tuple[Array, ...]:
    """Inputs, run-time scalars and outputs of an operator as the arrays of a program."""
    from portakern.lower.domain import array_types

    types = array_types(program, program.scalars, None)
    inputs = [Array(a.name, types[a.name], "scalar" if a.name in program.scalars else "input") for a in program.args]
    inputs.sort(key=lambda a: a.role == "scalar")
    return (*inputs, *(Array(o, types[o], "output") for o in program.outputs))


def emit(work: Work) -> tuple[Source, Program]:
    """The source and program of ``work``; raises what stands in the way.  Needs no tool."""
    target = registry().target(work.target)
    return emitted(work, target, registry().language(target.language))


def emit_row(work: Work) -> Build:
    """As far as source text, which every machine reaches."""
    return guarded(work.row, lambda: _emit_row(work))


def _emit_row(work: Work) -> Build:
    found = emission(work)
    work, source = found.work, found.source
    schedules = source.schedule or tuple(k.schedule for k in found.program.kernels if k.schedule is not None)
    row = work.row.but(device=source.target.device.title, evidence="emitted", source_hash=source.digest,
                       method="emitted" if work.foreign is None else "given as text",
                       schedule=None if work.foreign else "; ".join(map(str, schedules)) or None,
                       schedule_from=None if work.foreign else schedule_from(work),
                       schedule_note=found.note or (work.chosen.origin if work.chosen is not None else None))
    return Build(row, source, preparation=found.preparation[0] if found.preparation is not None else None,
                 operations=operations(found.program))  # fmt: skip


# ---- compiling --------------------------------------------------------------------------------------------------------


def build(work: Work, estimate: bool = False, peers: bool = False) -> Build:
    """As far as machine code, taken from the cache where it is there; with an ``estimate``, and that of ``peers``."""
    made = compiled(emit_row(work), work, estimate, peers)
    error = made.row.error
    if made.source is None or error is None or work.chosen is None or work.chosen.exact or error["kind"] == "tool-missing":
        return made
    # A tuned schedule that does not compile any more must not keep the operator from being built.
    default, stale = without_tuned(work, PortakernError(error["kind"], error["message"]))
    again = build(default, estimate, peers)
    return replace(again, row=again.row.but(schedule_note=stale)) if again.row.error is None else made


def compiled(made: Build, work: Work, estimate: bool = False, peers: bool = False) -> Build:
    """What was emitted, with its machine code."""
    source = made.source
    return made if source is None else guarded(made.row, lambda: _compiled(made, source, work, estimate, peers))


def _compiled(made: Build, source: Source, work: Work, estimate: bool, peers: bool) -> Build:
    row, target = made.row, source.target
    language = registry().language(target.language)
    runner, detail = runner_for(language, target)
    if language.toolchain is None:
        method = "no compiler belongs to this language" if runner else detail
        return replace(made, row=row.but(method=method), runner=runner)
    available = language.toolchain.available(target)
    if not available:
        raise ToolMissing(f"nothing here compiles for {target}: {available.detail}", hint=install_hint(language))
    foreign = work.foreign is not None
    key, binary, died = compile_judged(language, source, work) if foreign else (*compile_cached(language, source), "")
    must_fit(source, binary)
    if foreign:
        must_work_alone(language.toolchain, binary)
    row = row.but(binary_hash=binary.digest, resources=resources_dict(binary.resources))
    if not binary.machine_code:
        method = f"{binary.format} from {binary.tool}: no machine code for {target.device.name}"
        return replace(made, row=row.but(method=f"{method}; {available.detail}"), binary_key=key)
    method = "; ".join(filter(None, (binary.tool, died, "" if runner else f"not run: {detail}")))
    row = row.but(evidence="compiled", method=method)
    made = replace(made, row=row, binary_key=key, runner=runner, preparation_key=_prepared(language, made.preparation))
    return _estimated(made, work, binary, peers) if estimate else made


def _prepared(language: Language, preparation: Source | None) -> str:
    """The key of the binary of what is done once."""
    if preparation is None:
        return ""
    key, binary = compile_cached(language, preparation)
    must_fit(preparation, binary)
    return key


def must_fit(source: Source, binary: CompiledBinary) -> None:
    """Raise :class:`ScheduleError` for a kernel whose blocks take more shared memory than the device gives one, as compilers
    alone know in the end: no launch may be the first to find out."""
    room = source.target.device.count("shared_bytes_per_block", 0)
    for kernel in binary.resources:
        if room and (kernel.shared_bytes or 0) > room:
            raise no_room(source, kernel.kernel, kernel.shared_bytes or 0, room)


def must_work_alone(toolchain: Toolchain, binary: CompiledBinary) -> None:
    """Raise ``decoy`` for a stranger's binary that reaches for what may do the work in its place."""
    names = toolchain.helpers(binary) if isinstance(toolchain, SeesHelpers) else ()
    if names:
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        raise PortakernError("decoy", f"it reaches for {', '.join(names[:4])}{more}, by which other libraries, programs or "
                             "Python do the work", hint="write what is computed into the kernel's own text")  # fmt: skip


def _estimated(made: Build, work: Work, binary: CompiledBinary, peers: bool) -> Build:
    def figures(estimator: Estimator) -> dict[str, Any]:
        assert made.source is not None
        found = estimate_of(estimator, made.source, binary, work)
        if peers and work.foreign is None:
            found = {**found, "peers": estimated_peers(estimator, made.source.target, work, found["us"])}
        return found

    return with_estimate(made, figures)


def with_estimate(made: Build, figures: Callable[[Estimator], dict[str, Any]]) -> Build:
    """With an estimate where there is a model of the target; what the model does not know is said, and is no failure."""
    assert made.source is not None
    estimator = registry().estimator(made.source.target)
    if estimator is None:
        return made
    if not (available := estimator.available(made.source.target)):
        return replace(made, row=made.row.but(method=f"{made.row.method}; no estimate: {available.detail}"))
    try:
        row = made.row.but(estimate=figures(estimator))
    except PortakernError as error:
        row = made.row.but(method=f"{made.row.method}; no estimate: {error.message}")
    except Exception as error:  # a model's defect must not take along that the kernel compiled
        row = made.row.but(method=f"{made.row.method}; no estimate: {defect(error).message}")
    return replace(made, row=row)


def estimate_of(estimator: Estimator, source: Source, binary: CompiledBinary, work: Work) -> dict[str, Any]:
    """The estimate as JSON, from the cache where the same code was estimated at the same sizes by this version of the model."""
    def program() -> Program | None:
        return None if work.foreign is not None else _emission(work).program

    of = (work.program.digest, sorted(work.sizes.items()), repr(work.schedule), repr(work.chosen))
    return kept_estimate(estimator, source, binary, work.sizes, of, program)


def kept_estimate(estimator: Estimator, source: Source, binary: CompiledBinary, sizes: Mapping[str, int], of: Sequence[Any],
                  program: Callable[[], Program | None]) -> dict[str, Any]:  # fmt: skip
    """The same of a source that was emitted from ``program()``, which ``of`` tells from others."""
    from portakern.launch.dispatch import dispatch_sequence_of

    key = digest("estimate", type(estimator).__module__, estimator.version, str(source.target), source.digest, binary.digest,
                 *of)
    kept = Cache().get(key)
    if kept is not None:
        return json.loads(kept)
    sequence = dispatch_sequence_of(source, binary, sizes)
    found = estimate_dict(estimator.estimate(source, binary, sequence, program()))
    Cache().put(key, json.dumps(found).encode())
    return found


def estimated_peers(estimator: Estimator, target: Target, work: Work, ours_us: float) -> list[dict[str, Any]]:
    """What others make of the operator under the same model: ``ratio`` is how many times as long as ours they take."""
    if not isinstance(estimator, EstimatesPeers):
        return []
    program = bind(work.program, work.sizes)
    key = digest("estimated peers", type(estimator).__module__, estimator.version, str(target), program.digest)
    kept = Cache().get(key)
    entries = json.loads(kept) if kept is not None else [peer_entry(n, e) for n, e in estimator.peers(program, target).items()]
    if kept is None:
        Cache().put(key, json.dumps(entries).encode())
    return [{**e, "ratio": e["us"] / ours_us} if e.get("us") else e for e in entries]


def peer_entry(name: str, found: Estimate | PortakernError) -> dict[str, Any]:
    if isinstance(found, PortakernError):
        return {"name": name, "error": found.message}
    return {"name": name, **estimate_dict(found)}


def compile_cached(language: Language, source: Source) -> tuple[str, CompiledBinary]:
    """The binary of ``source`` and its key in the cache, compiled only if it is not there."""
    assert language.toolchain is not None
    toolchain = language.toolchain
    return _cached(binary_key(language, source), lambda: toolchain.compile(source))


def compile_judged(language: Language, source: Source, work: Work) -> tuple[str, CompiledBinary, str]:
    """The same of a stranger's text, compiled in a jail and kept apart from ours; and what ended that process at first, if
    anything did: compilers die of one signal or other, and the next time do not."""
    died: list[str] = []

    def compiled() -> CompiledBinary:
        with kernel_process(work, "compiling", build_environment(language)) as process:
            return compile_remotely(process, source)

    def compiled_at_last() -> CompiledBinary:
        try:
            return compiled()
        except PortakernError as error:
            if error.kind != "crash":
                raise
            died.append(f"{error.message} at first")
        return compiled()

    key, binary = _cached(digest("judged", binary_key(language, source)), compiled_at_last)
    return key, binary, "".join(died)


def _cached(key: str, make: Callable[[], CompiledBinary]) -> tuple[str, CompiledBinary]:
    cache = Cache()
    stored = cache.get(key)
    if stored is not None and (binary := _unpickled(stored)) is not None:
        return key, binary
    binary = make()
    cache.put(key, pickle.dumps(binary, protocol=pickle.HIGHEST_PROTOCOL))
    return key, binary


def binary_key(language: Language, source: Source) -> str:
    """Text, headers and launches, the arrays' types, the compiler with its flags, and the code that drives it."""
    assert language.toolchain is not None
    arrays = repr((source.arrays, source.sizes))
    fingerprint = language.toolchain.fingerprint(source.target)
    return digest("binary", source.digest, arrays, fingerprint, code_digest(type(language.toolchain).__module__))


@functools.cache
def code_digest(module: str) -> str:
    """Changes with the files beside a toolchain's own: what a binary holds is theirs to decide."""
    file = getattr(sys.modules.get(module), "__file__", None)
    folder = sorted(Path(file).parent.glob("*.py")) if file else []
    return digest(*((p.name, p.read_bytes()) for p in folder))


def cached_binary(key: str) -> CompiledBinary | None:
    """The binary stored under ``key``; ``None`` for an empty key."""
    if not key:
        return None
    stored = Cache().get(key)
    binary = _unpickled(stored) if stored is not None else None
    if binary is None:
        raise CacheError("a binary that was just compiled is gone from the cache",
                         hint="is something else emptying it? set PORTAKERN_CACHE to another directory")
    return binary


def _unpickled(stored: bytes) -> CompiledBinary | None:
    """``None`` for an entry written by a portakern whose binaries looked different."""
    try:
        binary = pickle.loads(stored)
    except Exception:
        return None
    return binary if isinstance(binary, CompiledBinary) else None


def install_hint(language: Language) -> str:
    return f"pip install 'portakern[{language.extra}]'" if language.extra else "see `portakern doctor`"


RUNNERS = ("runtime", "machine", "simulator")


def runner_part(language: Language, target: Target, runner: str) -> Runtime | Simulator | None:
    """The part that ``runner`` names."""
    return language.runtime if runner == "runtime" else simulator_of(language, target, runner)


def held_by_one(language: Language, runner: str) -> bool:
    """Whether kernels are run on a device that one process at a time may use."""
    return runner == "runtime" and isinstance(language.runtime, HeldByOne) and language.runtime.held_by_one


def simulator_of(language: Language, target: Target, runner: str) -> Simulator | None:
    """The simulator that ``runner`` names: that of the ``machine``, or the language's own."""
    if runner == "machine":
        machine = registry().machine(target)
        return machine.simulator if machine is not None else None
    return language.simulator


def runner_for(language: Language, target: Target) -> tuple[str, str]:
    """What can run a kernel of ``language`` here, and why nothing can.

    The silicon's ``runtime`` comes first, then a ``machine`` that executes what was compiled, then the language's own
    ``simulator``, which may only interpret the source.
    """
    reasons = []
    for name in RUNNERS:
        part = runner_part(language, target, name)
        if part is None:
            continue
        available = part.available(target)
        if available:
            return name, ""
        reasons.append(available.detail)
    return "", "; ".join(reasons) or f"no runtime or simulator for {target.device.name}"


# ---- running and checking ---------------------------------------------------------------------------------------------


def load(source: Source, key: str, runner: str, binary: CompiledBinary | None = None) -> Executable:
    """What ``runner`` names with the binary, or the one in the cache under ``key``."""
    part = runner_part(registry().language(source.target.language), source.target, runner)
    assert part is not None
    return part.load(source, binary if binary is not None else cached_binary(key))


def loaded(work: Work, made: Build, binary: CompiledBinary | None = None) -> Executable:
    """What was built, ready to run; with what is done once for all calls where there is such."""
    assert made.source is not None
    main = load(made.source, made.binary_key, made.runner, binary)
    part = runner_part(registry().language(made.source.target.language), made.source.target, made.runner)
    if work.foreign is not None and isinstance(part, RunsInPart):
        cast(ShowsParts, main).watch()
    if made.preparation is None:
        return main
    from portakern.launch.hoisted import HoistedExecutable, Part

    before = Part(made.preparation, load(made.preparation, made.preparation_key, made.runner))
    return HoistedExecutable(before, Part(made.source, main), [a.name for a in work.program.args])


@contextlib.contextmanager
def running(work: Work, made: Build) -> Iterator[tuple[Executable, str]]:
    """What was built, ready to run, and what keeps it in: a stranger's kernel runs in a process that holds nothing else."""
    assert made.source is not None
    if work.foreign is None:
        yield loaded(work, made), ""
        return
    environment = run_environment(made.source.target, made.runner)
    with kernel_process(work, "running", environment) as process:
        yield RemoteExecutable(process, made.source, cached_binary(made.binary_key), made.runner,
                               work.foreign.secret.other("memory")), f"; {process.method}"  # fmt: skip


def check(work: Work, made: Build, seed: int = 0, full: bool = True, turn: str = "") -> Row:
    """The row after running what was built and comparing it with the oracle: all of it, or unless ``full`` and where the
    oracle would take minutes, as :mod:`portakern.check.sampled` says; then ``method`` says so.

    ``turn`` names a device that is used while nobody times there, and whose memory is given back for those who will.
    """
    return guarded(made.row, lambda: Build(_checked(work, made, seed, full, turn))).row


def _checked(work: Work, made: Build, seed: int, full: bool, turn: str) -> Row:
    from portakern.check.bounds.free import free_rounding

    assert made.source is not None
    source, row = made.source, made.row
    language = registry().language(source.target.language)
    if made.runner == "runtime":
        assert language.runtime is not None
        reached, ran_by = "executed", f"run on {language.runtime.device_name(source.target)}"
        row = row.but(device=language.runtime.device_name(source.target))
    else:
        simulator = simulator_of(language, source.target, made.runner)
        assert simulator is not None
        reached, ran_by = simulator.evidence, simulator.method(source.target)
    with free_rounding(work.foreign is not None), running(work, made) as (executable, kept):
        taking_turns = InTurn(executable, turn) if turn else executable
        found = judged(taking_turns, work, seed, full, turn)
        verdict = found.verdict
        shown, decoy = ("", None)
        if verdict.correct and isinstance(executable, RemoteExecutable):
            shown, decoy = proved(executable, taking_turns, work, made)
        did = executable.method if isinstance(executable, SaysMethod) else ""
    ran_by += kept + found.method + (f": {did}" if did else "") + shown + _said_of_little(verdict.little)
    row = row.but(correct=verdict.correct, max_error_ratio=verdict.max_error_ratio, part=found.part)
    if not verdict.correct:
        method = f"{row.method}; {ran_by}: wrong"
        return row.but(method=method).failed(PortakernError("incorrect", verdict.message, hint=incorrect_hint(work, did)))
    if decoy is not None:
        return row.but(correct=False, method=f"{row.method}; {ran_by}: a decoy").failed(decoy)
    return row.but(evidence=reached, method=f"{row.method}; {ran_by}")


def _said_of_little(outputs: Sequence[str]) -> str:
    """That right says little of ``outputs``."""
    return f"; roundings may decide much of {', '.join(outputs)}" if outputs else ""


class InTurn:
    """An executable that runs while nobody times on its device."""

    def __init__(self, executable: Executable, turn: str) -> None:
        self._executable, self._turn, self.guards = executable, turn, executable.guards

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        with between_processes(self._turn):
            self._executable.run(buffers, sizes)

    def run_part(self, part: str, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> str:
        with between_processes(self._turn):
            return cast(ShowsParts, self._executable).run_part(part, buffers, sizes)

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        with between_processes(self._turn):
            return self._executable.call(inputs, sizes)


def proved(executable: RemoteExecutable, run_by: Executable, work: Work, made: Build) -> tuple[str, PortakernError | None]:
    """What was shown of who computes a stranger's outputs, and the error where that is not its kernels.  ``run_by`` runs the
    executable."""
    from portakern.check.proof import PROOF_S, prove

    assert made.source is not None and work.foreign is not None
    part = runner_part(registry().language(made.source.target.language), made.source.target, made.runner)
    if not isinstance(part, RunsInPart):
        return "", None
    process = executable.process
    had, process.allowance = process.allowance, Allowance(PROOF_S)
    try:
        return "; " + prove(run_by, part, work.program, work.sizes, families=work.declared,
                            secret=work.foreign.secret.other("proof"), ran=list(executable.ran.values())), None  # fmt: skip
    except PortakernError as error:
        if error.kind == "decoy":
            return "", error
        if error.kind in ("timeout", "memory"):
            return f"; whether its kernels do the work was not found out ({_NOT_FOUND_OUT[error.kind]})", None
        raise
    finally:
        process.allowance = had


_NOT_FOUND_OUT = {"timeout": "that takes too long", "memory": "that takes too much memory"}


def judged(executable: Executable, work: Work, seed: int, full: bool, turn: str = "") -> Sampled:
    """The verdict, and how it was reached where that was not by the full check."""
    from portakern.check import check_executable
    from portakern.check.hidden import check_hidden, check_quick
    from portakern.check.sampled import Sampled, affordable

    foreign, secret = work.foreign, work.foreign.secret.other("check") if work.foreign is not None else None
    seed = foreign.secret.number("check") if foreign is not None else seed
    if not full and not affordable(bind(work.program, work.sizes)):
        found = _judged_in_part(executable, work, seed, turn)
        if found is not None:
            return replace(found, method=f"; {found.method}")
    if foreign is None or secret is None:
        return Sampled(check_executable(executable, work.program, dict(work.sizes), families=work.families, seed=seed), "")
    if foreign.quick:
        verdict = check_quick(executable, work.program, work.sizes, families=work.declared, secret=secret)
        return Sampled(verdict, f"; quick check ({', '.join(verdict.stages)})")
    cache, pool = (Cache(), None) if foreign.again else (None, stranger.pool)
    verdict = check_hidden(executable, work.program, work.sizes, families=work.declared, secret=secret, cache=cache, pool=pool)
    count = len(verdict.left_out)
    left_out = f"; {count} of {count + len(verdict.stages)} stages left out for want of time" if count else ""
    return Sampled(verdict, left_out)


def _judged_in_part(executable: Executable, work: Work, seed: int, turn: str) -> Sampled | None:
    """Where the oracle would take minutes; ``None`` where no part can be held against it."""
    from portakern.check.blocks import check_blocks
    from portakern.check.sampled import check_sampled
    from portakern.study.reference import reference_for

    given: dict[str, Any] = {"families": work.families, "seed": seed}
    if isinstance(executable, RunsBlocks):
        found = check_blocks(executable, work.program, work.sizes, **given)
        if found is not None:
            return found
    reference = reference_for(work, registry().target(work.target), turn)
    return check_sampled(executable, work.program, work.sizes, **given, reference=reference)


def incorrect_hint(work: Work, did: str) -> str:
    """The next step: for a kernel from elsewhere, what its executable says of how it was run."""
    if work.foreign:
        return f"how it was run: {did}" if did else ""
    return f"look at the kernel: portakern emit {work.row.operator} --targets {work.target}"


# ---- environments of the workers -----------------------------------------------------------------------------------


def build_environment(language: Language) -> dict[str, str]:
    """What a worker that compiles kernels needs set before anything is imported."""
    return {**language.environment, **own_environment(language.toolchain)}


def own_environment(part: object) -> Mapping[str, str]:
    """The variables that a part of a language needs beside those of the language."""
    return part.environment if isinstance(part, NeedsEnvironment) else {}


def shared_environment(languages: Iterable[Language]) -> dict[str, str] | None:
    """That of a process in which several languages compile and run; ``None`` where fewer than two may share one.  A language
    that wants another value than one before it stays alone."""
    found: dict[str, str] = {}
    sharing = 0
    for language in languages:
        wanted = {**build_environment(language), **own_environment(language.runtime)}
        if language.shares_process and all(found.get(k, v) == v for k, v in wanted.items()):
            found |= wanted
            sharing += 1
    return found if sharing > 1 else None


def run_environment(target: Target, runner: str) -> dict[str, str]:
    """What a worker that runs kernels needs set before anything is imported."""
    language = registry().language(target.language)
    part = runner_part(language, target, runner)
    return {**language.environment, **own_environment(part)}
