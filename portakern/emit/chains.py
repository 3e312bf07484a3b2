"""Schedules of products that others are made of, by those of an attention that is as large as all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from portakern.ir.schedule import Nest, NestAxis, Schedule

WHOLE = ("k", "kd", "d")
"""Roles of axes that a tile covers."""


def like_attention(nest: Nest, attention: Callable[[Nest], Iterable[Schedule]]) -> Iterator[Schedule]:
    """Schedules of the chain ``nest``: those that ``attention`` lists for one whose features are those of all products, so that
    operands and sums have room, without its options.  Tiles of features are those that it gives to each by itself."""
    whole = [a for a in nest.axes if a.role in WHOLE]
    alone = {a.name: next(iter(attention(_attention(nest, [a], [a]))), None) for a in whole}
    k, d = ([a for a in whole if role in a.role] for role in "kd")
    if not all(alone.values()) or not k:
        return
    d = d or k[:1]
    for found in attention(_attention(nest, k, d)):
        tiles = {a.name: found.tile(a.name) for a in nest.axes if a.role in ("m", "n")}
        tiles |= {name: s.tile(_name("k")) for name, s in alone.items() if s is not None}
        yield Schedule(tuple((a.name, tiles.get(a.name, 1)) for a in nest.axes), found.stages, found.warps)


def _attention(nest: Nest, k: Sequence[NestAxis], d: Sequence[NestAxis]) -> Nest:
    """The attention with all the features of ``k`` and of ``d``."""
    axes = [replace(a, role="batch") if a.role == "reduced" else a for a in nest.axes if a.role not in WHOLE]
    return replace(nest, family="attention", axes=(*axes, _together("k", k), _together("d", d)))


def _together(role: str, axes: Sequence[NestAxis]) -> NestAxis:
    total = axes[0].extent
    for a in axes[1:]:
        total = total + a.extent
    return NestAxis(_name(role), role, total)


def _name(role: str) -> str:
    """What no dim of an operator is called."""
    return f"all {role}"
