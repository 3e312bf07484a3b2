"""The host's C compiler, run as a child process with a time limit."""

from __future__ import annotations

import functools
import platform
import shutil
import tempfile
from pathlib import Path

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.errors import PortakernError, ToolMissing
from portakern.tools.process import run_tool

FLAGS = ("-std=c11", "-O3", "-march=native", "-fno-math-errno", "-fPIC", "-shared")
TIMEOUT_S = 120.0


@functools.cache
def compiler() -> tuple[str, str]:
    """(path, first line of its version), both empty where there is none."""
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            try:
                return path, run_tool([path, "--version"], timeout_s=30).stdout.splitlines()[0]
            except (PortakernError, IndexError):
                continue
    return "", ""


class CToolchain:
    def available(self, target: Target) -> Availability:
        path, version = compiler()
        return Availability(bool(path), version or "no C compiler: install gcc or clang")

    def fingerprint(self, target: Target) -> str:
        return f"{compiler()[1]} {' '.join(FLAGS)} {processor()}"

    def compile(self, source: Source) -> CompiledBinary:
        """Raises :class:`CompileError` with the compiler's log."""
        path, version = compiler()
        if not path:
            raise ToolMissing("no C compiler is on this machine", hint="install gcc or clang")
        with tempfile.TemporaryDirectory(prefix="portakern-c-") as folder:
            text, library, listing = (Path(folder) / f"kernel{s}" for s in (".c", ".so", ".s"))
            text.write_text(source.text)
            command = [path, *FLAGS, str(text), "-o", str(library), "-lm"]
            run = run_tool(command, timeout_s=TIMEOUT_S, cwd=folder).checked(f"{source.operator} for {source.target}")
            run_tool([path, *FLAGS, "-S", str(text), "-o", str(listing)], timeout_s=TIMEOUT_S, cwd=folder)
            data = library.read_bytes()
            assembly = listing.read_text() if listing.is_file() else None
        used = Resources(source.entry, code_bytes=len(data), source="size of the shared object")
        return CompiledBinary("so", data, version, (used,), assembly, run.log)


def processor() -> str:
    """What ``-march=native`` depends on."""
    try:
        return next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return platform.processor()
