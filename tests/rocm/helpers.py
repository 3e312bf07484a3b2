"""Sources made by hand for tests of the AMD backend, and how they are run on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portakern.backend import Launch, Source, Target
from portakern.backends.rocm.amdgcn.execution.simulator import AmdMachine
from portakern.backends.rocm.emitter import HEADERS
from portakern.backends.rocm.toolchain import HipToolchain
from portakern.emit.clike import read_headers
from portakern.ir.program import Array
from portakern.ir.tile import BufferType
from portakern.registry import registry

ISAS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


def target(device: str) -> Target:
    return registry().target(f"hip:{device}")


def needs_clang(device: str = "gfx942") -> None:
    available = HipToolchain().available(target(device))
    if not available:
        pytest.skip(available.detail)


def kernel(
    device: str, text: str, inputs: dict[str, Any], outputs: dict[str, Any], blocks: int = 1, threads: int = 64
) -> Source:
    """A source with one kernel called ``kernel``; arrays are (shape, dtype) by name."""
    arrays = tuple(
        Array(name, BufferType(shape, dtype), role)
        for role, group in (("input", inputs), ("output", outputs))
        for name, (shape, dtype) in group.items()
    )
    launch = Launch("kernel", (blocks, 1, 1), (threads, 1, 1), tuple(a.name for a in arrays))
    return Source(target(device), "kernel", "kernel", text, ".hip", arrays, (), (launch,), read_headers(HEADERS))


def run(source: Source, *inputs: np.ndarray, **sizes: int) -> Any:
    """The outputs of ``source``, compiled and executed on the machine."""
    return AmdMachine().load(source, HipToolchain().compile(source)).call(inputs, sizes)
