"""Building: from source to a binary, compiled or found in the cache, and what can run it here."""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from portakern.backend import (
    CompiledBinary,
    Language,
    SeesHelpers,
    Source,
    Toolchain,
)
from portakern.emit.room import no_room
from portakern.errors import (
    CacheError,
    PortakernError,
    ScheduleError,
    ToolMissing,
)
from portakern.referee import compile_remotely
from portakern.registry import registry
from portakern.study.row import resources_dict
from portakern.study.steps.environments import build_environment
from portakern.study.steps.estimates import estimated
from portakern.study.steps.outcome import Build, guarded
from portakern.study.steps.runners import install_hint, runner_for
from portakern.study.steps.source import emit_row, without, without_tuned
from portakern.study.stranger import kernel_process
from portakern.study.work import Work
from portakern.tools.cache import Cache, digest


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
    """What was emitted, with its machine code.  Where the compiler has no room for the backend's first schedule, it is emitted
    anew under the next one."""
    source = made.source
    return made if source is None else guarded(made.row, lambda: _compiled_with_room(made, source, work, estimate, peers))


def _compiled_with_room(made: Build, source: Source, work: Work, estimate: bool, peers: bool) -> Build:
    try:
        return _compiled(made, source, work, estimate, peers)
    except ScheduleError as error:
        other = without(work, error)
        again = emit_row(other) if other is not None else made
        if other is None or again.source is None or again.source.digest == source.digest:
            raise
        return compiled(again, other, estimate, peers)


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
    return estimated(made, work, binary, peers) if estimate else made


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
            raise no_room(source, kernel.kernel, kernel.shared_bytes or 0, room, [k.kernel for k in binary.resources])


def must_work_alone(toolchain: Toolchain, binary: CompiledBinary) -> None:
    """Raise ``decoy`` for a stranger's binary that reaches for what may do the work in its place."""
    names = toolchain.helpers(binary) if isinstance(toolchain, SeesHelpers) else ()
    if names:
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        raise PortakernError("decoy", f"it reaches for {', '.join(names[:4])}{more}, by which other libraries, programs or "
                             "Python do the work", hint="write what is computed into the kernel's own text")  # fmt: skip


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
