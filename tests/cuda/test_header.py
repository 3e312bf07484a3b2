"""The header library on the CPU: its index arithmetic checked by running it with threads as fibers (backends/cuda/host)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BACKEND = Path(__file__).parents[2] / "backends" / "cuda"
COMPILE = ["g++", "-std=c++17", "-O0", "-w", f"-I{BACKEND / 'host'}", f"-I{BACKEND / 'include'}"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ to compile the library for the CPU")
def test_layouts_memory_reductions_and_products(tmp_path: Path) -> None:
    program = tmp_path / "check_header"
    linked = (BACKEND / "host" / x for x in ("host.cpp", "races.cpp", "tensor_memory.cpp"))
    sources = [str(Path(__file__).parent / "check_header.cpp"), *map(str, linked)]
    subprocess.run([*COMPILE, *sources, "-o", str(program)], check=True, timeout=120)
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
