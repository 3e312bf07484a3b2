"""What the model of products' times says of schedules that ``benchmarks/choosing.py`` timed, and what is chosen by it today."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from portakern.backends.cuda.hopper.choosing import HOPPER, TILES_BY_WARPGROUPS
from portakern.backends.triton.schedule.hopper import BLOCKS, FEW_ROWS, PACE
from portakern.emit.product_time import Product
from portakern.ir.schedule import Schedule
from portakern.registry import registry

Entry = Mapping[str, Any]


def errors(entry: Entry) -> list[float]:
    """How far the model is off, as a share of each time: of those schedules whose tiles it knows."""
    found = []
    for number, texts in entry.get("schedules", {}).items():
        schedule = next((s for s in map(Schedule.parse, texts) if "k" in dict(s.tiles)), None)
        said = _microseconds(entry, schedule) if schedule is not None else None
        if said is not None and number in entry["times"]:
            found.append(abs(said / entry["times"][number] - 1))
    return found


def _microseconds(entry: Entry, s: Schedule) -> float | None:
    m, n, k = (entry["values"][x] for x in "MNK")
    device = registry().target(entry["target"]).device
    product = Product(m, n, k, 1, 2, device.count("units", 132), memory_kb=Product.memory(device))
    tile, parts = (s.tile("m"), s.tile("n"), s.tile("k")), int(s.option("split_k", 1))
    if m <= FEW_ROWS or n % 8 or k % 8 or s.option("cluster", ""):
        return None
    if entry["target"].startswith("cuda"):
        rates = {(t.shape, t.warps, t.stages): t.rate for t in TILES_BY_WARPGROUPS}
        rate = rates.get((tile, s.warps, s.stages))
        return None if rate is None else product.microseconds(HOPPER, tile, rate, parts)
    blocks = {((b.m, b.n, b.k), b.warps): b for b in BLOCKS}
    b = blocks.get((tile, s.warps))
    if b is None or s.option("descriptors", 0) == 0 or s.option("pack", ""):
        return None
    return product.microseconds(PACE, tile, b.rate, parts, b.at_once, b.latency)


def time_of(entry: Entry, schedule: Schedule) -> float | None:
    """What ``schedule`` took, or one that differs in the order of blocks alone; None where none was timed."""
    wanted = _plain(str(schedule))
    same = [us for n, us in entry["times"].items() if wanted in map(_plain, entry["schedules"][n])]
    return min(same, default=None)


def _plain(text: str) -> str:
    return re.sub(r",(group_m|programs|cluster|descriptors)=\w+|,split_k=1\b", "", text)
