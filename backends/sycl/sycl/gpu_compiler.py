"""From SPIR-V to the machine code of an Intel GPU: spirv-val checks it, ocloc compiles it, where they are installed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from portakern.backend import CompiledBinary, Source
from portakern.tools.process import run_tool

from .zebin import resources

INSTALL = "apt install intel-opencl-icd (Debian, Ubuntu: it brings ocloc), or intel-ocloc from Intel's repositories"
_TIMEOUT_S = 300.0


def ocloc() -> str | None:
    return shutil.which("ocloc")


def version(path: str) -> str:
    """Something that changes with the compiler: it has no option that prints a version."""
    stat = os.stat(os.path.realpath(path))
    return f"ocloc of {stat.st_size} bytes"


def validated(spirv: bytes, what: str) -> str:
    """What spirv-val said of a module; raises :class:`CompileError` where it is not valid."""
    tool = shutil.which("spirv-val")
    if tool is None:
        return "SPIR-V not validated: spirv-val is not installed (apt install spirv-tools)"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.spv"
        path.write_bytes(spirv)
        run_tool([tool, str(path)], timeout_s=60.0).checked(f"the SPIR-V of {what}")
    return "SPIR-V validated by spirv-val"


def compile_spirv(source: Source, spirv: bytes, tool: str, log: str) -> CompiledBinary:
    """Machine code for the source's device; the SPIR-V itself, marked as no machine code, where there is no ocloc."""
    check = validated(spirv, source.operator)
    compiler = ocloc()
    isa = source.target.device.isa
    if compiler is None:
        why = f"no machine code for {isa}: ocloc is not installed ({INSTALL})"
        return CompiledBinary("spirv", spirv, tool, log="\n".join(filter(None, [why, check, log])), machine_code=False)
    with tempfile.TemporaryDirectory() as folder:
        path, dump = Path(folder) / "kernel.spv", Path(folder) / "dump"
        path.write_bytes(spirv)
        dump.mkdir()
        command = [compiler, "compile", "-q", "-file", str(path), "-spirv_input", "-device", isa, "-output", "kernel",
                   "-output_no_suffix", "-out_dir", folder, "--format", "zebin", "-exclude_ir"]
        # Intel's graphics compiler writes its assembly only as a dump.
        env = {"IGC_ShaderDumpEnable": "1", "IGC_DumpToCustomDir": str(dump), "NEO_CACHE_PERSISTENT": "0"}
        result = run_tool(command, timeout_s=_TIMEOUT_S, env=env).checked(f"{source.operator} for {isa}")
        data = (Path(folder) / "kernel").read_bytes()
        assembly = "\n".join(p.read_text(errors="replace") for p in sorted(dump.glob("*.asm"))) or None
    used = resources(data, ".ze_info of the zebin")
    return CompiledBinary("zebin", data, f"{tool}; {version(compiler)} for {isa}", used, assembly,
                  "\n".join(filter(None, [check, log, result.log])))
