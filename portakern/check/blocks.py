"""Checking a simulated kernel at a size at which all of it would take hours: some blocks of its grid, in full rigour.

The kernel's arrays have their whole size.  Some blocks run alone between guard bands, twice with other poison, so that it is
known what they write.  Of that, regions about drawn elements are compared with the float64 oracle within its bounds, the
oracle computing only what they need (:mod:`portakern.check.restrict`).  Nothing is said of what the other blocks write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from portakern.backend import HostBuffer, RunsBlocks
from portakern.check.alike import count_of_differences
from portakern.check.buffers import unwritten
from portakern.check.compare import compare
from portakern.check.expected import expected
from portakern.check.restrict import Box, Restricted, cut, restrict
from portakern.check.sampled import Sampled, affordable_extents
from portakern.check.stages import Checking
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.spec.bind import bind
from portakern.spec.inputs import Family, make_inputs
from portakern.tools.cache import Cache

BLOCKS, BLOCKS_S = 64, 20.0
"""How many blocks run at most, and after how many seconds none begins."""

AGAIN_S = 60.0
"""Blocks for which one run takes longer than that run once."""

REGIONS = 8
"""Of each output that are compared."""

REGION_ELEMENTS = (1 << 22, 1 << 24)
"""What a region may read and write; the second where none is within the first."""


class _Some:
    """An executable that runs some of its blocks: as many as it can in :data:`BLOCKS_S`, and then those again."""

    def __init__(self, executable: RunsBlocks, blocks: Sequence[int]) -> None:
        self.executable, self.blocks, self.seconds = executable, blocks, BLOCKS_S
        self.guards: bool = executable.guards

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        ran = self.executable.run_blocks(self.blocks, buffers, sizes, self.seconds)
        self.blocks, self.seconds = self.blocks[:ran], math.inf

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        return self.executable.call(inputs, sizes)


def check_blocks(
    executable: RunsBlocks,
    program: TensorProgram,
    sizes: Mapping[str, int] | None = None,
    *,
    families: Mapping[str, Family] | None = None,
    seed: int = 0,
    cache: Cache | None = None,
) -> Sampled | None:
    """Whether some blocks of ``executable`` compute their part of ``program``; ``None`` where blocks cannot run alone, all
    of them run in time, they write nothing of an output, or need more than the oracle can afford.

    Args: as for :func:`portakern.check.sampled.check_sampled`.
    """
    open_dims = dict(sizes or {})
    count = executable.blocks(open_dims)
    if count == 0:
        return None
    bound = bind(program, {n: s for n, s in open_dims.items() if n in program.dims})
    inputs = make_inputs(bound, dict(families or {}), seed)
    rng = np.random.default_rng([seed, count])
    some = _Some(executable, _drawn(rng, count))
    check = Checking(some, bound, open_dims, cache or Cache())
    masks, often = _written(check, inputs)
    if len(some.blocks) == count:
        return None
    check.stages.append("blocks")

    compared = 0
    for name, result in zip(bound.outputs, bound.results, strict=True):
        regions = _regions(rng, bound, name, masks[name])
        if not regions:
            return None
        for box in regions:
            _compare(check, restrict(bound, name, box), tensor_type(result).dtype, inputs, masks[name])
        compared += len(regions)
    share = sum(int(m.sum()) for m in masks.values()) / sum(m.size for m in masks.values())
    method = (f"checked in part: {len(some.blocks)} of {count} blocks ran ({share:.2g} of the outputs), {compared} regions of "
              f"what they wrote within the bounds of the float64 oracle, guard bands, {often}; nothing is said of the others")
    return Sampled(check.verdict(), method, share)


def _drawn(rng: np.random.Generator, count: int) -> list[int]:
    """Places in the grid: the last, the first and others by lot."""
    lot = rng.permutation(count)[:BLOCKS].tolist() if count < 1 << 20 else rng.integers(0, count, BLOCKS).tolist()
    return list(dict.fromkeys([count - 1, 0, *lot]))[:BLOCKS]


def _written(check: Checking, inputs: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str]:
    """Which elements of each output are written, and how often they were.  What is written must not depend on what was there
    before."""
    first, took = check.run("blocks", inputs, check.poison(0))
    check.outputs = first
    left = {n: unwritten(*held) for n, held in check.held.items()}
    if took > AGAIN_S:
        return {n: ~x for n, x in left.items()}, "once"
    again, _ = check.run("blocks", inputs, check.poison(1))
    masks = {n: ~(left[n] & unwritten(*held)) for n, held in check.held.items()}
    for name, mask in masks.items():
        if count := count_of_differences(first[name][mask], again[name][mask]):
            check.fail("repeat", f"{name}: {count} elements differ between two runs of the same blocks on the same inputs")
    return masks, "twice"


def _regions(rng: np.random.Generator, program: TensorProgram, output: str, mask: np.ndarray) -> list[Box]:
    """Boxes about drawn elements of ``mask``, as far as it goes along each dim and the oracle can afford; none where that is
    not even one element."""
    places = np.flatnonzero(mask)
    if not places.size:
        return []
    boxes: dict[Box, None] = {}
    for place in (places[0], places[-1], *rng.choice(places, REGIONS - 2)):
        index = tuple(int(i) for i in np.unravel_index(place, mask.shape))
        runs = [_run(mask[(*index[:d], slice(None), *index[d + 1 :])], i) for d, i in enumerate(index)]
        found = (affordable_extents(program, output, [hi - lo for lo, hi in runs], most) for most in REGION_ELEMENTS)
        if (extents := next((e for e in found if e is not None), None)) is None:
            return []
        starts = [min(max(i - e // 2, lo), hi - e) for i, e, (lo, hi) in zip(index, extents, runs, strict=True)]
        boxes[tuple((s, s + e) for s, e in zip(starts, extents, strict=True))] = None
    return list(boxes)


def _run(line: np.ndarray, i: int) -> tuple[int, int]:
    """Where what is true about ``i`` begins, and one past its end."""
    gaps = np.flatnonzero(~line)
    at = int(np.searchsorted(gaps, i))
    return int(gaps[at - 1]) + 1 if at else 0, int(gaps[at]) if at < len(gaps) else len(line)


def _compare(check: Checking, part: Restricted, dtype: str, inputs: Mapping[str, np.ndarray], mask: np.ndarray) -> None:
    few = {n: np.ascontiguousarray(cut(x, part.inputs[n])) if x.ndim else x for n, x in inputs.items()}
    (wanted,) = expected(part.program, few, check.cache).values()
    theirs, actual = cut(mask, part.box), cut(check.outputs[part.output], part.box)
    # What other blocks write is right by itself.
    actual = np.where(theirs, actual, wanted.x.astype(actual.dtype))
    result = compare(replace(wanted, e=np.where(theirs, wanted.bound(), np.inf)), dtype, actual)
    check.ratio = max(check.ratio, result.ratio)
    if result.message:
        place = ", ".join(f"{lo}:{hi}" for lo, hi in part.box)
        check.fail(f"blocks [{place}]", f"{part.output}: {result.message}")
