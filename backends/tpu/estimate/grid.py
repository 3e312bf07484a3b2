"""The grid of one Pallas kernel, read off its traced form: what every step fetches, writes and branches on.

A step's index maps and its ``pl.when`` predicates are functions of its place in the grid alone, save where they read a
prefetched scalar.  Here they are evaluated for all steps at once, so that steps which cost the same can be told from the
others (:mod:`.model`) and the bytes that the pipeline moves can be counted.  Imports jax: for workers only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..trace.windows import extent_of, is_windowed

StepCoordinates = np.ndarray
"""Coordinates of steps in the order in which they run: [steps, axes]."""


@dataclass(frozen=True)
class WindowedOperand:
    """A windowed operand of a kernel: the block of each step, which of them are copied, and how many bytes."""

    number: int
    """Among the kernel's windows, inputs first."""
    output: bool
    blocks: np.ndarray | None
    """Block numbers [steps, dims]; ``None`` where a prefetched scalar decides them."""
    bytes: np.ndarray
    """Of the block, what lies outside the array left out; [steps]."""

    @property
    def moved(self) -> np.ndarray:
        """Whether the block of a step is another one than that of the step before: then it is fetched."""
        if self.blocks is None:
            return np.ones(len(self.bytes), bool)
        return np.concatenate([[True], (self.blocks[1:] != self.blocks[:-1]).any(1)])

    @property
    def copied(self) -> np.ndarray:
        """At which steps it is copied: inputs when their block is new, outputs when it is left."""
        return np.concatenate([self.moved[1:], [True]]) if self.output else self.moved


def coordinates(sizes: Sequence[int], grid: Sequence[int]) -> StepCoordinates:
    """The coordinates in ``grid`` of a part of it with ``sizes`` steps along each axis: the first ones and the last ones."""
    axes = [_picked(s, n) for s, n in zip(sizes, grid, strict=True)]
    if not axes:
        return np.zeros((1, 0), np.int32)
    return np.stack([x.reshape(-1) for x in np.meshgrid(*axes, indexing="ij")], 1)


def _picked(size: int, extent: int) -> np.ndarray:
    i = np.arange(size, dtype=np.int32)
    return np.where(i < head(size), i, i + (extent - size)).astype(np.int32)


