"""Input families: what the arrays of a check or a benchmark are filled with.  Deterministic in (program, seed)."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from portakern.dtypes import DTYPES, numpy_dtype
from portakern.ir.core import Arg
from portakern.ir.size import Size, evaluate, names_of, parse_size
from portakern.ir.tensor import (
    Convert,
    Expand,
    Flip,
    Gather,
    Reshape,
    SegmentFold,
    Slice,
    TensorProgram,
    Transpose,
    tensor_type,
)  # fmt: skip

if TYPE_CHECKING:
    import numpy as np


class Family(Protocol):
    """A way to fill an array; ``sizes`` are the values of the dims."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray: ...


def _moved(x: np.ndarray, scale: float, by: float) -> np.ndarray:
    """``scale * x + by`` in the place of ``x``, which may be large."""
    import numpy as np

    x = np.asarray(x)  # a number where there are no dims
    x *= np.float32(scale)
    x += np.float32(by)
    return x


@dataclass(frozen=True)
class Normal:
    """Normally distributed numbers."""

    scale: float = 1.0
    mean: float = 0.0

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        """An array of this shape; ``sizes`` are those of the dims."""
        import numpy as np

        return _moved(rng.standard_normal(shape, dtype=np.float32), self.scale, self.mean)


@dataclass(frozen=True)
class Uniform:
    """Numbers in [low, high)."""

    low: float = 0.0
    high: float = 1.0

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        """An array of this shape; ``sizes`` are those of the dims."""
        import numpy as np

        return _moved(rng.random(shape, dtype=np.float32), self.high - self.low, self.low)


@dataclass(frozen=True)
class Integers:
    """Whole numbers from ``low`` to below ``high``, which may be an expression of dims: ``Integers(0, "V")``; in ascending
    order along the last dim where that is asked for."""

    low: int = -100
    high: int | str = 100
    ascending: bool = False

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        """An array of this shape; ``sizes`` are those of the dims."""
        import numpy as np

        size: Size = self.high if isinstance(self.high, int) else parse_size(self.high)
        found = rng.integers(self.low, max(evaluate(size, sizes), self.low + 1), size=shape)
        return np.sort(found) if self.ascending else found


@dataclass(frozen=True)
class Labels:
    """Whole numbers from 0 to below ``high``, an expression of dims (``Labels("N")``), every eighth of them ``ignored``."""

    high: int | str
    ignored: int = -100

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        """An array of this shape; ``sizes`` are those of the dims."""
        import numpy as np

        found = Integers(0, self.high).draw(rng, shape, sizes)
        # The first is never ignored, so that something is left.
        return np.where(np.arange(found.size).reshape(shape) % 8 == 5, self.ignored, found)


@dataclass(frozen=True, eq=False)
class Held:
    """Numbers that are given; of another shape, some of them at random."""

    values: np.ndarray

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        """An array of this shape; ``sizes`` are those of the dims."""
        import numpy as np

        return self.values if self.values.shape == shape else rng.choice(np.ravel(self.values), size=shape)


_AT_ONCE = 1 << 22
"""Elements that are looked at in float64 at once: arrays of models may be larger than what memory holds of that."""


def like(values: np.ndarray) -> Family:
    """A family of numbers such as ``values`` are: as many, as large, and of one sign where they are."""
    import numpy as np

    values = np.asarray(values)
    line = values.reshape(-1)
    parts = [line[at : at + _AT_ONCE] for at in range(0, line.size, _AT_ONCE)]
    if not line.size or not all(np.isfinite(p).all() for p in parts):
        return Held(values)
    if values.dtype.kind in "iub":
        return Held(values) if _ascends(line) else Integers(int(line.min()), int(line.max()) + 1)
    low, high = float(line.min()), float(line.max())
    if low >= 0 or high <= 0:
        return Uniform(low, high)
    mean = sum(float(p.sum(dtype=np.float64)) for p in parts) / line.size
    square = sum(float(np.square(p.astype(np.float64) - mean).sum()) for p in parts) / line.size
    return Normal(square**0.5, mean)


def _ascends(line: np.ndarray) -> bool:
    parts = (line[at : at + _AT_ONCE + 1] for at in range(0, line.size, _AT_ONCE))
    return line.size > 1 and all(bool((p[1:] > p[:-1]).all()) for p in parts)


