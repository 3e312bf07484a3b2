"""Schedules for the nests of a program in the order lowering asks for them, kept so that they fit other shapes too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portakern.errors import ScheduleError
from portakern.ir.schedule import Nest, Schedule

Pick = Callable[[Nest, Sequence[Schedule]], Schedule]
"""What lowering asks: a nest and what the backend lists for it; the schedule to use."""


@dataclass(frozen=True)
class ForNest:
    """A schedule and what must be known to use it elsewhere: the family, and which axes one tile covers."""

    family: str
    schedule: Schedule
    whole: frozenset[str] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        return {"family": self.family, "schedule": str(self.schedule), "whole": sorted(self.whole)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> ForNest:
        return ForNest(str(data["family"]), Schedule.parse(str(data["schedule"])), frozenset(data.get("whole", ())))


def for_nest(nest: Nest, schedule: Schedule) -> ForNest:
    """``schedule`` of ``nest`` in the form that is kept."""
    whole = {a.name for a in nest.axes if isinstance(a.extent, int) and 1 < a.extent <= schedule.tile(a.name)}
    return ForNest(nest.family, schedule, frozenset(whole))


@dataclass(frozen=True)
class Chosen:
    """Schedules by nest, and where they come from.

    ``exact`` schedules are used as they are, and what is wrong with them is an error; others are fitted to the shape at
    hand and given up for the backend's default where they do not fit.  ``version`` is the emitter's they were tuned with.
    """

    nests: tuple[ForNest, ...]
    origin: str = ""
    exact: bool = False
    version: int | None = None

    def picker(self, options: Collection[str], version: int) -> Pick:
        """Answers lowering with these schedules one after the other.

        Raises :class:`ScheduleError` where they were tuned with another version of the emitter; what it gives raises it for
        a schedule that does not belong to its nest.
        """
        if self.version is not None and self.version != version:
            raise ScheduleError(f"it was tuned with version {self.version} of the emitter, and this is {version}")
        left = iter(self.nests)

        def pick(nest: Nest, listed: Sequence[Schedule]) -> Schedule:
            mine = next(left, None)
            if mine is None:
                raise ScheduleError("the program has more kernels than the tuned schedules are for")
            return _only_of(mine.schedule, nest) if self.exact else fitted(mine, nest, listed, options)

        return pick


def _only_of(schedule: Schedule, nest: Nest) -> Schedule:
    """``schedule``.  Raises :class:`ScheduleError` where it has a tile for what is no axis of ``nest``: nothing is ignored."""
    axes = [a.name for a in nest.axes]
    if others := [name for name, _ in schedule.tiles if name not in axes]:
        raise ScheduleError(f"the schedule gives a tile for {', '.join(others)}, and the kernel's axes are {', '.join(axes)}",
                            hint="options come after stages and warps")
    return schedule


def fitted(mine: ForNest, nest: Nest, listed: Sequence[Schedule], options: Collection[str]) -> Schedule:
    """The schedule for a nest of another shape: axes that one tile covered are covered again.

    Raises :class:`ScheduleError` where the nest is of another family, has other axes, or an option is no longer declared.
    """
    if mine.family != nest.family:
        raise ScheduleError(f"it is for a {mine.family} kernel, and this is a {nest.family} kernel")
    axes = [a.name for a in nest.axes]
    if axes != [name for name, _ in mine.schedule.tiles]:
        raise ScheduleError(f"it is for the axes {', '.join(n for n, _ in mine.schedule.tiles)}, and this kernel has "
                            f"{', '.join(axes)}")
    gone = [name for name, _ in mine.schedule.options if name not in options]
    if gone:
        raise ScheduleError(f"it says {', '.join(gone)}, which the language no longer declares")
    tiles = tuple((a.name, _covering(a.name, a.extent, listed) if a.name in mine.whole else mine.schedule.tile(a.name))
                  for a in nest.axes)  # fmt: skip
    return Schedule(tiles, mine.schedule.stages, mine.schedule.warps, mine.schedule.options)


def _covering(axis: str, extent: object, listed: Sequence[Schedule]) -> int:
    """The smallest tile over the whole axis among those the backend lists, which knows what tiles may be."""
    if not isinstance(extent, int):
        raise ScheduleError(f"its tile covers the axis {axis}, whose extent is open here")
    tiles = [s.tile(axis) for s in listed if s.tile(axis) >= extent]
    return min(tiles, default=1 << max(0, extent - 1).bit_length())
