"""HIP sources to machine code by clang and lld in child processes; nothing of ROCm is needed.

Which clang: ``$PORTAKERN_HIP_CLANG`` where it is set (a path), else the one in the ziglang wheel (``pip install
'portakern[rocm]'``: one version for everybody, with every AMDGPU target), else ROCm's, else the newest ``clang-N`` on PATH
that knows the target.  Headers are written to a temporary folder; device libraries are not used.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.device import Device
from portakern.emit.mangled import is_called
from portakern.emit.room import explained
from portakern.emit.strangers import FOREIGN
from portakern.errors import CompileError, PortakernError, ToolMissing
from portakern.tools.cache import Cache, digest
from portakern.tools.process import run_tool

from .amdgcn.code_objects.reader import CodeObject, KernelUse
from .amdgcn.cost.occupancy import occupancy
from .amdgcn.hazards.insertion import with_wait_states
from .standard import standard_headers

OVERRIDE = "PORTAKERN_HIP_CLANG"
HINT = "pip install 'portakern[rocm]' brings a clang with every AMDGPU target"
FLAGS = ("-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-O3", "-std=c++17", "-Wall", "-Wno-unused-variable",
         "-gline-tables-only", "-fdebug-compilation-dir=.")  # fmt: skip
"""Assembly names the lines that it comes from: the simulator and reports say them, and machine code is the same without."""
TEXT = "kernel.hip"
FIRST_HEADER = "first header"
"""Option of a foreign source: the header that its compiler includes before the text."""
CALLED = "called"
"""Option of a foreign source: pairs of a launch's kernel and the instance of a template that it is in the text."""
FOREIGN_FLAGS = ("-Wno-unused-value", "-Wno-unused-result")
TIMEOUT_S = 120.0
_FORMAT = 4  # of what is cached


@dataclass(frozen=True)
class Clang:
    """A compiler: the words that start it, those that start its linker, and where it came from."""

    command: tuple[str, ...]
    linker: tuple[str, ...]
    origin: str


@cache
def candidates(override: str | None) -> tuple[Clang, ...]:
    """Compilers on this machine in order of preference; only ``override`` where it is given."""
    if override:
        return (_standalone(Path(override), f"${OVERRIDE}"),)
    found: list[Clang] = []
    spec = find_spec("ziglang")
    if spec is not None and spec.origin is not None:
        zig = str(Path(spec.origin).parent / "zig")
        found.append(Clang((zig, "clang"), (zig, "ld.lld"), "ziglang"))
    rocm = Path(os.environ.get("ROCM_PATH", "/opt/rocm")) / "llvm/bin/clang"
    if rocm.exists():
        found.append(_standalone(rocm, "ROCm"))
    for version in range(30, 18, -1):
        path = shutil.which(f"clang-{version}")
        if path:
            found.append(_standalone(Path(path).resolve(), f"clang-{version}"))
    return tuple(found)


def _standalone(clang: Path, origin: str) -> Clang:
    beside = clang.parent / "ld.lld"
    return Clang((str(clang),), (str(beside) if beside.exists() else shutil.which("ld.lld") or str(beside),), origin)


@cache
def _version(clang: Clang) -> str:
    """What the compiler calls itself; raises :class:`ToolMissing` where it cannot be run."""
    first = run_tool([*clang.command, "--version"], timeout_s=30, missing_hint=HINT).checked("--version").stdout
    match = re.search(r"clang version (\S+)", first)
    return f"clang {match[1] if match else 'of unknown version'} ({clang.origin})"


@cache
def _knows(clang: Clang, isa: str) -> bool:
    result = run_tool(
        [
            *clang.command,
            "-target",
            "amdgcn-amd-amdhsa",
            f"-mcpu={isa}",
            "-x",
            "c",
            "-nogpulib",
            "-S",
            "-o",
            os.devnull,
            os.devnull,
        ],
        timeout_s=30,
        missing_hint=HINT,
    )
    return result.ok


@cache
def _choose(isa: str, override: str | None) -> Clang:
    known = candidates(override)
    for clang in known:
        try:
            if (clang.origin == "ziglang" or _knows(clang, isa)) and Path(clang.command[0]).exists():
                return clang
        except ToolMissing:
            continue
    if override:
        raise ToolMissing(
            f"${OVERRIDE} names {override!r}, which cannot compile for {isa}", hint="unset it to use the ziglang wheel's clang"
        )
    raise ToolMissing(f"no clang that compiles for {isa} was found", hint=HINT)


def choose(isa: str) -> Clang:
    """The compiler for an instruction set; raises :class:`ToolMissing`."""
    return _choose(isa, os.environ.get(OVERRIDE))


class HipToolchain:
    """Compiles to assembly text, assembles and links it: the text kept is exactly what was assembled."""

    def available(self, target: Target) -> Availability:
        try:
            clang = choose(target.device.isa)
        except PortakernError as error:
            return Availability(False, f"{error.message}; {error.hint}" if error.hint else error.message)
        return Availability(True, f"{clang.origin}: {' '.join(clang.command)}")

    def fingerprint(self, target: Target) -> str:
        return f"{_version(choose(target.device.isa))} {' '.join(FLAGS)} {target.device.isa} {_FORMAT}"

    def compile(self, source: Source) -> CompiledBinary:
        device = source.target.device
        clang = choose(device.isa)
        tool = _version(clang)
        if not source.launches:  # nothing is computed: the outputs are empty
            return CompiledBinary("none", b"", tool)
        flags = _flags(clang, source)
        words = (source.options, flags[len(FLAGS) :], names_of(source))
        key = digest("hip", source.text, source.headers, words, self.fingerprint(source.target))
        kept = Cache().get(key)
        if kept is not None:
            code, assembly, log = _unpack(kept)
        else:
            code, assembly, log = _build(clang, source, flags, device.isa)
            Cache().put(key, _pack(code, assembly, log))
        return CompiledBinary("hsaco", code, tool, resources(code, device, source), assembly, log)


