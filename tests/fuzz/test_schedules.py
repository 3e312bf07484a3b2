"""Schedules that are drawn for a nest: legal ones, of several tiles, in parts, with tiles whose ends meet."""

from __future__ import annotations

from random import Random

import pytest

from portakern.fuzz.schedules import drawn_schedule
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.registry import registry

pytestmark = pytest.mark.quick

ATTENTION = Nest("attention", (NestAxis("m", "m", 96), NestAxis("n", "n", 160), NestAxis("k", "k", 32), NestAxis("d", "d", 32)),
                 "f32", "f32")  # fmt: skip
SCAN = Nest("scan", (NestAxis("m", "parallel", 4), NestAxis("n", "scanned", 1000)), "f32", "f32")


def drawn(nest: Nest, listed: Schedule, count: int = 120) -> list[Schedule]:
    device = registry().target("cpp:cpu").device
    return [drawn_schedule(nest, [listed], {}, device, Random(seed)) for seed in range(count)]


def test_attention_is_walked_in_parts_and_in_tiles_whose_ends_meet() -> None:
    found = drawn(ATTENTION, Schedule((("m", 64), ("n", 64), ("k", 32), ("d", 32))))
    assert sum(s.option("split_k", 1) > 1 for s in found) > 12  # type: ignore[operator]
    assert sum(s.tile("m") == s.tile("n") in (16, 32) for s in found) > 12
    assert all(s.option("split_k", 1) <= -(-160 // s.tile("n")) for s in found)  # type: ignore[operator]
    assert all(s.tile("k") >= 32 and s.tile("d") >= 32 for s in found)


def test_scans_are_walked_in_parts() -> None:
    found = drawn(SCAN, Schedule((("m", 1), ("n", 256))))
    assert sum(s.option("split_k", 1) > 1 for s in found) > 12  # type: ignore[operator]
