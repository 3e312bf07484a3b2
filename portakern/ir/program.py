"""A program: what one operator becomes, an ordered list of kernels over named arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from portakern.errors import IRError
from portakern.ir.core import Function, Loc
from portakern.ir.reading import Reading, readings
from portakern.ir.size import Size, evaluate, names_of, product
from portakern.ir.text import parse_functions
from portakern.ir.tile import BufferType, Kernel, TileType, verify_kernel

if TYPE_CHECKING:
    from portakern.ir.tensor import TensorProgram


@dataclass(frozen=True)
class ArrayFacts:
    """What a build may assume of an array at hand, and a call must check.

    ``strides`` in elements (``None``: contiguous); ``align``: bytes that divide the address of the first element.
    """

    strides: tuple[int, ...] | None = None
    align: int = 16


@dataclass(frozen=True)
class Array:
    """An array (or run-time scalar) of a program.

    ``role`` is ``input``, ``output``, ``temporary`` or ``scalar`` (``inout`` for arrays of a kernel that belongs to no
    operator, which may be read and written); ``init`` the value a temporary or an output that kernels add into is filled
    with before the first kernel (``None``: left as it is); ``loc`` the operator's line that it comes from.
    """

    name: str
    type: BufferType | TileType
    role: str
    init: float | None = None
    loc: Loc | None = field(default=None, repr=False, compare=False)

    @property
    def dtype(self) -> str:
        return self.type.dtype


@dataclass(frozen=True)
class Repeat:
    """Kernels ``first`` to before ``last`` of a program run ``count`` times, in order.

    ``step`` is an open dim of theirs that counts the turns from 0.  After every turn the arrays of each pair in ``swaps``
    change names, for what follows the loop too.
    """

    first: int
    last: int
    count: Size
    step: str
    swaps: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Computed:
    """What the kernels ``first`` to before ``last`` of a program compute together, ``times`` in all: a tensor program on arrays
    of their names."""

    first: int
    last: int
    program: TensorProgram
    times: Size = 1


@dataclass(frozen=True)
class Program:
    """Kernels in launch order, some of which are repeated.  A kernel's argument has the name of an array, and may view it in
    another shape of as many elements.  Inputs come first in ``arrays``, in the operator's order, then scalars, outputs,
    temporaries.  ``computed`` says what each kernel is for, to those who count its work; it is no part of what is done.
    """

    name: str
    arrays: tuple[Array, ...]
    kernels: tuple[Kernel, ...]
    repeats: tuple[Repeat, ...] = ()
    computed: tuple[Computed, ...] = field(default=(), repr=False, compare=False)

    def by_role(self, *roles: str) -> tuple[Array, ...]:
        return tuple(a for a in self.arrays if a.role in roles)

    @cached_property
    def _by_name(self) -> Mapping[str, Array]:
        return {a.name: a for a in reversed(self.arrays)}

    def array(self, name: str) -> Array:
        if name not in self._by_name:
            raise IRError(f"{self.name} has no array {name}")
        return self._by_name[name]

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """Open dims, sorted by name."""
        found: set[str] = set()
        for a in self.arrays:
            if isinstance(a.type, BufferType):
                for size in (*a.type.shape, *(a.type.strides or ())):
                    found |= names_of(size)
        for k in self.kernels:
            found |= set(k.sizes)
        for r in self.repeats:
            found |= names_of(r.count)
        return tuple(sorted(found - {r.step for r in self.repeats}))

    def shape(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The concrete shape of an array once the open dims have values."""
        t = self.array(name).type
        return tuple(evaluate(s, sizes) for s in t.shape) if isinstance(t, BufferType) else ()

    def readings(self, *roles: str) -> dict[str, Reading]:
        """The open dims that the shapes of arrays of these roles tell (see :func:`portakern.ir.reading.readings`)."""
        return readings({a.name: a.type.shape for a in self.by_role(*roles) if isinstance(a.type, BufferType)})

    def array_with(self, size: str) -> Array | None:
        """The first array in whose shape the open dim ``size`` stands."""
        return next((a for a in self.arrays if isinstance(a.type, BufferType)
                     and any(size in names_of(s) for s in a.type.shape)), None)

    def __str__(self) -> str:
        head = [f"# program {self.name}"]
        for a in self.arrays:
            init = "" if a.init is None else f" = {a.init!r}"
            head.append(f"# {a.role} {a.name}: {a.type}{init}")
        for r in self.repeats:
            swaps = "".join(f", {a} and {b} change places" for a, b in r.swaps)
            names = ", ".join(k.name for k in self.kernels[r.first : r.last])
            head.append(f"# repeat {names} for {r.step} in 0:{r.count}{swaps}")
        return "\n".join(head) + "\n\n" + "\n".join(str(k) for k in self.kernels)

    @cached_property
    def digest(self) -> str:
        """A stable hash of the program, locations left out."""
        text = repr((self.name, self.arrays, tuple(k.digest for k in self.kernels), *self.repeats))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Turn:
    """One run of kernel ``number``: open dims, those that count turns too, and which array each name stands for by now."""

    number: int
    sizes: Mapping[str, int]
    arrays: Mapping[str, str]

    def array(self, name: str) -> str:
        return self.arrays.get(name, name)