def head(size: int) -> int:
    """How many of an axis's steps in a part are the first of the grid; the others are its last."""
    return -(-size // 2)


def kernels_of(jaxpr: Any) -> list[Any]:
    """Every ``pallas_call`` of a program in the order of the text."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            found.append(eqn)
        else:
            for inner in inner_jaxprs(eqn.params):
                found += kernels_of(inner)
    return found


def inner_jaxprs(params: Mapping[str, Any]) -> Iterator[Any]:
    for value in params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            inner = getattr(one, "jaxpr", one)
            if hasattr(inner, "eqns"):
                yield inner


def operands(call: Any, ids: StepCoordinates) -> list[WindowedOperand]:
    """The operands that the pipeline copies, at the steps ``ids``."""
    mapping = call.params["grid_mapping"]
    found = []
    for number, block in enumerate(mapping.block_mappings):
        if is_windowed(block):
            found.append(_operand(block, number, number >= mapping.num_inputs, ids))
    return found


def _operand(block: Any, number: int, output: bool, ids: StepCoordinates) -> WindowedOperand:
    numbers = _vectorised(block.index_map_jaxpr.jaxpr, block.index_map_jaxpr.consts, list(ids.T), len(ids))
    shape = block.array_aval.shape
    sizes = [extent_of(b) for b in block.block_shape]
    size = block.array_aval.dtype.itemsize
    if any(n is None for n in numbers):
        return WindowedOperand(number, output, None, np.full(len(ids), float(math.prod(sizes) * size)))
    places = np.stack([np.asarray(n) for n in numbers], 1) if numbers else np.zeros((len(ids), 0), np.int64)
    count = np.full(len(ids), float(size))
    for d, (dim, part, spec) in enumerate(zip(shape, sizes, block.block_shape, strict=True)):
        start = places[:, d] * (1 if type(spec).__name__ in ("Element", "BoundedSlice") else part)
        count *= np.clip(dim - start, 0, part)
    return WindowedOperand(number, output, places, count)


def branches(call: Any, ids: StepCoordinates) -> tuple[np.ndarray, bool]:
    """Which branch of every ``pl.when`` that the place in the grid decides each step takes: [steps, predicates].

    And whether there are others, decided by data.
    """
    walk = _ScalarEvaluation(list(ids.T), len(ids))
    walk.run(call.params["jaxpr"], [None] * len(call.params["jaxpr"].invars))
    taken = np.stack(walk.taken, 1) if walk.taken else np.zeros((len(ids), 0), np.int32)
    return taken, walk.by_data


def _vectorised(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], count: int) -> list[Any]:
    walk = _ScalarEvaluation(args, count)
    return walk.run(jaxpr, [*args, *([None] * (len(jaxpr.invars) - len(args)))], consts)


def _quotient(a: Any, b: Any) -> Any:
    """As XLA divides integers: towards zero."""
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1)) if a.dtype.kind == "i" else a / b


_SCALAR: Mapping[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "neg": np.negative,
    "sign": np.sign, "abs": np.abs, "div": _quotient, "rem": np.fmod, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or,
    "not": np.invert, "convert_element_type": lambda a: a, "clamp": lambda lo, x, hi: np.clip(x, lo, hi),
    "select_n": lambda which, *cases: np.choose(which.astype(np.int32), cases),
}  # fmt: skip
"""The scalar arithmetic of index maps in numpy; anything else goes through jax, which compiles it first (a second)."""


class _ScalarEvaluation:
    """Evaluates the scalars of a jaxpr for many steps at once; ``None`` stands for what data decide."""

    def __init__(self, coordinates: Sequence[Any], count: int) -> None:
        self.coordinates, self.count = coordinates, count
        self.taken: list[np.ndarray] = []
        self.by_data = False

    def run(self, jaxpr: Any, args: Sequence[Any], consts: Sequence[Any] = ()) -> list[Any]:
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=False)) | dict(zip(jaxpr.invars, args, strict=True))

        def read(x: Any) -> Any:
            return x.val if hasattr(x, "val") else known.get(x)

        for eqn in jaxpr.eqns:
            values = [read(x) for x in eqn.invars]
            for out, value in zip(eqn.outvars, self.step(eqn, values), strict=True):
                known[out] = value
        return [self.wide(read(x)) for x in jaxpr.outvars]

    def step(self, eqn: Any, values: list[Any]) -> list[Any]:
        name = eqn.primitive.name
        unknown = [None] * len(eqn.outvars)
        if name == "program_id":
            return [self.coordinates[eqn.params["axis"]]]
        if name == "cond":
            return self.choose(eqn, values)
        if name in ("pjit", "jit", "closed_call", "custom_jvp_call"):
            inner = next(inner_jaxprs(eqn.params))
            return self.run(inner, values)
        if any(v is None for v in values) or any(x.aval.shape != () for x in (*eqn.invars, *eqn.outvars)) or eqn.effects:
            return unknown
        if any(True for _ in inner_jaxprs(eqn.params)):
            return unknown
        wide = [self.wide(v, x.aval.dtype) for v, x in zip(values, eqn.invars, strict=True)]
        rule = _SCALAR.get(name)
        if rule is not None:
            return [np.asarray(rule(*wide), eqn.outvars[0].aval.dtype)]
        result = eqn.primitive.bind(*wide, **eqn.params)
        return [np.asarray(r) for r in (result if eqn.primitive.multiple_results else [result])]

    def choose(self, eqn: Any, values: list[Any]) -> list[Any]:
        if values[0] is None:
            self.by_data = True
        else:
            self.taken.append(np.asarray(self.wide(values[0])).astype(np.int32))
        for branch in eqn.params["branches"]:  # predicates inside a branch count too, though only some steps reach them
            self.run(branch.jaxpr, values[1:])
        return [None] * len(eqn.outvars)

    def wide(self, value: Any, dtype: Any = None) -> Any:
        if value is None:
            return None
        return np.broadcast_to(np.asarray(value, dtype), (self.count,))
