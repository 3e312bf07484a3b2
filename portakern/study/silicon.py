"""The chip behind a target: what it has is the same in whichever language it is programmed.

Each language describes a device as far as it needs; the fullest description of an instruction set is taken for the hardware.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from portakern.backend import Target
from portakern.device import Device
from portakern.registry import registry


def family(isa: str) -> str:
    """An instruction set without the mark of code that runs on one chip alone: ``sm_90`` for ``sm_90a``."""
    match = re.fullmatch(r"(\w+_\d+)[af]", isa)
    return match[1] if match else isa


def silicon(target: Target) -> Device:
    """The instruction set of ``target`` with all that any language's description says of its hardware."""
    own = target.device
    told = described(own.vendor, own.kind, family(own.isa))
    return replace(own, features=told.features, figures={**told.figures, **own.figures}, matrix=told.matrix) if told else own


@cache
def described(vendor: str, kind: str, isa: str) -> Device | None:
    """The fullest description, with the figures of the others beside its own; ``None`` where there is none."""
    found = [
        d
        for language in registry().languages
        for d in registry().devices(language).values()
        if not d.product and (d.vendor, d.kind, family(d.isa)) == (vendor, kind, isa)
    ]
    if not found:
        return None
    best = max(found, key=lambda d: (len(d.features), len(d.figures)))
    figures = {name: figure for d in found for name, figure in d.figures.items()}
    return replace(best, figures={**figures, **best.figures})


def products(a: Target, b: Target) -> tuple[Device, Device]:
    """The products that stand for two targets: those asked for, else that of the other one where it is the same instruction
    set, so that a chip is not told apart from itself; else the default ones."""

    def of(target: Target, other: Target) -> Device:
        d = target.device
        if d.product:
            return d
        same = other.device.product if family(other.device.isa) == family(d.isa) else ""
        known = registry().devices(target.language)
        if same:
            return known.get(same, other.device)
        return known[d.default_product] if d.default_product else d

    return of(a, b), of(b, a)