@dataclass(frozen=True)
class Offsets:
    """Ascending whole numbers from 0 to ``end``, an expression of dims (``Offsets("P")``): where segments begin, and the last
    one ends.  Their lengths vary, and about every eighth is empty."""

    end: Size | str

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        """An array of this shape; ``sizes`` are those of the dims."""
        import numpy as np

        end = evaluate(parse_size(self.end) if isinstance(self.end, str) else self.end, sizes)
        found = np.sort(rng.integers(0, end + 1, size=shape))
        found[..., 4::8] = found[..., 3::8][..., : found[..., 4::8].shape[-1]]
        found[..., -1:] = end
        found[..., :1] = 0
        return found


@dataclass(frozen=True)
class Indices:
    """Coordinates along a dim of ``size``: every sixteenth lies outside of it, below and above in turns."""

    size: Size

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        """An array of this shape; ``sizes`` are those of the dims."""
        import numpy as np

        size = evaluate(self.size, sizes)
        found = rng.integers(0, max(size, 1), size=shape)
        place = np.arange(found.size).reshape(shape) + rng.integers(16)
        outside = np.where(place % 32 < 16, -1 - found % 3, size + found % 3)
        return np.where(place % 16 == 7, outside, found)


def sizes_of(family: Family) -> frozenset[str]:
    """The dims that ``family`` speaks of.  Raises :class:`PortakernError` where its text is no size."""
    high = family.high if isinstance(family, Integers | Labels) else 0
    return frozenset(names_of(parse_size(high))) if isinstance(high, str) else frozenset()


def at_sizes(families: Mapping[str, Family], sizes: Mapping[str, object]) -> dict[str, Family]:
    """``families`` with expressions of dims replaced by the numbers they are at ``sizes``, where those are given."""
    known = {k: v for k, v in sizes.items() if isinstance(v, int)}

    def bound(family: Family) -> Family:
        name = "end" if isinstance(family, Offsets) else "high" if isinstance(family, Integers | Labels) else ""
        value = getattr(family, name, None)
        if not isinstance(value, str):
            return family
        size = parse_size(value)
        return replace(family, **{name: evaluate(size, known)}) if names_of(size) <= set(known) else family  # type: ignore

    return {name: bound(f) for name, f in families.items()}


def default_family(dtype: str) -> Family:
    """Standard normal floats, small integers, coin flips."""
    kind = DTYPES[dtype]
    if kind.is_float:
        return Normal()
    if kind.kind == "bool":
        return Integers(0, 2)
    return Integers(0 if kind.kind == "uint" else -100, 100)


def index_families(program: TensorProgram) -> dict[str, Family]:
    """Families for the arguments that elements are picked by (mostly coordinates along what is picked from) and for those that
    mark segments."""
    found: dict[str, Family] = {}
    for op in program.body.ops:
        if not isinstance(op, Gather | SegmentFold):
            continue
        size = tensor_type(op.x).shape[op.axis]
        source, family = (op.indices, Indices(size)) if isinstance(op, Gather) else (op.offsets, Offsets(size))
        while isinstance(source, Expand | Reshape | Transpose | Slice | Flip | Convert):
            source = source.x
        if isinstance(source, Arg) and DTYPES[tensor_type(source).dtype].is_int:
            found.setdefault(source.name, family)
    return found


def make_inputs(
    program: TensorProgram,
    families: Mapping[str, Family] | None = None,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    only: Collection[str] | None = None,
) -> dict[str, np.ndarray]:
    """One array per input of ``program`` (numbers for scalars), or for those of them named, whose dims are bound or given by
    ``sizes``."""
    import numpy as np

    sizes = dict(sizes or {})
    families = {**index_families(program), **(families or {})}
    out: dict[str, np.ndarray] = {}
    for arg in program.args:
        if only is not None and arg.name not in only:
            continue
        t = tensor_type(arg)
        shape = tuple(evaluate(s, sizes) for s in t.shape)
        # Each array has its own stream, so that it does not depend on the ones before it.
        rng = np.random.Generator(np.random.SFC64([seed, zlib.crc32(arg.name.encode())]))
        family = families.get(arg.name) or default_family(t.dtype)
        values = np.asarray(family.draw(rng, shape, sizes))
        if DTYPES[t.dtype].is_float:
            top = DTYPES[t.dtype].largest
            values = np.clip(values, -top, top) if top < 1e30 else values
        out[arg.name] = values.astype(numpy_dtype(t.dtype)).reshape(shape)
    return out
