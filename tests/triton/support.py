"""Runs sources in worker processes on arrays with guard bands, and compares with the literal tile interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.backend import HostBuffer, Language, Source
from portakern.dtypes import numpy_dtype
from portakern.ir.program import Program
from portakern.ir.tile import BufferType
from portakern.testing.tile_interpreter import run

GUARD = 256
PATTERN = 0xA5


@dataclass(frozen=True)
class Ran:
    """Outputs by name, and the arrays whose guard bands (or, for inputs, contents) were changed."""

    outputs: dict[str, np.ndarray]
    broken: tuple[str, ...]


def execute(language: str, source: Source, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> Ran:
    """Load ``source`` where it can run and run it once; called inside a worker."""
    return execute_with(runner(language), source, inputs, sizes)


def execute_with(part: Any, source: Source, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> Ran:
    """The same with a given runtime or simulator."""
    buffers: dict[str, HostBuffer] = {}
    for array in source.arrays:
        if array.role == "temporary":
            continue
        shape = _shape(array.type, sizes)
        buffers[array.name] = guarded(array.name, shape, numpy_dtype(array.dtype), inputs.get(array.name))
    before = {n: b.storage.copy() for n, b in buffers.items()}
    part.load(source, None).run(buffers, sizes)
    broken = [n for n, b in buffers.items() if not _intact(b, before[n], n in inputs)]
    outputs = {a.name: buffers[a.name].array.copy() for a in source.by_role("output")}
    return Ran(outputs, tuple(broken))


def runner(language: str) -> Any:
    """What runs a language here: numba's runtime, Triton's interpreter."""
    if language == "numba":
        from portakern.backends.cpu.numba.language import NUMBA

        return NUMBA.runtime
    from portakern.backends.triton import triton_language

    return triton_language.simulator


def guarded(name: str, shape: tuple[int, ...], dtype: Any, value: np.ndarray | None) -> HostBuffer:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    buffer = HostBuffer(name, np.full(size + 2 * GUARD, PATTERN, np.uint8), GUARD, shape, np.dtype(dtype))
    if value is not None:
        buffer.array[...] = value
    return buffer


def _intact(buffer: HostBuffer, before: np.ndarray, is_input: bool) -> bool:
    end = buffer.offset + buffer.array.nbytes
    same = np.array_equal(buffer.storage[: buffer.offset], before[: buffer.offset])
    same = same and np.array_equal(buffer.storage[end:], before[end:])
    return same and (not is_input or np.array_equal(buffer.storage, before))


def _shape(of: Any, sizes: Mapping[str, int]) -> tuple[int, ...]:
    from portakern.ir.size import evaluate

    return tuple(evaluate(s, sizes) for s in of.shape) if isinstance(of, BufferType) else ()


def random_inputs(program: Program, sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    return random_inputs_of(program, sizes, seed)


def random_inputs_of(of: Program | Source, sizes: Mapping[str, int] = {}, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = {}
    for array in of.by_role("input", "scalar"):
        shape = _shape(array.type, sizes)
        if array.dtype == "bool":
            made[array.name] = rng.integers(0, 2, shape).astype(bool)
        elif array.dtype.startswith(("i", "u")):
            made[array.name] = rng.integers(0, 7, shape).astype(numpy_dtype(array.dtype))
        else:
            made[array.name] = np.asarray(rng.standard_normal(shape) * 2).astype(numpy_dtype(array.dtype))
    return made


def sizes_of(program: Program) -> dict[str, int]:
    """Ragged sizes for open dims."""
    return {name: 37 + 20 * i for i, name in enumerate(program.sizes)}


def worst_error(program: Program, got: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray],
                sizes: Mapping[str, int]) -> float:  # fmt: skip
    """The largest error over outputs, relative to the value with a floor of a tenth of the largest, in units of a
    generous bound for the output's dtype; below 1 is right."""
    want = run(program, inputs, sizes)
    worst = 0.0
    for array in program.by_role("output"):
        g, w = (np.asarray(x[array.name]).astype(np.float64) for x in (got, want))
        assert g.shape == w.shape
        scale = np.abs(w) + 0.1 * np.max(np.abs(w), initial=0, where=np.isfinite(w)) + 1e-6
        with np.errstate(invalid="ignore"):
            error = np.where((g == w) | (np.isnan(g) & np.isnan(w)), 0, np.abs(g - w) / scale)
        bound = {"bf16": 0.02, "f16": 0.005, "f32": 1e-4, "f64": 1e-9}.get(array.dtype, 1e-9)
        worst = max(worst, float(np.nan_to_num(np.max(error, initial=0), nan=np.inf)) / bound)
    return worst


def environment(language: Language) -> dict[str, str]:
    """What the process that runs a language needs."""
    part = language.simulator or language.runtime
    return {**language.environment, **getattr(part, "environment", {})}


def compiled(language: str, source: Source) -> Any:
    """The binary of ``source``; called inside a worker with the language's environment."""
    if language == "numba":
        from portakern.backends.cpu.numba.language import NUMBA as spoken
    else:
        from portakern.backends.triton import triton_language as spoken
    assert spoken.toolchain is not None
    return spoken.toolchain.compile(source)
