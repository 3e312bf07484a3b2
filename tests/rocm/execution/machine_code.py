"""Small AMD kernels in assembly, and how they are run on the machine.

Each takes the addresses of an input ``x`` and an output ``out``.  The bodies are assembled by clang too (:func:`assembles`), so
that what is tested is code and not only text.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from portakern.backend import CompiledBinary, Launch, Source
from portakern.backends.rocm.amdgcn.execution.simulator import AmdMachine, MachineProgram
from portakern.backends.rocm.toolchain import choose
from portakern.ir.program import Array
from portakern.ir.tile import BufferType
from portakern.registry import registry
from portakern.tools.process import run_tool

_NEWER = ("gfx1100", "gfx1201")

_TEXT = """
	.amdgcn_target "amdgcn-amd-amdhsa--{isa}"
	.amdhsa_code_object_version 6
	.text
	.globl	kernel
	.p2align	8
	.type	kernel,@function
kernel:
{body}
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel kernel
		.amdhsa_group_segment_fixed_size {shared}
		.amdhsa_private_segment_fixed_size {scratch}
		.amdhsa_kernarg_size 16
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 64
		.amdhsa_next_free_sgpr 40
{more}
	.end_amdhsa_kernel
	.text
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: {shared}
    .kernarg_segment_align: 8
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: 256
    .name:           kernel
    .private_segment_fixed_size: {scratch}
    .sgpr_count:     40
    .symbol:         kernel.kd
    .vgpr_count:     64
    .wavefront_size: {lanes}
amdhsa.target:   amdgcn-amd-amdhsa--{isa}
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
"""


def text(isa: str, body: str, shared: int = 0, scratch: int = 0) -> str:
    """The whole file around a body."""
    newer = isa in _NEWER
    more = "\t\t.amdhsa_wavefront_size32 1" if newer else "\t\t.amdhsa_accum_offset 64"
    if scratch:
        more += "\n\t\t.amdhsa_enable_private_segment 1"
    lines = "\n".join(line.strip() if line.strip().endswith(":") else f"\t{line.strip()}" for line in body.strip().splitlines())
    return _TEXT.format(isa=isa, body=lines, shared=shared, scratch=scratch, more=more, lanes=32 if newer else 64)


def assembles(isa: str, assembly: str) -> None:
    """Fails where clang does not take the text."""
    clang = choose(isa)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.s"
        file.write_text(assembly)
        command = [*clang.command, "-target", "amdgcn-amd-amdhsa", f"-mcpu={isa}", "-c", str(file), "-o", f"{file}.o"]
        run_tool(command, timeout_s=60).checked("a kernel of the tests")


def program(isa: str, assembly: str, x: np.ndarray, count: int, threads: int = 64, blocks: int = 1) -> MachineProgram:
    """A kernel from ``x`` to ``count`` 32-bit integers."""
    arrays = (Array("x", BufferType(x.shape, "i32"), "input"), Array("out", BufferType((count,), "i32"), "output"))
    launch = Launch("kernel", (blocks, 1, 1), (threads, 1, 1), ("x", "out"))
    source = Source(registry().target(f"hip:{isa}"), "kernel", "kernel", "", ".s", arrays, (), (launch,))
    return AmdMachine().load(source, CompiledBinary("hsaco", b"", "hand", assembly=assembly))


def run(isa: str, body: str, x: Any, count: int = 64, threads: int = 64, shared: int = 0, scratch: int = 0,
        blocks: int = 1, budget: int = 100_000) -> np.ndarray:  # fmt: skip
    """What a body computes; raises :class:`SimulatorError` as the machine does."""
    values = np.asarray(x, np.int32)
    made = program(isa, text(isa, body, shared, scratch), values, count, threads, blocks)
    made.budget = budget
    return made.call((values,), {})
