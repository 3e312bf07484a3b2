"""What the worker process does for SYCL: its compiler ends the process on some inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portakern.errors import CompileError, RuntimeFault

from . import library


def to_spirv(text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """SPIR-V and the log.  Raises :class:`CompileError` with the compiler's messages."""
    try:
        return library.compile_to_spirv(text, options)
    except RuntimeFault as error:
        log = error.message
        raise CompileError(f"the SYCL compiler refused the source:\n{log}", log=log) from None


def build_cpu(text: str, kernels: Sequence[str], options: tuple[str, ...]) -> dict[str, Any]:
    """Machine code of this machine's CPU for the kernels in ``text``, with facts of each."""
    name = library.device_name()
    if not kernels:
        return {"device": name, "data": b"", "log": "", "kernels": {}}
    spirv, log = to_spirv(text, options)
    try:
        program = library.DeviceProgram(spirv, spirv=True)
        facts = {k: program.facts(program.kernel(k)) for k in kernels}
        return {"device": name, "data": program.machine_code(), "log": log, "kernels": facts}
    except RuntimeFault as error:
        raise CompileError(f"the CPU device refused the SPIR-V: {error.message}", log=error.message) from None


def describe_device() -> str:
    return library.device_name()


def describe_gpu(numbers: tuple[int, ...]) -> str:
    return library.gpu(numbers).facts.name
