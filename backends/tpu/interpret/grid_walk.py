"""The grid of a Pallas kernel walked without running it: every index map at every step, in the order a TPU takes them.

Which blocks are copied where does not depend on what a kernel computes, so what is wrong with it can be known for any size,
in milliseconds.  It is more than the interpreters tell: they look at grids that can be interpreted, and some of it they
do not look at.

``revisit``        a block of an output is left and come back to.  It was written back when it was left and is not read
                   again, so what the kernel then adds to is whatever the buffer holds.
``parallel-write`` steps that differ along a ``parallel`` axis write one block: cores of a TPU may take them at once.
``uncovered``      blocks of an output that no step writes.
``outside``        a block that begins before or after its array.
``alias``          an input that is also an output is read where a step before it has written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..trace.kernel_calls import KernelCall, UnknownValue
from .diagnostics import Diagnostic

MOST_STEPS = 1 << 20
"""A longer grid is not walked: its starts would fill memory."""

MOST_ELEMENTS = 1 << 26
"""Outputs with more elements whose blocks overlap in part are not looked through for elements that are left out."""


@dataclass(frozen=True, eq=False)
class Window:
    """Where the blocks of one array lie: ``starts[step]`` in elements, each block of ``sizes``."""

    name: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    starts: np.ndarray

    @property
    def blocks(self) -> np.ndarray:
        """A number for every step, equal where blocks are equal."""
        if not self.starts.shape[1]:
            return np.zeros(len(self.starts), np.int64)
        return np.unique(self.starts, axis=0, return_inverse=True)[1].reshape(-1)

    def runs(self) -> np.ndarray:
        """The steps that begin with another block than the step before had."""
        changed = (self.starts[1:] != self.starts[:-1]).any(1)
        return np.flatnonzero(np.concatenate([[True], changed]))


@dataclass(frozen=True)
class GridWalk:
    """What a walk found; ``skipped`` says what was not walked, and why.

    ``private``: steps of a parallel axis write one block of an output that nothing reads, as a place of each core's own.
    """

    diagnostics: tuple[Diagnostic, ...]
    skipped: str = ""
    private: bool = False


def walk(call: KernelCall) -> GridWalk:
    """What is wrong with the grid of ``call`` and the blocks of its arrays."""
    try:
        grid = call.grid
        steps = math.prod(grid)
        if not steps:
            return GridWalk(())
        if steps > MOST_STEPS:
            return GridWalk((), f"the grid of {call.name} has {steps} steps, more than {MOST_STEPS}")
        points = np.indices(grid, np.int32).reshape(len(grid), steps).T
        windows = _windows(call, points)
    except UnknownValue as why:
        return GridWalk((), f"the grid of {call.name} is {why.message}")
    outputs = windows[call.mapping.num_inputs :]
    private = any(w is not None and n in call.unread and any(True for _ in _parallel(call, w, points))
                  for n, w in enumerate(outputs))  # fmt: skip
    return GridWalk(tuple(_diagnostics(call, points, windows)), private=private)


def _windows(call: KernelCall, points: np.ndarray) -> list[Window | None]:
    """One for each input and output; ``None`` for those that the kernel copies itself."""
    names = call.names
    return [_window(call, n, mapping, points) for n, mapping in zip(names, call.mapping.block_mappings, strict=True)]


def _window(call: KernelCall, name: str, mapping: Any, points: np.ndarray) -> Window | None:
    space = str(mapping.transformed_block_aval.memory_space).lower()
    if any(word in space for word in ("any", "hbm", "semaphore")):
        return None
    sizes = tuple(int(getattr(dim, "block_size", 1) or 1) for dim in mapping.block_shape)
    return Window(name, tuple(mapping.array_aval.shape), sizes, _starts(call, mapping, points))


def _starts(call: KernelCall, mapping: Any, points: np.ndarray) -> np.ndarray:
    """Where the block begins at every point: [steps, rank], in elements."""
    jaxpr = getattr(mapping.index_map_jaxpr, "jaxpr", mapping.index_map_jaxpr)
    axes = jaxpr.invars[: points.shape[1]]
    columns = []
    for atom, dim in zip(jaxpr.outvars, mapping.block_shape, strict=True):
        scale = dim.block_size if type(dim).__name__ == "Blocked" else 1
        if hasattr(atom, "val"):
            columns.append(np.full(len(points), scale * int(atom.val), np.int64))
        elif atom in axes:
            columns.append(scale * points[:, axes.index(atom)].astype(np.int64))
        else:
            return _computed(call, mapping, points)
    return np.stack(columns, 1) if columns else np.zeros((len(points), 0), np.int64)


def _computed(call: KernelCall, mapping: Any, points: np.ndarray) -> np.ndarray:
    """The same for index maps that compute, at all points at once."""
    import jax

    scalars = call.scalars
    starts = jax.vmap(lambda *point: mapping.compute_start_indices_interpret(point, *scalars))
    with jax.default_device(jax.devices("cpu")[0]):
        found = jax.jit(starts)(*points.T)
    return np.stack([np.broadcast_to(np.asarray(f), len(points)) for f in found], 1).astype(np.int64)


# ---- what is wrong -----------------------------------------------------------------------------------------------------------


def _diagnostics(call: KernelCall, points: np.ndarray, windows: Sequence[Window | None]) -> Iterator[Diagnostic]:
    inputs = call.mapping.num_inputs
    aliased = {o: i for i, o in call.aliases.items()}
    unread = call.unread
    for n, window in enumerate(windows):
        if window is None:
            continue
        yield from _outside(call, window, points, "input" if n < inputs else "output")
        if n < inputs or n - inputs in unread:
            continue
        yield from _parallel(call, window, points)
        source = windows[aliased[n]] if n in aliased else None
        if source is not None:
            yield from _alias(call, source, window, points)
        else:
            yield from _revisits(call, window, points)
        if n not in aliased:
            yield from _uncovered(call, window)


def _outside(call: KernelCall, window: Window, points: np.ndarray, role: str) -> Iterator[Diagnostic]:
    shape = np.asarray(window.shape)
    bad = ((window.starts < 0) | (window.starts >= shape[None, :])).any(1) if window.shape else np.zeros(1, bool)
    if bad.any():
        step = int(np.argmax(bad))
        yield Diagnostic(
            "grid", "outside",
            f"{call.name} takes the block at {_at(window.starts[step])} of {role} {window.name} {list(window.shape)}, "
            f"at grid point {_at(points[step])} ({int(bad.sum())} of {len(points)} steps do such)",
            "an index map gives the number of a block, not of an element, and the grid has cdiv(extent, block) steps",
            call.where,
        )  # fmt: skip


def _parallel(call: KernelCall, window: Window, points: np.ndarray) -> Iterator[Diagnostic]:
    axes = [n for n, s in enumerate(call.semantics) if "parallel" in s.lower()]
    if not axes:
        return
    blocks, first = np.unique(window.blocks, return_index=True)
    mine = points[:, axes]
    differs = (mine != mine[first[np.searchsorted(blocks, window.blocks)]]).any(1)
    if differs.any():
        step = int(np.argmax(differs))
        other = int(first[window.blocks[step]])
        axis = next(a for a in axes if points[step, a] != points[other, a])
        yield Diagnostic(
            "grid", "parallel-write",
            f"{call.name}: grid points {_at(points[other])} and {_at(points[step])} write the same block "
            f"{_at(window.starts[step])} of output {window.name}, and axis {axis} is declared parallel",
            f'declare axis {axis} "arbitrary", or give each of its steps a block of its own', call.where,
        )  # fmt: skip


def _revisits(call: KernelCall, window: Window, points: np.ndarray) -> Iterator[Diagnostic]:
    begins = window.runs()
    blocks = window.blocks[begins]
    _, first, counts = np.unique(blocks, return_index=True, return_counts=True)
    if (counts > 1).any():
        block = int(np.argmax(counts > 1))
        visits = begins[blocks == blocks[first[block]]][:2]
        yield Diagnostic(
            "grid", "revisit",
            f"{call.name} comes back to the block {_at(window.starts[visits[0]])} of output {window.name} at grid point "
            f"{_at(points[visits[1]])} after it was left (first visited at {_at(points[visits[0]])}): it was written back and "
            "is not read again",
            "make the axes that do not move this block the last of the grid (a sum's axis innermost)", call.where,
        )  # fmt: skip


def _uncovered(call: KernelCall, window: Window) -> Iterator[Diagnostic]:
    if not all(window.shape):
        return
    found = np.unique(window.starts, axis=0)
    sizes = np.asarray(window.sizes)
    shape = np.asarray(window.shape)
    inside = ((found >= 0) & (found < shape[None, :])).all(1) if len(shape) else np.ones(len(found), bool)
    found = found[inside]
    if (found % sizes[None, :] == 0).all():
        wanted = math.prod(-(-s // b) for s, b in zip(window.shape, window.sizes, strict=True))
        if len(found) < wanted:
            yield _left_out(call, window, f"{wanted - len(found)} of {wanted} blocks", _first_absent(found // sizes, window))
        return
    if math.prod(window.shape) > MOST_ELEMENTS:
        return
    written = np.zeros(window.shape, bool)
    for start in found:
        written[tuple(slice(s, s + b) for s, b in zip(start, window.sizes, strict=True))] = True
    if not written.all():
        yield _left_out(call, window, f"{int((~written).sum())} elements", np.argwhere(~written)[0])


def _first_absent(numbers: np.ndarray, window: Window) -> np.ndarray:
    counts = tuple(-(-s // b) for s, b in zip(window.shape, window.sizes, strict=True))
    present = np.zeros(counts, bool)
    present[tuple(numbers.T)] = True
    return np.argwhere(~present)[0] * np.asarray(window.sizes)


def _left_out(call: KernelCall, window: Window, what: str, first: np.ndarray) -> Diagnostic:
    return Diagnostic(
        "grid", "uncovered",
        f"{call.name} never writes {what} of output {window.name}, which is {list(window.shape)}; the first is at {_at(first)}",
        "the grid needs cdiv(extent, block) steps along every axis of the output", call.where,
    )  # fmt: skip


def _alias(call: KernelCall, source: Window, window: Window, points: np.ndarray) -> Iterator[Diagnostic]:
    """A step that copies in a block of which an earlier step has written, or left, a part."""
    if np.array_equal(source.starts, window.starts) and source.sizes == window.sizes:
        yield from _revisits(call, window, points)
        return
    begins = source.runs()
    for step in begins[:4096]:
        before = window.starts[:step]
        low, high = source.starts[step], source.starts[step] + np.asarray(source.sizes)
        hit = ((before < high[None, :]) & (before + np.asarray(window.sizes)[None, :] > low[None, :])).all(1)
        if hit.any():
            yield Diagnostic(
                "grid", "alias",
                f"{call.name} reads the block {_at(low)} of input {source.name} at grid point {_at(points[step])}, where grid "
                f"point {_at(points[int(np.argmax(hit))])} has written output {window.name}, which is the same array",
                "give both the same index map, or drop input_output_aliases", call.where,
            )  # fmt: skip
            return


def _at(numbers: Any) -> str:
    return "(" + ", ".join(str(int(n)) for n in numbers) + ")"
