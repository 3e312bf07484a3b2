"""Runs programs of a language on guarded host arrays and compares them with the tile interpreter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portakern.backend import CompiledBinary, HostBuffer, Language, Source, Target
from portakern.dtypes import dtype, numpy_dtype
from portakern.ir.program import Program
from portakern.testing import tile_interpreter

GUARD = 4096  # HostBuffer promises offsets that are multiples of this
FILL = 0xA5


def values(shape: tuple[int, ...], name: str, rng: np.random.Generator) -> np.ndarray:
    kind = dtype(name)
    if kind.is_float:
        return rng.standard_normal(shape).astype(numpy_dtype(name))
    if kind.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(-50, 50, shape).astype(numpy_dtype(name))


def guarded(name: str, shape: tuple[int, ...], kind: np.dtype, content: np.ndarray | None) -> HostBuffer:
    count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    storage = np.full(GUARD + -(-count // GUARD) * GUARD + GUARD, FILL, np.uint8)
    buffer = HostBuffer(name, storage, GUARD, shape, kind)
    if content is not None:
        buffer.array[...] = content
    return buffer


def intact(b: HostBuffer) -> bool:
    end = b.offset + b.array.nbytes
    return bool((b.storage[: b.offset] == FILL).all() and (b.storage[end:] == FILL).all())


def run_checked(language: Language, target: Target, program: Program, sizes: Mapping[str, int], seed: int = 0,
                built: tuple[Source, CompiledBinary | None] | None = None) -> dict[str, np.ndarray]:
    """Emit, compile, load and run ``program``; assert that it agrees with the interpreter and keeps to its arrays."""
    loader = language.simulator if target.device.kind == "gpu" else language.runtime
    assert loader is not None
    source, binary = built or (language.emitter.emit(program, target), None)
    rng = np.random.default_rng(seed)
    inputs = {a.name: values(program.shape(a.name, sizes), a.dtype, rng) for a in program.by_role("input", "scalar")}
    buffers = {n: guarded(n, x.shape, x.dtype, x) for n, x in inputs.items()}
    for a in program.by_role("output"):
        buffers[a.name] = guarded(a.name, program.shape(a.name, sizes), numpy_dtype(a.dtype), None)
    executable = loader.load(source, binary)
    assert executable.guards
    executable.run(buffers, sizes)
    expected = tile_interpreter.run(program, inputs, sizes)
    results = {}
    for a in program.by_role("output"):
        got, want = buffers[a.name].array, expected[a.name]
        assert_close(got, want, a.dtype, f"{program.name}.{a.name}")
        results[a.name] = got.copy()
    for b in buffers.values():
        assert intact(b), f"{b.name} was written outside"
    for n, x in inputs.items():
        assert np.array_equal(buffers[n].array, x, equal_nan=x.dtype.kind == "f"), f"the input {n} changed"
    return results


def compiled(language: Language, target: Target, program: Program) -> tuple[Source, CompiledBinary]:
    assert language.toolchain is not None
    source = language.emitter.emit(program, target)
    return source, language.toolchain.compile(source)


def assert_close(got: np.ndarray, want: np.ndarray, name: str, what: str) -> None:
    """Within a few roundings of the result's dtype, relative to the largest magnitude of the result."""
    if not dtype(name).is_float:
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    assert np.array_equal(np.isfinite(a), np.isfinite(b)), what
    finite = np.isfinite(b)
    assert np.array_equal(a[~finite], b[~finite], equal_nan=True), what
    scale = np.abs(b[finite]).max(initial=1e-30)
    worst = np.abs(a[finite] - b[finite]).max(initial=0.0) / scale
    assert worst <= 4 * max(dtype(name).rounding, 2.0**-20), f"{what}: off by {worst:.2e} of the largest value"
