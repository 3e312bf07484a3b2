"""Dtypes and sizes of PyTorch as ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError, UsageError
from portakern.ir.size import Size, Sym

_SHORT = {d.long_name: d.name for d in DTYPES.values()}


class NotImported(PortakernError):
    """Something of a graph that has no counterpart here; the walk collects them."""

    def __init__(self, why: str) -> None:
        super().__init__("not-imported", why)


def dtype_of(dtype: Any) -> str:
    """The name of a torch dtype; raises :class:`NotImported` for one that we do not have (complex, quantised)."""
    name = str(dtype).removeprefix("torch.")
    if name not in _SHORT:
        raise NotImported(f"arrays of {name}")
    return _SHORT[name]


def torch_dtype(name: str) -> Any:
    import torch

    return getattr(torch, DTYPES[name].long_name)


@dataclass(frozen=True)
class Meta:
    """Shape and dtype of a value of the graph; of a complex one the dtype of its parts."""

    shape: tuple[Size, ...]
    dtype: str
    complex: bool = False


@dataclass(frozen=True)
class Sizes:
    """Symbols of an exported graph as sizes of ours."""

    known: Mapping[str, Size]

    def of(self, value: Any) -> Size:
        """A number, or a symbolic integer of torch as a polynomial over open dims."""
        if isinstance(value, int):
            return int(value)
        return self.read(value.node.expr)

    def read(self, e: Any) -> Size:
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            if str(e) in self.known:
                return self.known[str(e)]
            raise NotImported(f"the size {e}, which follows from the numbers inside an array")
        kind, args = type(e).__name__, e.args
        if kind == "Add":
            return _sum([self.read(a) for a in args])
        if kind == "Mul":
            return _product([self.read(a) for a in args])
        if kind == "Pow" and args[1].is_Integer and int(args[1]) >= 1:
            return _product([self.read(args[0])] * int(args[1]))
        if kind in ("FloorDiv", "CleanDiv"):
            divisor = self.read(args[1])
            if isinstance(divisor, int):
                return self.read(args[0]) // divisor
            if (quotient := _quotient(self.read(args[0]), divisor)) is not None:
                return quotient
        if kind in ("Min", "Max"):
            found = _outermost([self.read(a) for a in args], 1 if kind == "Max" else -1)
            if found is not None:
                return found
        raise NotImported(f"the size {e}, which is no sum of products of dims")

    def meta(self, fake: Any) -> Meta:
        shape = tuple(self.of(s) for s in fake.shape)
        return Meta(shape, dtype_of(fake.dtype.to_real() if fake.dtype.is_complex else fake.dtype), fake.dtype.is_complex)


def _outermost(sizes: list[Size], side: int) -> Size | None:
    """The largest (``side`` 1) or least (-1) of sizes that are a known number apart, as N and N - 1."""
    best = sizes[0]
    for size in sizes[1:]:
        apart = size - best
        if not isinstance(apart, int):
            return None
        best = size if apart * side > 0 else best
    return best


def _sum(sizes: list[Size]) -> Size:
    total: Size = 0
    for s in sizes:
        total = total + s
    return total


def _product(sizes: list[Size]) -> Size:
    total: Size = 1
    for s in sizes:
        total = total * s
    return total


def _quotient(size: Size, divisor: Sym) -> int | None:
    """How many times ``divisor`` is in ``size``, where that is a number: 2 of 2 T and T."""
    (monomial, count), *_ = divisor.terms
    whole = dict(size.terms).get(monomial, 0) if isinstance(size, Sym) else 0
    times = whole // count
    return times if divisor * times == size else None


def need_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise UsageError("torch is not installed", hint="pip install 'portakern[torch]'") from None
