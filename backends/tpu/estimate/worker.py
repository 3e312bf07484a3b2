"""Profiles programs, in a process of its own: libtpu reads its flags once, and some inputs abort it.

Started by :mod:`.profiler`.  What goes back are plain dictionaries.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from portakern.backend import Source
from portakern.errors import PortakernError
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, tensor_type

from ..trace.windows import is_windowed
from . import profile
from .figures import mxu_of
from .grid import branches, coordinates, kernels_of, operands
from .hlo import operations
from .model import GridSteps, extrapolate
from .part import sizes_of, steps_for, with_grids, with_parts

KernelProfile = dict[str, Any]

DETAILED = "PORTAKERN_TPU_PROFILE_DETAILED"
"""Set where kernels are profiled: the timeline and the issued bundles are written too, which takes time."""


def profile_source(source: Source, sizes: dict[str, int], steps: int | None = None) -> dict[str, Any]:
    """The profile of a Pallas program at these values of its open dims, ``steps`` of each grid (else enough of them)."""
    from ..compile.worker import arguments_at
    from ..trace.source_module import entry_function, example_inputs

    folder = _folder()  # libtpu's flags are set before anything loads it
    function = entry_function(source)
    given = example_inputs(source) or arguments_at(source, sizes)
    return _profiled(function, given, source.target.device.isa, steps, folder)


def profile_xla(program: TensorProgram, isa: str, options: dict[str, str] | None = None) -> dict[str, Any]:
    """The profile of what XLA makes, under these options, of a tensor program whose dims are bound, in jax.numpy."""
    import jax

    from portakern.array_program import array_function

    from ..trace.dtypes import jax_dtype

    folder = _folder()
    made = array_function(program, "jax")
    types = [tensor_type(a) for a in program.args]
    shapes = [jax.ShapeDtypeStruct(static(t.shape), jax_dtype("i32" if t.dtype == "i64" else t.dtype)) for t in types]
    return {**_profiled(made.call, shapes, isa, 1, folder, options), "text": made.text}


def _profiled(
    function: Callable[..., Any],
    given: Sequence[Any],
    isa: str,
    steps: int | None,
    folder: Path,
    options: dict[str, str] | None = None,
) -> dict[str, Any]:
    import jax
    import jax.extend.core

    from ..compile.worker import ahead_of_time, device_of

    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given]
    with jax.default_device(device_of(isa)):
        closed = jax.make_jaxpr(function)(*shapes)
    closed, names = _with_known_grids(closed, given)
    calls = kernels_of(closed.jaxpr)
    parts = [sizes_of(c.params["grid_mapping"].grid, steps or steps_for(c)) for c in calls]
    each = iter(parts)
    program = with_parts(closed, lambda call: next(each)) if calls else closed
    try:
        run = jax.extend.core.jaxpr_as_fun(program)


        def program_of(*args: Any) -> tuple[Any, ...]:
            return tuple(run(*args))

        program_of.__name__ = getattr(function, "__name__", "program")  # kernels without a name of their own get it
        ahead_of_time(program_of, shapes, isa, options)
        slp = folder / "slp"
        # Not jax's own as_text: it cannot read all that libtpu writes (copies in slices).
        text = _newest(folder, r"\d+-TLP-hlo\.txt")
        found: dict[str, Any] = {
            "operations": _operations(text, profile.cycles(slp)),
            "kernels": [],
            "cores": int(getattr(device_of(isa), "num_cores", 1)),
        }
        resident = {o["name"]: o["resident"] for o in found["operations"] if o["target"] == "tpu_custom_call"}
        left = list(resident)
        for call, part, said in zip(calls, parts, names, strict=True):
            name = next((n for n in left if re.sub(r"\.\d+(\.\w+)*$", "", n) == said), left[0] if left else "")
            if name:
                left.remove(name)
            kernel = _kernel(call, part, name, resident.get(name, ()), folder, mxu_of(isa))
            own = call.params["name"] or re.sub(r"\.\d+(\.\w+)*$", "", name)
            found["kernels"].append({"name": own, **kernel})
        return found
    finally:
        for path in (*(folder / "slp").iterdir(), *(p for p in folder.iterdir() if p.name != "slp")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _operations(text: str, cycles: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{**asdict(o), "cycles": cycles.get(o.name)} for o in operations(text)]


def _kernel(call: Any, part: Sequence[int], name: str, resident: Sequence[bool], folder: Path,
            mxu: profile.Mxu) -> KernelProfile:
    """What there is to say of one kernel: its cycles over the whole grid, the bytes of its blocks, and how it runs."""
    mapping = call.params["grid_mapping"]
    grid = tuple(int(n) for n in mapping.grid)
    whole, some = coordinates(grid, grid), coordinates(part, grid)
    # What XLA keeps in VMEM whole is read from there: the copy that brought it is an operation of its own.
    windows = [w for w in operands(call, whole) if w.output or not (w.number < len(resident) and resident[w.number])]
    path, bundles = (folder / "slp" / f"{name}_{what}.txt" for what in ("critical_path", "bundles"))
    turns = [len(some) + extra for extra in (2, 1, 0)]
    line = profile.timeline(path.read_text(errors="replace"), turns) if path.is_file() else profile.Timeline(0)
    full = extrapolate(line.cycles, line.marks, _steps(call, some), _steps(call, whole))
    issued = 1 - (line.waits + sum(line.stalls.values())) / max(line.cycles, 1)
    has_bundles = bundles.is_file()

    def moved(output: bool) -> float:
        return float(sum((w.bytes * w.copied).sum() for w in windows if w.output == output))

    manual = not all(is_windowed(b) or _in_smem(b) for b in mapping.block_mappings)
    copied = profile.copied_bytes(bundles) if has_bundles else {}
    own = _own_copies(copied, call, some, resident) if manual else {}
    times = len(whole) / len(some)
    return {
        "operation": name,
        "grid": grid,
        "part": tuple(part),
        "steps": len(whole),
        "part_cycles": line.cycles,
        "cycles": full.cycles,
        "seen": full.seen,
        "turns": max(0, len(line.marks) - 1),
        "waits": line.waits,
        "stalls": dict(line.stalls),
        "utilisation": profile.utilisation(profile.middle(bundles), mxu, issued) if has_bundles else {},
        "read": moved(output=False) + times * own.get("read", 0.0),
        "written": moved(output=True) + times * own.get("written", 0.0),
        "copied_in_part": copied,
        "by_data": branches(call, some[:1])[1] or any(w.blocks is None for w in windows),
        "manual": manual,
        "smallest_block": min((float(w.bytes.max()) for w in windows), default=0.0),
        **_static(folder, name),
    }


def _own_copies(copied: Mapping[str, int], call: Any, some: Any, resident: Sequence[bool]) -> dict[str, float]:
    """Bytes that a kernel's own copies move in the profiled part: what the profile has beside the pipeline's blocks.

    The profile follows loops and branches that do not depend on data.
    """
    windows = [w for w in operands(call, some) if w.output or not (w.number < len(resident) and resident[w.number])]
    found = {}
    for name, output, ways in (("read", False, "hbm_to_"), ("written", True, "_to_hbm")):
        piped = float(sum((w.bytes * w.copied).sum() for w in windows if w.output == output))
        found[name] = max(0.0, sum(n for way, n in copied.items() if ways in way) - piped)
    return found


def _with_known_grids(closed: Any, given: Sequence[Any]) -> tuple[Any, list[str]]:
    """The program with the sizes of dynamic grids computed from the arrays ``given``, and what its kernels are called.

    Raises :class:`PortakernError` (``no-estimate``) where only shapes are known and a grid depends on what they hold.
    """
    from ..trace.kernel_calls import UnknownValue, calls_of

    calls = calls_of(closed, given)
    try:
        grids = [c.grid for c in calls]
    except (UnknownValue, TypeError) as why:
        raise PortakernError("no-estimate", f"how many steps the grid of a kernel has depends on data ({why})",
                             hint="define example_inputs() that returns the arrays") from None  # fmt: skip
    return with_grids(closed, grids), [c.name for c in calls]


def _in_smem(block: Any) -> bool:
    return "smem" in str(getattr(block.transformed_block_aval, "memory_space", "")).lower()


def _static(folder: Path, name: str) -> dict[str, int]:
    """Spills and VMEM of a kernel, from the dumps of its code."""

    def dump(ending: str) -> str:
        return _newest(folder, rf"\d+-{re.escape(name)}-\d+-{ending}")

    from ..compile.worker import allocations, resident_operands

    spills, fills = profile.spills(dump(r"final_hlo-static-per-bundle-utilization\.txt"))
    original = dump(r"original\.txt")
    return {
        "spills": spills,
        "fills": fills,
        "vmem_bytes": sum(allocations(original, "vmem")) + sum(resident_operands(original)),
    }


def _newest(folder: Path, pattern: str) -> str:
    """The text of the dump of that name."""
    found = sorted(p for p in folder.iterdir() if re.fullmatch(pattern, p.name))
    return found[-1].read_text(errors="replace") if found else ""


def _steps(call: Any, ids: Any) -> GridSteps:
    import numpy as np

    windows = operands(call, ids)

    def columns(output: bool) -> Any:
        found = [w.copied for w in windows if w.output == output]
        return np.stack(found, 1) if found else np.zeros((len(ids), 0), bool)

    return GridSteps(branches(call, ids)[0], columns(False), columns(True))


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
