"""The schedules that may be tried: parameters and their choices, from what a backend lists and declares.

A backend lists schedules, default first.  Every value it lists for a tile, for warps, stages or an option is a choice, and so
are half and twice of its tiles and warps; :attr:`portakern.backend.Language.choices` adds what it declares worth trying.  The
space is the product of all, without what the device cannot hold.  A program of several kernels is searched as one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from portakern.backend import Language
from portakern.device import Device
from portakern.ir.schedule import ROLES, Nest, Schedule, Value
from portakern.tuned.chosen import Chosen, ForNest, for_nest
from portakern.tuning.cost import cost
from portakern.tuning.limits import refused

Values = Mapping[str, Value]
"""A value for every parameter."""

Point = tuple[Schedule, ...]
"""A schedule for every nest."""

STAGES = (1, 2, 3, 4, 5)
_PIPELINED = ("contraction", "grouped", "attention", "chain")
WHOLE = {"attention": ("k", "d"), "chain": ("k", "kd", "d"), "sort": ("sorted", "first")}
"""Roles of axes that one tile must cover, by family."""


@dataclass(frozen=True)
class NestSpace:
    """The choices for one kernel.  ``listed`` are the backend's own schedules, default first."""

    nest: Nest
    listed: tuple[Schedule, ...]
    choices: Mapping[str, tuple[Value, ...]]

    def schedule(self, values: Values) -> Schedule:
        """The schedule with these values."""
        tiles = tuple((a.name, int(values[f"tile {a.name}"])) for a in self.nest.axes)
        given = {n.removeprefix("option "): v for n, v in values.items() if n.startswith("option ")}
        # An option at its default is left out, as the listed schedules do.
        options = tuple(sorted((n, v) for n, v in given.items() if v != "unset"))
        return Schedule(tiles, int(values["stages"]), int(values["warps"]), options)

    def values(self, schedule: Schedule) -> dict[str, Value]:
        found: dict[str, Value] = {f"tile {name}": size for name, size in schedule.tiles}
        found |= {"stages": schedule.stages, "warps": schedule.warps}
        options = dict(schedule.options)
        return found | {n: options.get(n.removeprefix("option "), "unset") for n in self.choices if n.startswith("option ")}


def nest_space(nest: Nest, listed: Sequence[Schedule], declared: Mapping[str, Sequence[Value]], device: Device) -> NestSpace:
    """The space around what is ``listed``, with what the backend has ``declared`` by axis, role, ``warps``, ``stages`` or
    option."""
    choices: dict[str, tuple[Value, ...]] = {}
    for axis in nest.axes:
        seen = {s.tile(axis.name) for s in listed}
        named = declared.get(axis.name) if axis.name not in ROLES[nest.family] else None  # the role, which wins over the name
        more = declared.get(axis.role) if named is None else named
        fixed = max(seen) == 1 or axis.role in WHOLE.get(nest.family, ())
        sizes = {int(v) for v in more} if more is not None else set() if fixed else _around(seen)
        choices[f"tile {axis.name}"] = tuple(sorted(seen | {s for s in sizes if _sensible(s, axis.extent, seen)}))
    warps = {s.warps for s in listed}
    more = declared.get("warps")
    if more is not None:
        warps |= {int(v) for v in more}
    elif device.kind == "gpu":
        warps |= _around(warps)
    choices["warps"] = tuple(sorted(warps))
    stages = {s.stages for s in listed}
    more = declared.get("stages")
    if more is not None:
        stages |= {int(v) for v in more}
    elif nest.family in _PIPELINED and max(stages) > 1 and device.kind == "gpu":
        stages |= {s for s in STAGES if s <= max(stages) + 1}
    choices["stages"] = tuple(sorted(stages))
    taken = {a.name for a in nest.axes} | {a.role for a in nest.axes} | {"warps", "stages"}
    names = dict.fromkeys([*(n for s in listed for n, _ in s.options), *(n for n in declared if n not in taken)])
    for name in names:
        seen_values = dict.fromkeys([*(dict(s.options).get(name, "unset") for s in listed), *declared.get(name, ())])
        choices[f"option {name}"] = tuple(seen_values)
    return NestSpace(nest, tuple(listed), choices)