def _flags(clang: Clang, source: Source) -> tuple[str, ...]:
    if not dict(source.options).get(FOREIGN):
        return FLAGS
    first = dict(source.options).get(FIRST_HEADER)
    before = ("-include", first) if first else ()
    return (*FLAGS, *FOREIGN_FLAGS, *before, *(standard_headers(Path(clang.command[0])) if clang.origin == "ziglang" else ()))


def names_of(source: Source) -> dict[str, str]:
    """What launches call their kernels -> what those are called in a foreign text."""
    options = dict(source.options)
    return {x.kernel: x.kernel for x in source.launches} | dict(options.get(CALLED, ())) if options.get(FOREIGN) else {}


def _with_names(assembly: str, names: dict[str, str]) -> str:
    """Kernels that C++ gave names of its own get those that they are launched by, where there is one such kernel."""
    symbols = re.findall(r"^\s*\.amdhsa_kernel (\S+)", assembly, re.MULTILINE)
    for name, called in names.items():
        hits = [x for x in symbols if is_called(x, called)]
        if name not in symbols and name.isidentifier() and len(hits) == 1:
            assembly = re.sub(rf"(?<![\w.$]){re.escape(hits[0])}(?![\w$])", name, assembly)
    return assembly


_NO_ROOM = re.compile(r"local memory \((?P<taken>\d+)\) exceeds limit \((?P<room>\d+)\) in (?:function )?'(?P<kernel>\w+)'")


def _build(clang: Clang, source: Source, flags: tuple[str, ...], isa: str) -> tuple[bytes, str, str]:
    what = f"{source.operator} for {source.target}"
    with tempfile.TemporaryDirectory(prefix="portakern-hip-") as folder:
        place = Path(folder)
        file = dict(source.options).get(FOREIGN, TEXT)
        for name, text in ((file, source.text), *source.headers):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)

        def run(*command: str) -> str:
            try:
                return run_tool(command, timeout_s=TIMEOUT_S, cwd=place, missing_hint=HINT).checked(what).log
            except CompileError as error:
                raise explained(error, source, _NO_ROOM) from None

        log = run(*clang.command, *flags, f"--offload-arch={isa}", "-I", ".", "-S", file, "-o", "kernel.s")
        assembly = _without_tables((place / "kernel.s").read_text())
        names = names_of(source)
        (place / "kernel.s").write_text(_with_names(assembly, names) if names else with_wait_states(assembly, isa))
        run(*clang.command, "-target", "amdgcn-amd-amdhsa", f"-mcpu={isa}", "-c", "kernel.s", "-o", "kernel.o")
        run(*clang.linker, "-shared", "kernel.o", "-o", "kernel.hsaco")
        return (place / "kernel.hsaco").read_bytes(), (place / "kernel.s").read_text(), log


def _without_tables(assembly: str) -> str:
    """The assembly without debuggers' tables, most of its text, and the labels that only they name, which would look like
    heads of blocks; the places of lines (``.loc``) stay."""
    kept, inside = [], False
    for line in assembly.splitlines(keepends=True):
        words = line.split()
        if words and words[0] in (".section", ".text", ".data", ".bss"):
            inside = len(words) > 1 and words[1].startswith(".debug_") and not words[1].startswith(".debug_line")
        if not inside:
            kept.append(line)
    named = set(re.findall(r"\.Ltmp\d+\b(?!:)", "".join(kept)))
    return "".join(line for line in kept if not (m := re.match(r"(\.Ltmp\d+):\s*$", line)) or m[1] in named)


def _pack(code: bytes, assembly: str, log: str) -> bytes:
    head = json.dumps({"code": len(code), "assembly": assembly, "log": log}).encode()
    return len(head).to_bytes(8, "little") + head + code


def _unpack(data: bytes) -> tuple[bytes, str, str]:
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    return data[8 + size :], head["assembly"], head["log"]


# ---- resources --------------------------------------------------------------------------------------------------------


def resources(code: bytes, device: Device, source: Source | None = None) -> tuple[Resources, ...]:
    """What the kernels of a code object use, in launch order where ``source`` gives one."""
    found = CodeObject(code).kernels
    threads = {x.kernel: x.block[0] * x.block[1] * x.block[2] for x in source.launches} if source else {}
    shared = {x.kernel: x.shared_bytes for x in source.launches} if source else {}
    order = [name for name in threads if name in found] + [name for name in found if name not in threads]
    return tuple(_resources(found[name], device, threads.get(name), shared.get(name, 0)) for name in order)


def _resources(k: KernelUse, device: Device, threads: int | None, dynamic: int) -> Resources:
    lanes = threads or k.max_threads
    fits = occupancy(device, lanes, k.registers, k.scalars, k.shared_bytes + dynamic)
    return Resources(
        kernel=k.name,
        registers=k.registers,
        spills=k.vector_spills + k.scalar_spills,
        scratch_bytes=k.scratch_bytes,
        shared_bytes=k.shared_bytes + dynamic,
        code_bytes=k.code_bytes,
        occupancy=fits.share,
        limiter=fits.limiter,
        source="AMDGPU metadata and symbols of the code object",
        extra=(
            ("agprs", k.agprs),
            ("sgprs", k.scalars),
            ("wave", k.wave),
            ("blocks_per_unit", fits.blocks),
            ("dynamic_stack", k.dynamic_stack),
        ),
    )
