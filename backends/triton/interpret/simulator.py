"""Triton's interpreter as the simulator of every Triton target: it models the language and not the device."""

from __future__ import annotations

import os
from collections.abc import Mapping

from portakern.backend import Availability, CompiledBinary, Source, Target
from portakern.errors import SimulatorError

from ..compile.faces import digests_in
from ..compile.toolchain import tools
from ..compile.worker import versions
from ..launch.executable import TritonExecutable
from .repairs import REPAIRS, mend


class TritonInterpreter:
    """Runs the source with numpy on the CPU. Must be used in a process started with :attr:`environment`."""

    evidence = "interpreted"
    parts = ("kernels", "host")
    recalls = True
    environment: Mapping[str, str] = {"TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1"}

    def available(self, target: Target) -> Availability:
        return tools()

    def method(self, target: Target) -> str:
        return f"{versions()} interpreter (TRITON_INTERPRET=1) {REPAIRS}"

    def load(self, source: Source, binary: CompiledBinary | None) -> TritonExecutable:
        if os.environ.get("TRITON_INTERPRET") != "1":
            raise SimulatorError("Triton's interpreter must be chosen before a kernel is defined",
                                 hint="run in a process started with the simulator's environment")  # fmt: skip
        mend()
        return TritonExecutable(source, "cpu", compiled=digests_in(binary.log) if binary is not None else frozenset())
