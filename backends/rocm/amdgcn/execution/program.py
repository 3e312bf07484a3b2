"""From assembly text to a program that the native machine runs: parsed, encoded, and its kernels' descriptors read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from portakern.errors import SimulatorError

from ..assembly.data import Data
from ..assembly.linking import CODE, Relocation, patched
from ..assembly.parser import Assembly, AssemblyKernel, Instruction, parse
from ..isa import GENERATIONS
from .encoding import Encoded, encode

_SETUP = [
    "lanes", "vectors", "scalars", "shared_bytes", "scratch_bytes", "argument_bytes", "user_scalars",
    "private_buffer", "dispatch_pointer", "queue_pointer", "argument_pointer", "dispatch_id", "flat_scratch",
    "private_size", "preload_length", "preload_offset", "group_x", "group_y", "group_z", "group_info",
    "scratch_wave_offset", "item_dims", "architected_groups", "generation", "float_mode", "ieee", "clamp_nan_to_zero",
    "saturate_f16",
]  # fmt: skip
"""Setup in native/program.hpp, in its order."""

_DESCRIPTOR = {
    "shared_bytes": "group_segment_fixed_size", "scratch_bytes": "private_segment_fixed_size",
    "argument_bytes": "kernarg_size", "user_scalars": "user_sgpr_count",
    "private_buffer": "user_sgpr_private_segment_buffer", "dispatch_pointer": "user_sgpr_dispatch_ptr",
    "queue_pointer": "user_sgpr_queue_ptr", "argument_pointer": "user_sgpr_kernarg_segment_ptr",
    "dispatch_id": "user_sgpr_dispatch_id", "flat_scratch": "user_sgpr_flat_scratch_init",
    "private_size": "user_sgpr_private_segment_size", "preload_length": "user_sgpr_kernarg_preload_length",
    "preload_offset": "user_sgpr_kernarg_preload_offset", "group_x": "system_sgpr_workgroup_id_x",
    "group_y": "system_sgpr_workgroup_id_y", "group_z": "system_sgpr_workgroup_id_z",
    "group_info": "system_sgpr_workgroup_info", "scratch_wave_offset": "system_sgpr_private_segment_wavefront_offset",
    "item_dims": "system_vgpr_workitem_id", "ieee": "ieee_mode", "clamp_nan_to_zero": "dx10_clamp",
    "saturate_f16": "fp16_overflow",
}  # fmt: skip
"""LLVM AMDGPUUsage, ".amdhsa_ directives"."""


def native() -> Any:
    """The compiled module; raises :class:`SimulatorError` where the installation lacks it."""
    try:
        from . import _machine  # type: ignore[attr-defined]
    except ImportError as error:
        raise SimulatorError("the native part of the AMD machine is not installed",
                             hint="install portakern with its native modules (pip install .)") from error  # fmt: skip
    return _machine


DYNAMIC_STACK = 16384
"""Bytes a lane for calls whose depth the compiler could not tell, as much as HIP's runtime gives at least."""


@dataclass(frozen=True)
class Code:
    """One kernel, ready to run."""

    name: str
    isa: str
    lanes: int
    shared_bytes: int
    scratch_bytes: int
    argument_bytes: int
    instructions: tuple[Instruction, ...]
    operations: bytes
    constants: bytes
    setup: tuple[int, ...]
    positions: tuple[int, ...] = ()
    relocations: tuple[Relocation, ...] = ()
    data: Data | None = None
    """Of the whole file, where the kernel names any."""
    functions: Mapping[str, int] = field(default_factory=dict)
    """Positions in the file of those that the kernel or data may name, and of the labels that long branches go to."""

    @cached_property
    def program(self) -> Any:
        """The program in the native machine, of a kernel that names no symbols."""
        return self.linked(0)

    def linked(self, image: int) -> Any:
        """The program with the file's data at address ``image``."""

        def address(symbol: str, table: bool) -> int:
            if table:
                assert self.data is not None
                return image + self.data.slot(symbol)
            return self.address(symbol, image)

        constants = patched(self.constants, self.relocations, address)
        return native().Program(self.operations, constants, self.setup, self.positions)

    def address(self, symbol: str, image: int) -> int:
        """Of an object in the data, or of a function."""
        if self.data is not None and symbol in self.data.symbols:
            return image + self.data.symbols[symbol].offset
        return CODE + 8 * self.functions[symbol]


@lru_cache(maxsize=4)
def parsed(text: str) -> Assembly:
    """A file, which is not to be changed."""
    return parse(text)


def load(text: str, kernel: str) -> Code:
    """A kernel of an assembly text.  Raises :class:`SimulatorError` naming what this machine does not know."""
    assembly = parsed(text)
    isa = assembly.target.rpartition("-")[2].partition(":")[0]
    if isa not in GENERATIONS:
        raise SimulatorError(f"the machine does not know {isa or 'code without .amdgcn_target'}",
                             hint=f"it knows {', '.join(GENERATIONS)}")  # fmt: skip
    if kernel not in assembly.kernels:
        raise SimulatorError(f"the assembly has no kernel {kernel!r}: it has {', '.join(assembly.kernels) or 'none'}")
    return code_of(assembly, assembly.kernels[kernel], isa)


Encode = Callable[[Assembly, str, int, int, Mapping[str, int]], Encoded]


def code_of(assembly: Assembly, kernel: AssemblyKernel, isa: str, encode: Encode = encode) -> Code:
    """A kernel of a parsed file."""
    generation = GENERATIONS[isa]
    d = kernel.descriptor
    lanes = 32 if d.get("wavefront_size32", int(generation >= 110)) else 64
    handlers = {name: n for n, name in enumerate(native().handlers())}
    encoded = encode(assembly, kernel.name, generation, lanes, handlers)
    values = {name: d.get(word, 0) for name, word in _DESCRIPTOR.items()}
    if d.get("uses_dynamic_stack"):
        values["scratch_bytes"] += DYNAMIC_STACK
    values["user_scalars"] = d.get("user_sgpr_count", 0)
    values.update(
        lanes=lanes,
        vectors=d["next_free_vgpr"],
        scalars=d["next_free_sgpr"],
        group_x=d.get("system_sgpr_workgroup_id_x", 1),
        architected_groups=int(generation >= 120),
        generation=generation,
        float_mode=d.get("float_round_mode_32", 0) | d.get("float_round_mode_16_64", 0) << 2
        | d.get("float_denorm_mode_32", 0) << 4 | d.get("float_denorm_mode_16_64", 3) << 6,
        ieee=d.get("ieee_mode", int(generation < 120)),
        clamp_nan_to_zero=d.get("dx10_clamp", 1),
    )  # fmt: skip
    wanted = assembly.functions | {r.symbol for r in encoded.relocations} if encoded.relocations else set[str]()
    return Code(kernel.name, isa, lanes, values["shared_bytes"], values["scratch_bytes"], values["argument_bytes"],
                encoded.instructions, encoded.operations, encoded.constants, tuple(values[name] for name in _SETUP),
                encoded.positions, encoded.relocations, assembly.data if encoded.relocations else None,
                {name: assembly.labels[name] for name in wanted & assembly.labels.keys()})  # fmt: skip
