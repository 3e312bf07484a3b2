"""How inputs are declared: ``Tensor["M", "N"]``, ``Tensor["*B", "N", pk.f32]``, ``Scalar[pk.f32]``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portakern.dtype_names import dtype_name
from portakern.errors import IRError, SpecError, UsageError
from portakern.ir.size import Size, Sym, parse_size

_NAME = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True)
class TensorSpec:
    """Declared dims (a number, a name, an expression of names, or ``"*B"``) and dtype (``None``: that of the build)."""

    dims: tuple[str | int, ...]
    dtype: str | None = None

    def __post_init__(self) -> None:
        if sum(is_star(d) for d in self.dims) > 1:
            raise SpecError(f"{list(self.dims)} has more than one starred dim")
        for dim in self.dims:
            if isinstance(dim, bool) or not isinstance(dim, int | str) or (isinstance(dim, int) and dim < 0):
                raise SpecError(f"{dim!r} is not a dim", 'dims are names ("M"), numbers, or one star ("*B")')
            if isinstance(dim, str):
                check_dim(dim)

    def __str__(self) -> str:
        return f"Tensor[{', '.join([*map(str, self.dims), self.dtype or 'dtype'])}]"


@dataclass(frozen=True)
class ScalarSpec:
    """A number given at run time."""

    dtype: str


def is_star(dim: str | int) -> bool:
    return isinstance(dim, str) and dim.startswith("*")


def check_dim(dim: str) -> None:
    """Raises :class:`SpecError` unless ``dim`` is ``"*NAME"`` or an expression of dim names."""
    try:
        ok = bool(_NAME.fullmatch(dim[1:])) if is_star(dim) else parse_size(dim) is not None
    except (SyntaxError, IRError):
        ok = False
    if not ok:
        raise SpecError(f"{dim!r} is not a dim", 'dims are names ("M"), sums and products of them ("2*N"), or one star ("*B")')


def star_names(dim: str, rank: int) -> tuple[str, ...]:
    """The names of the dims that ``"*B"`` stands for: ``B`` if it is one, else ``B0``, ``B1``, ..."""
    name = dim.removeprefix("*")
    return (name,) if rank == 1 else tuple(f"{name}{i}" for i in range(rank))


def resolve(dims: tuple[str | int, ...], stars: dict[str, int]) -> tuple[Size, ...]:
    """Declared dims as sizes, with starred ones of the ranks in ``stars``."""
    out: list[Size] = []
    for dim in dims:
        if isinstance(dim, int):
            out.append(dim)
        elif is_star(dim):
            out.extend(Sym.named(n) for n in star_names(dim, stars.get(dim.removeprefix("*"), 0)))
        else:
            out.append(parse_size(dim))
    return tuple(out)


def tensor_spec(item: Any) -> TensorSpec:
    """What ``Tensor[item]`` declares."""
    parts = item if isinstance(item, tuple) else (item,)
    dtype = None
    if parts and not isinstance(parts[-1], str | int | Size) and (named := _dtype(parts[-1])):
        *parts, _ = parts
        dtype = named
    return TensorSpec(tuple(parts), dtype)


def scalar_spec(item: Any) -> ScalarSpec:
    try:
        return ScalarSpec(dtype_name(item))
    except UsageError as error:
        raise SpecError(f"Scalar[{item!r}] names no dtype", f"write Scalar[pk.f32]; {error.hint}") from None


def _dtype(item: Any) -> str | None:
    """The name of a dtype; ``None`` for a dim, which is a text, a number or an expression."""
    try:
        return dtype_name(item)
    except UsageError:
        return None


if TYPE_CHECKING:
    from typing import TypeAlias

    from portakern.spec.traced import Traced

    # For a type checker an annotated input is an array, whatever its dims.
    Tensor: TypeAlias = Any
    Scalar: TypeAlias = Any
    _ = Traced
else:

    class Tensor:
        """Annotates an array: ``Tensor["M", "N"]``; a last ``pk.f32`` fixes its dtype, ``"*B"`` is any dims."""

        def __class_getitem__(cls, item: Any) -> TensorSpec:
            return tensor_spec(item)

    class Scalar:
        """Annotates a number that is given at run time: ``Scalar[pk.f32]``."""

        def __class_getitem__(cls, item: Any) -> ScalarSpec:
            return scalar_spec(item)
