"""C++ compilers of the host: g++, clang++, or the clang that the ziglang wheel brings.

The first one found is used, g++ first since it starts fastest; the environment variable ``PORTAKERN_CXX`` (a command, such as
``clang++-19``) overrides the choice.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.errors import PortakernError, ToolMissing
from portakern.tools import elf
from portakern.tools.process import run_tool

from ..reaching import REACHING

FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fPIC", "-fvisibility=default",
         "-fno-asynchronous-unwind-tables")
"""No ``-ffast-math``: NaN, infinities and the order of operations stay as written."""
_UNFUSED, _FUSED = "-ffp-contract=off", "-ffp-contract=fast"
"""Texts in the words of ``pk/`` say what is fused (``pk::mad``), since a value and its own recomputation must be rounded alike;
in foreign texts the compiler chooses."""
TIMEOUT_S = 300.0  # the clang of ziglang builds its C++ library when it is first used
MISSING = "install g++ or clang++, or: pip install 'portakern[cpp]'"


@dataclass(frozen=True)
class Compiler:
    """A compiler: its command, the flags that only it needs, and its name with version."""

    command: tuple[str, ...]
    extra: tuple[str, ...]
    version: str


@functools.cache
def find_compiler(asked: str | None = None) -> Compiler:
    """The compiler to use; ``asked`` overrides the choice.  Raises :class:`ToolMissing`."""
    for command in _candidates(asked):
        try:
            result = run_tool([*command, "--version"], timeout_s=60)
        except PortakernError:
            continue
        if result.ok and result.stdout:
            return Compiler(command, _extra(command, result.stdout), result.stdout.splitlines()[0].strip())
    raise ToolMissing(f"no C++ compiler{f' {asked!r}' if asked else ''} was found on this machine", hint=MISSING)


def _candidates(asked: str | None) -> list[tuple[str, ...]]:
    if asked:
        return [tuple(shlex.split(asked))]
    found: list[tuple[str, ...]] = [(path,) for name in ("g++", "clang++", *_versions()) if (path := shutil.which(name))]
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "c++"))
    return found


def _versions() -> list[str]:
    return [f"clang++-{n}" for n in range(22, 13, -1)]


def _extra(command: tuple[str, ...], version: str) -> tuple[str, ...]:
    if "ziglang" in command or "zig" in Path(command[0]).name:
        return ("-fno-sanitize=undefined", "-g0", "-mprefer-vector-width=512")  # zig checks and describes by default
    # g++ and clang prefer 256-bit vectors on processors that have 512-bit ones.
    return ("-mprefer-vector-width=512",) if os.uname().machine == "x86_64" else ()


class CppToolchain:
    """Compiles a C++ source to a shared object in a child process."""

    def available(self, target: Target) -> Availability:
        try:
            return Availability(True, self.compiler().version)
        except ToolMissing as error:
            return Availability(False, f"{error.message}; {error.hint}")

    def compiler(self) -> Compiler:
        return find_compiler(os.environ.get("PORTAKERN_CXX"))

    def helpers(self, binary: CompiledBinary) -> tuple[str, ...]:
        return helpers_of(binary.data)

    def fingerprint(self, target: Target) -> str:
        c = self.compiler()
        return " ".join([c.version, *c.command[1:], *FLAGS, _UNFUSED, *c.extra, processor()])

    def compile(self, source: Source) -> CompiledBinary:
        """By way of assembly, which the binary keeps for its readers.  Raises :class:`CompileError` with the log."""
        c = self.compiler()
        with tempfile.TemporaryDirectory(prefix="portakern-") as name:
            folder = Path(name)
            assembly, out = folder / "kernel.s", folder / "kernel.so"
            main = _write(source, folder)
            what = f"{source.operator} for {source.target}"
            flags = [*FLAGS, _UNFUSED if source.headers else _FUSED, *c.extra, "-pthread"]
            log = _run([*c.command, *flags, "-I", folder, "-S", main, "-o", assembly], folder, what)
            _run([*c.command, *flags, "-shared", assembly, "-o", out], folder, what)
            data, text = out.read_bytes(), assembly.read_text(errors="replace")
        return CompiledBinary("shared-object", data, c.version, read_resources(data, source), assembly=text, log=log)


def _write(source: Source, folder: Path) -> Path:
    """The source and its headers as files; gives the source's."""
    main = folder / f"{source.entry}.cpp"
    main.write_text(source.text)
    for name, text in source.headers:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return main


def _run(command: list[str | Path], folder: Path, what: str) -> str:
    """Run one step; gives what the compiler said."""
    result = run_tool(command, timeout_s=TIMEOUT_S, cwd=folder, missing_hint=MISSING)
    return result.checked(what).log.replace(f"{folder}/", "")


_STARTUP = ("_init", "_fini", "frame_dummy", "register_tm", "deregister_tm", "__do_global", "_start")


def read_resources(data: bytes, source: Source) -> tuple[Resources, ...]:
    """Code size of the object's own functions; a CPU has no register or shared-memory budget to report."""
    try:
        tables = elf.read(data).symbols
    except elf.ElfError:
        return ()
    table = next((t for t in (".symtab", ".dynsym") if t in tables), "without symbols")  # the second is what stripping leaves
    own = [s.size for s in tables.get(table, ()) if s.kind == "STT_FUNC" and s.size and not s.name.startswith(_STARTUP)]
    return (Resources(source.entry, code_bytes=sum(own), source=f"ELF {table}, sizes of its {len(own)} functions"),)


_LIBRARIES = re.compile(r"lib(c|m|mvec|stdc\+\+|c\+\+|c\+\+abi|gcc_s|pthread|rt|gomp|omp|unwind|atomic)\.so[.\d]*|ld-linux.*")
"""What kernels may be loaded with: what a compiler's own code needs."""


def helpers_of(data: bytes) -> tuple[str, ...]:
    """What a shared object wants of others that may do its work."""
    try:
        found = elf.read(data)
    except elf.ElfError:
        return ("what no reader of ELF files understands",)
    wanted = [s.name for s in found.symbols.get(".dynsym", ()) if not s.defined and REACHING.fullmatch(s.name)]
    return (*wanted, *(n for n in found.needed if not _LIBRARIES.fullmatch(n)))


@functools.cache
def processor() -> str:
    """What ``-march=native`` depends on: the processor's name and features, as the kernel lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    import hashlib

    def of(key: str) -> str:
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")

    features = hashlib.sha256(of("flags").encode()).hexdigest()[:16]
    return f"{os.uname().machine} {of('model name')} {features}"
