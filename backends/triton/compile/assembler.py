"""Which of the ptxas that Triton brings makes the machine code.

Triton 3.6 assembles for Hopper with ptxas 12.8.93 and brings 12.9.86, as ``ptxas-blackwell``, for Blackwell.  The older
one has a fault: where a wgmma's operand lies at the address of an operand of a product before it, it takes that address from
a uniform register that no instruction writes (attention whose keys fit one tile: wrong values on an H100, or an illegal
access).  12.9.86 and 13.4.59 assemble the same PTX rightly.  So the newer of the two is used for all.
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

CHOICE = "TRITON_PTXAS_PATH"
"""The variable by which Triton is told of another ptxas; who sets it is obeyed."""

_FAULTY_BEFORE = (12, 9)


def use_sound_assembler() -> None:
    """Tell Triton in this process to assemble with the ptxas that :func:`assembler` names."""
    if found := assembler(str(_folder() or "")):
        os.environ.setdefault(CHOICE, found)


@cache
def assembler(folder: str) -> str | None:
    """The ptxas-blackwell in ``folder`` where the ptxas beside it has the fault and it has not; else ``None``."""
    usual, newer = Path(folder, "ptxas"), Path(folder, "ptxas-blackwell")
    if version(usual) < _FAULTY_BEFORE <= version(newer):
        return str(newer)
    return None


def named(folder: str | None = None) -> str:
    """The ptxas in use, as ``ptxas 12.9``, for what results are kept under; empty where Triton brings none."""
    folder = str(_folder() or "") if folder is None else folder
    used = os.environ.get(CHOICE) or assembler(folder) or str(Path(folder, "ptxas"))
    found = version(Path(used))
    return f"ptxas {'.'.join(map(str, found))}" if found else ""


@cache
def version(tool: Path) -> tuple[int, ...]:
    """What ``tool --version`` says of its release; nothing where there is no such tool."""
    try:
        said = subprocess.run([str(tool), "--version"], capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def _folder() -> Path | None:
    """Where Triton keeps NVIDIA's tools, found without importing it."""
    spec = find_spec("triton")
    return Path(spec.origin).parent / "backends" / "nvidia" / "bin" if spec and spec.origin else None
