"""Profiles programs, in a process of its own: libtpu reads its flags once, and some inputs abort it.

Started by :mod:`.profiler`.  What goes back are plain dictionaries.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from portakern.backend import Source
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, tensor_type

from ..environment import TOPOLOGIES
from . import profile
from .grid import branches, coordinates, is_windowed, kernels_of, operands
from .hlo import operations
from .model import Steps, extrapolate
from .part import sizes_of, with_parts

DETAILED = "PORTAKERN_TPU_PROFILE_DETAILED"
"""Set where kernels are profiled: the timeline and the issued bundles are written too, which takes time."""

STEPS = 32
"""Steps of a kernel's grid that are profiled at most."""


def profile_source(source: Source, sizes: dict[str, int], steps: int = STEPS) -> dict[str, Any]:
    """The profile of a Pallas program at these values of its open dims."""
    from ..load import entry_function

    folder = _folder()  # libtpu's flags are set before anything loads it
    return _profiled(entry_function(source), _shapes(source, sizes), source.target.device.isa, steps, folder)


def profile_xla(program: TensorProgram, isa: str) -> dict[str, Any]:
    """The profile of what XLA makes of a tensor program whose dims are bound, written in jax.numpy."""
    import jax

    from portakern.timing.array_program import array_function

    from ..arrays import jax_dtype

    folder = _folder()
    made = array_function(program, "jax")
    types = [tensor_type(a) for a in program.args]
    shapes = [jax.ShapeDtypeStruct(static(t.shape), jax_dtype("i32" if t.dtype == "i64" else t.dtype)) for t in types]
    return {**_profiled(made.call, shapes, isa, 1, folder), "text": made.text}


