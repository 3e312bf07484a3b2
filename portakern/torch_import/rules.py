"""What a rule is: a function of one ATen operation's arguments that records what it computes.

A rule is registered under ``aten.name`` for every overload, or ``aten.name.overload`` for one.  It is called with the
:class:`Call` and the operation's own arguments: arrays as :class:`Traced`, sizes as ints or open sizes, the rest as PyTorch has
them.  What it gives is cast to the dtype that PyTorch says, so that rules think about dtypes only inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from portakern.dtypes import DTYPES
from portakern.ir.size import Size
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced, as_traced
from portakern.torch_import.types import Meta, NotImported

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Lies:
    """How an array lies in memory: its dims from the slowest to the fastest, ``None`` where there are gaps in it,
    and the place of its first element."""

    order: tuple[int, ...] | None
    offset: Size = 0


@dataclass(frozen=True)
class Call:
    """One operation of the graph.

    Args:
        name: as torch prints it, ``aten.add.Tensor``.
        results: what it gives; ``None`` for what is no array.
        used: the numbers of the results that something reads.
        contiguous: whether the first array lies in row-major order.
        lies: how the first array lies in memory.
        seed: gives a scalar that is another one for every random operation.
    """

    name: str
    results: tuple[Meta | None, ...]
    used: frozenset[int]
    contiguous: bool
    lies: Lies
    seed: Callable[[], Traced]

    @property
    def result(self) -> Meta:
        meta = self.results[0]
        assert meta is not None
        return meta

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.result.shape

    @property
    def dtype(self) -> str:
        return self.result.dtype

    @property
    def complex(self) -> bool:
        """Whether the result is complex; its dtype is that of its parts then."""
        return self.result.complex

    @property
    def base(self) -> str:
        """The name without its overload: ``aten.add``."""
        return ".".join(self.name.split(".")[:2])


def rule(*names: str) -> Callable[[R], R]:
    """Registers a function as the rule of ``names``."""

    def register(function: R) -> R:
        for name in names:
            assert name not in RULES, name
            RULES[name] = function
        return function

    return register


def rule_for(name: str) -> Rule | None:
    """The rule of ``aten.add.Tensor``: its own, or that of ``aten.add``."""
    return RULES.get(name) or RULES.get(".".join(name.split(".")[:2]))


# ---- what many rules need -------------------------------------------------------------------------------------------


def is_float(dtype: str) -> bool:
    return DTYPES[dtype].is_float


def wide(dtype: str) -> str:
    """What PyTorch computes statistics of ``dtype`` in."""
    return "f32" if is_float(dtype) and DTYPES[dtype].bits < 32 else dtype


def value(x: Any, dtype: str) -> Traced:
    """An array, number or size in ``dtype``."""
    return ew.cast(x, dtype) if isinstance(x, Traced) else as_traced(x, dtype)


def truth(x: Traced) -> Traced:
    return x if x.type.dtype == "bool" else ew.not_equal(x, 0)


def spread(x: Traced, shape: tuple[Size, ...]) -> Traced:
    """``x`` broadcast to ``shape``."""
    return x if x.shape == tuple(shape) else ew.expand(x, shape)


def column(x: Traced, shape: tuple[Size, ...], dim: int = 1) -> Traced:
    """A vector along ``dim`` of ``shape``."""
    return ew.expand_at(x, shape, (dim,))


def axes_of(dims: Any, rank: int) -> tuple[int, ...]:
    """PyTorch's ``dim`` argument, of which none and an empty list mean all."""
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        return tuple(range(rank))
    each = dims if isinstance(dims, list | tuple) else [dims]
    return tuple(sorted({d % rank for d in each})) if rank else ()


def each(entry: Any, n: int, default: Any = None) -> tuple[Any, ...]:
    """An argument that is one number for all spatial dims, one for each, or empty for ``default``."""
    entry = default if entry is None or (isinstance(entry, list | tuple) and not entry) else entry
    entries = list(entry) if isinstance(entry, list | tuple) else [entry]
    return tuple(entries * n if len(entries) == 1 else entries)


def number(size: Size, what: str) -> int:
    """``size`` where it must be known."""
    if not isinstance(size, int):
        raise NotImported(f"{what} of {size}, which is open")
    return size