def turns(kernels: int, repeats: Sequence[Repeat], sizes: Mapping[str, int]) -> Iterator[Turn]:
    """Every run of ``kernels`` kernels in order, with all turns of what is repeated."""
    now: dict[str, str] = {}

    def run(plan: Sequence[int | Nested], sizes: Mapping[str, int]) -> Iterator[Turn]:
        for item in plan:
            if isinstance(item, int):
                yield Turn(item, sizes, dict(now))
                continue
            for step in range(evaluate(item.repeat.count, sizes)):
                yield from run(item.inside, {**sizes, item.repeat.step: step})
                for a, b in item.repeat.swaps:
                    now[a], now[b] = now.get(b, b), now.get(a, a)

    return run(nested(kernels, repeats), sizes)


@dataclass(frozen=True)
class Nested:
    """What is repeated: numbers of kernels, and loops inside it."""

    repeat: Repeat
    inside: tuple[int | Nested, ...]


def nested(kernels: int, repeats: Sequence[Repeat]) -> list[int | Nested]:
    """The numbers of ``kernels`` kernels in order, those that are repeated together."""
    found: list[int | Nested] = list(range(kernels))
    for r in sorted(repeats, key=lambda r: r.last - r.first):  # the inner ones first
        places = [n for n, item in enumerate(found) if r.first <= _first(item) < r.last]
        found[places[0] : places[-1] + 1] = [Nested(r, tuple(found[n] for n in places))]
    return found


def _first(item: int | Nested) -> int:
    return item if isinstance(item, int) else item.repeat.first


def moved(repeats: Sequence[Repeat], first: Callable[[int], int], last: Callable[[int], int]) -> tuple[Repeat, ...]:
    """``repeats`` where kernels have other numbers: ``first`` gives that of one that begins a loop, ``last`` the one behind."""
    return tuple(replace(r, first=first(r.first), last=last(r.last - 1)) for r in repeats)


def verify_program(program: Program) -> None:
    """Check every kernel, and that its arguments are arrays of the program with as many elements."""
    names = [a.name for a in program.arrays]
    if len(set(names)) != len(names):
        raise IRError(f"{program.name} has two arrays of one name: {', '.join(n for n in names if names.count(n) > 1)}")
    for r in program.repeats:
        for a, b in r.swaps:
            if program.array(a).type != program.array(b).type or {program.array(n).role for n in (a, b)} != {"temporary"}:
                raise IRError(f"{program.name} cannot let {a} and {b} change places: they are not temporaries of one type")
    for kernel in program.kernels:
        verify_kernel(kernel)
        for arg in kernel.args:
            array = program.array(arg.name)
            mine, theirs = arg.type, array.type
            if isinstance(mine, BufferType) and isinstance(theirs, BufferType):
                if mine.dtype != theirs.dtype or product(mine.shape) != product(theirs.shape):
                    raise IRError(f"{kernel.name} sees {arg.name} as {mine}, the program has {theirs}")
            elif mine != theirs:
                raise IRError(f"{kernel.name} sees {arg.name} as {mine}, the program has {theirs}")
            if arg in kernel.written and array.role not in ("output", "temporary"):
                raise IRError(f"{kernel.name} writes the {array.role} {arg.name}")


def parse_kernels(text: str) -> tuple[Function, ...]:
    """The kernels in the text of a program (its arrays are comments there)."""
    return parse_functions(text)