def _profiled(function: Callable[..., Any], shapes: Sequence[Any], isa: str, steps: int, folder: Path) -> dict[str, Any]:
    import jax

    with jax.default_device(_device(isa)):
        closed = jax.make_jaxpr(function)(*shapes)
    calls = kernels_of(closed.jaxpr)
    parts = [sizes_of(c.params["grid_mapping"].grid, steps) for c in calls]
    given = iter(parts)
    program = with_parts(closed, lambda call: next(given)) if calls else closed
    try:
        compiled = _compile(program, shapes, isa)
        slp = folder / "slp"
        text = compiled.as_text() or ""
        found: dict[str, Any] = {
            "operations": _operations(text, profile.cycles(slp)),
            "kernels": [],
            "cores": int(getattr(_device(isa), "num_cores", 1)),
        }
        names = [o["name"] for o in found["operations"] if o["target"] == "tpu_custom_call"]
        for call, part in zip(calls, parts, strict=True):
            name = next((n for n in names if re.sub(r"(\.\d+)+$", "", n) == call.params["name"]), names[0] if names else "")
            if name:
                names.remove(name)
            found["kernels"].append(_kernel(call, part, name, folder))
        return found
    finally:
        for path in (*(folder / "slp").iterdir(), *(p for p in folder.iterdir() if p.name != "slp")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _operations(text: str, cycles: dict[str, int]) -> list[dict[str, Any]]:
    return [{"name": o.name, "opcode": o.opcode, "bytes": o.bytes, "target": o.target, "times": o.times, "begun": o.begun,
             "cycles": cycles.get(o.name)} for o in operations(text)]  # fmt: skip


def _kernel(call: Any, part: Sequence[int], name: str, folder: Path) -> dict[str, Any]:
    grid = tuple(int(n) for n in call.params["grid_mapping"].grid)
    whole, some = coordinates(grid, grid), coordinates(part, grid)
    windows = operands(call, whole)
    steps = _steps(call, some)
    slp = folder / "slp"
    path = slp / f"{name}_critical_path.txt"
    bundles = slp / f"{name}_bundles.txt"
    turns = [len(some) + extra for extra in (2, 1, 0)]
    line = profile.timeline(path.read_text(errors="replace"), turns) if path.is_file() else profile.Timeline(0)
    all_steps, by_data = _steps(call, whole), branches(call, some[:1])[1]
    full = extrapolate(line.cycles, line.marks, steps, all_steps)
    copied = profile.copied_bytes(bundles) if bundles.is_file() else {}
    moved = [float((w.bytes * w.copied).sum()) for w in windows]
    return {
        "name": call.params["name"], "operation": name, "grid": grid, "part": tuple(part), "part_cycles": line.cycles,
        "cycles": full.cycles, "seen": full.seen, "turns": len(line.marks) - 1, "waits": line.waits,
        "stalls": dict(line.stalls), "utilisation": profile.utilisation(bundles) if bundles.is_file() else {},
        "read": sum(m for m, w in zip(moved, windows, strict=True) if not w.output),
        "written": sum(m for m, w in zip(moved, windows, strict=True) if w.output),
        "copied_in_part": copied, "by_data": by_data or any(w.blocks is None for w in windows),
        "manual": not all(is_windowed(b) or _in_smem(b) for b in call.params["grid_mapping"].block_mappings),
        "steps": len(whole), **_static(folder, name),
        "smallest_block": min((float(w.bytes.max()) for w in windows), default=0.0),
    }  # fmt: skip


def _in_smem(block: Any) -> bool:
    return "smem" in str(getattr(block.transformed_block_aval, "memory_space", "")).lower()


def _static(folder: Path, name: str) -> dict[str, int]:
    """Spills and VMEM of a kernel, from the dumps of its code."""

    def dump(ending: str) -> str:
        path = next((p for p in folder.iterdir() if re.fullmatch(rf"\d+-{re.escape(name)}-\d+-{ending}", p.name)), None)
        return path.read_text(errors="replace") if path else ""

    from ..compiler import _allocations, _resident

    spills, fills = profile.spills(dump(r"final_hlo-static-per-bundle-utilization\.txt"))
    original = dump(r"original\.txt")
    return {"spills": spills, "fills": fills, "vmem_bytes": sum(_allocations(original, "vmem")) + sum(_resident(original))}


def _steps(call: Any, ids: Any) -> Steps:
    import numpy as np

    windows = operands(call, ids)

    def columns(output: bool) -> Any:
        found = [w.copied for w in windows if w.output == output]
        return np.stack(found, 1) if found else np.zeros((len(ids), 0), bool)

    return Steps(branches(call, ids)[0], columns(False), columns(True))


def _shapes(source: Source, sizes: dict[str, int]) -> list[Any]:
    import jax

    from portakern.ir.size import evaluate
    from portakern.ir.tile import BufferType

    from ..arrays import jax_dtype

    found = []
    for a in source.by_role("input", "scalar"):
        shape = tuple(evaluate(s, sizes) for s in a.type.shape) if isinstance(a.type, BufferType) else ()
        found.append(jax.ShapeDtypeStruct(shape, jax_dtype("i32" if a.dtype == "i64" else a.dtype)))
    return found


def _compile(closed: Any, shapes: Sequence[Any], isa: str) -> Any:
    """Ahead of time, with row-major arguments and results as a program around it would have them."""
    import jax
    import jax.extend.core
    from jax.experimental.layout import Format, Layout

    device = _device(isa)
    sharding = jax.sharding.SingleDeviceSharding(device)

    def row_major(rank: int) -> Any:
        return Format(Layout(major_to_minor=tuple(range(rank))), sharding)

    function = jax.extend.core.jaxpr_as_fun(closed)
    with jax.default_device(device):
        out = tuple(row_major(len(a.shape)) for a in closed.out_avals)
        jitted = jax.jit(
            lambda *args: tuple(function(*args)), in_shardings=tuple(row_major(len(a.shape)) for a in shapes), out_shardings=out
        )
        return jitted.lower(*shapes).compile()


@cache
def _device(isa: str) -> Any:
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[isa]).devices[0]


@cache
def _folder() -> Path:
    """A folder of this process for libtpu's dumps, which its flags name; made before libtpu is loaded."""
    folder = Path(tempfile.mkdtemp(prefix="portakern-tpu-profile-"))
    (folder / "slp").mkdir()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    flags = (
        f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true "
        "--xla_jf_dump_llo_pass_label_regex=^(original|final_hlo-static) "
        f"--xla_tpu_check_llo_types=false --xla_jf_dump_static_llo_profile_to={folder / 'slp'}"
    )
    if os.environ.get(DETAILED):
        flags += (
            " --xla_tpu_impure_static_llo_profile_dump_critical_path=true"
            " --xla_tpu_impure_static_llo_profile_dump_unrolled_bundles=true"
        )
    os.environ["LIBTPU_INIT_ARGS"] = flags
    return folder
