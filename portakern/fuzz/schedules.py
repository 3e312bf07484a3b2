"""Random legal schedules, many of them with tiles far smaller than the axis.

Programs here are small, and the tiles that backends list mostly cover their axes.  What goes wrong between two tiles, at a
ragged end or where parts are joined shows only where an axis has several, so the space that ``tune`` searches is made wider
by small tiles and by reductions in parts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.device import Device
from portakern.ir.schedule import Nest, NestAxis, Schedule, Value
from portakern.tuning.limits import refused
from portakern.tuning.space import WHOLE, NestSpace, nest_space

TRIES = 20
"""Random schedules that the device cannot hold before the default is taken."""

LISTED = 0.15
"""How often one of the backend's own schedules is taken; other times any of the wider space."""

LEAST = {"contraction": 16, "attention": 16, "chain": 16}
"""The smallest tile by family: what units of products multiply; 4 elsewhere."""

WALKED = {"attention": ("m", "n"), "chain": ("n",)}
"""Roles of axes by family along which something is carried from tile to tile, or that say where such a walk begins and ends;
those of all others are ``REDUCED``."""

REDUCED = ("reduced", "scanned", "k")

CUT = 0.6
"""How often such an axis is made to have several tiles."""

TOGETHER = 0.4
"""How often both axes of a walk are cut into the same tiles: there the ends of both meet."""

IN_PARTS = {"contraction": 0.35, "rows": 0.35, "attention": 0.35, "scan": 0.35}
"""How often several blocks share what is summed or walked, by family."""


def drawn_schedule(nest: Nest, listed: Sequence[Schedule], declared: Mapping[str, Sequence[Value]], device: Device,
                   rng: random.Random) -> Schedule:  # fmt: skip
    """A schedule of ``nest``: one of those ``listed`` by the backend, or of the space around them and what it ``declared``."""
    space = wider(nest_space(nest, listed, declared, device), device)
    points = (_point(space, rng) for _ in range(TRIES))
    return next((s for s in points if not refused(nest, s, device)), listed[0])


def wider(space: NestSpace, device: Device) -> NestSpace:
    """``space`` with tiles that cut an axis into a few pieces, or that one tile covers with room to spare."""
    choices = dict(space.choices)
    for axis in space.nest.axes:
        name = f"tile {axis.name}"
        most = max(int(v) for v in choices[name])
        whole = axis.role in WHOLE.get(space.nest.family, ())
        if most > 1 and not whole:  # an axis that is never tiled stays so
            least = LEAST.get(space.nest.family, 4)
            mine = {n for n in few_pieces(axis, odd=device.kind == "cpu") if least <= n <= 2 * most}
            choices[name] = tuple(sorted({*choices[name], *mine}))  # type: ignore[type-var]
    return replace(space, choices=choices)


def few_pieces(axis: NestAxis, odd: bool) -> set[int]:
    """Tiles that cut an axis into one to some twenty pieces: powers of two, and ``odd`` ones too where a loop may end
    anywhere."""
    if not isinstance(axis.extent, int):
        return {16, 32, 64}
    power = 1 << max(axis.extent - 1, 1).bit_length()  # covers it all
    found = {power >> n for n in range(5)}
    return found | {axis.extent // n + 1 for n in (2, 3, 5)} if odd else found


def _point(space: NestSpace, rng: random.Random) -> Schedule:
    if rng.random() < LISTED:
        return rng.choice(space.listed)
    values = {name: rng.choice(choices) for name, choices in space.choices.items()}
    walked = (*REDUCED, *WALKED.get(space.nest.family, ()))
    for axis in space.nest.axes:
        if axis.role in walked:
            tiles = space.choices[f"tile {axis.name}"]
            cut = rng.random() < CUT
            wanted = [n for n in tiles if (_pieces(axis, int(n)) > 1) == cut]
            values[f"tile {axis.name}"] = rng.choices(wanted or tiles, [_often(int(n)) for n in wanted or tiles])[0]
    both = [a for a in space.nest.axes if a.role in WALKED.get(space.nest.family, ())]
    if len(both) > 1 and rng.random() < TOGETHER:
        values |= _alike(space, both, rng)
    schedule = space.schedule(values)
    parts = _parts(space.nest, schedule, rng)
    return replace(schedule, options=tuple(sorted({**dict(schedule.options), "split_k": parts}.items()))) if parts else schedule


def _alike(space: NestSpace, axes: Sequence[NestAxis], rng: random.Random) -> dict[str, Value]:
    """One tile for all ``axes`` that cuts each of them, a power of two; none where there is none."""
    names = [f"tile {a.name}" for a in axes]
    shared = set.intersection(*(set(space.choices[n]) for n in names))
    tiles = sorted(int(n) for n in shared if _often(int(n)) > 1 and all(_pieces(a, int(n)) > 1 for a in axes))
    return dict.fromkeys(names, rng.choice(tiles)) if tiles else {}


def _often(tile: int) -> int:
    """Powers of two: ends of one axis meet those of another there, and what is one off is one tile off."""
    return 3 if tile & (tile - 1) == 0 else 1


def _parts(nest: Nest, schedule: Schedule, rng: random.Random) -> int:
    """Of the axis that is walked in tiles, as many as it has tiles at most; 0 where it stays in one."""
    if nest.steps != 1 or rng.random() >= IN_PARTS.get(nest.family, 0.0):  # steps have no parts
        return 0
    walked = nest.divided(dict(schedule.tiles))
    if walked is None:
        return 0
    most = min(_pieces(walked, schedule.tile(walked.name)), 4)
    return rng.randint(2, most) if most > 1 else 0


def _pieces(axis: NestAxis, tile: int) -> int:
    return -(-axis.extent // tile) if isinstance(axis.extent, int) else 4