def _around(sizes: set[int]) -> set[int]:
    return {n for s in sizes for n in (s // 2, s, s * 2) if n >= 1}


def _sensible(size: int, extent: object, seen: set[int]) -> bool:
    """A tile over the whole axis is listed where there may be one; a larger one only computes more that is thrown away."""
    return size in seen or not isinstance(extent, int) or size < extent


@dataclass(frozen=True)
class Space:
    """The choices for every kernel of a program.  Parameters are named ``<kernel>/<parameter>``."""

    nests: tuple[NestSpace, ...]
    device: Device

    @cached_property
    def parameters(self) -> dict[str, tuple[Value, ...]]:
        """Those with more than one choice."""
        each = ((f"{i}/{name}", values) for i, n in enumerate(self.nests) for name, values in n.choices.items())
        return {name: values for name, values in each if len(values) > 1}

    @cached_property
    def size(self) -> int:
        """Points before anything is refused."""
        return math.prod(len(v) for v in self.parameters.values())

    @property
    def default(self) -> Point:
        return tuple(n.listed[0] for n in self.nests)

    def listed(self) -> Iterator[Point]:
        """The default, then every other listed schedule of each kernel with the others at their default."""
        yield self.default
        for i, n in enumerate(self.nests):
            for schedule in n.listed[1:]:
                yield (*self.default[:i], schedule, *self.default[i + 1 :])

    def point(self, values: Values) -> Point:
        """The point with these values, single choices filled in."""
        def of(i: int, n: NestSpace) -> Schedule:
            return n.schedule({name: values.get(f"{i}/{name}", choices[0]) for name, choices in n.choices.items()})

        return tuple(of(i, n) for i, n in enumerate(self.nests))

    def values(self, point: Point) -> dict[str, Value]:
        """The inverse of :meth:`point`; values that are no choice are left in."""
        pairs = enumerate(zip(self.nests, point, strict=True))
        each = {f"{i}/{name}": v for i, (n, s) in pairs for name, v in n.values(s).items()}
        return {name: v for name, v in each.items() if name in self.parameters}

    def all(self) -> Iterator[Point]:
        """Every point, in the order of the choices."""
        names = list(self.parameters)
        for values in product(*self.parameters.values()):
            yield self.point(dict(zip(names, values, strict=True)))

    def random(self, rng: random.Random) -> Point:
        return self.point({name: rng.choice(values) for name, values in self.parameters.items()})

    def refused(self, point: Point) -> str:
        """Why the device cannot hold a point; empty where it may."""
        reasons = (refused(n.nest, s, self.device) for n, s in zip(self.nests, point, strict=True))
        return next(filter(None, reasons), "")

    def cost(self, point: Point) -> float | None:
        """The model's cost of all kernels together, in microseconds that only rank; ``None`` where it has no answer."""
        each = [cost(n.nest, s, self.device) for n, s in zip(self.nests, point, strict=True)]
        return sum(c.us for c in each if c is not None) if each and all(c is not None for c in each) else None

    def chosen(self, point: Point, origin: str = "", exact: bool = True) -> Chosen:
        """``point`` as lowering takes it."""
        return Chosen(tuple(self.for_nests(point)), origin, exact)

    def for_nests(self, point: Point) -> list[ForNest]:
        return [for_nest(n.nest, s) for n, s in zip(self.nests, point, strict=True)]


def text(point: Point) -> str:
    """As it stands in rows and tables."""
    return "; ".join(map(str, point))


def space_of(nests: Sequence[Nest], language: Language, device: Device) -> Space:
    """The space of a program whose lowering asks for schedules of ``nests``."""
    declare = language.choices or (lambda nest, device: {})
    return Space(tuple(nest_space(n, language.schedules(n, device), declare(n, device), device) for n in nests), device)
