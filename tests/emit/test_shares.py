"""Into how many parts few long rows, and long sums of few products, are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portakern.device import Device
from portakern.emit.shares import in_parts, product_in_parts, row_parts
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.ir.size import Sym
from portakern.registry import registry

pytestmark = pytest.mark.quick


def _nest(rows: object, columns: object, passes: int = 2) -> Nest:
    axes = (NestAxis("m", "parallel", rows), NestAxis("n", "reduced", columns, contiguous=True))  # type: ignore[arg-type]
    return Nest("rows", axes, "bf16", "f32", passes=passes)


@pytest.fixture(scope="module")
def device() -> Device:
    return registry().target("cuda:h200").device


@pytest.mark.parametrize(("rows", "columns", "tile"), [(64, 200_704, 8192), (4, 1 << 22, 8192), (131, 1_000_000, 4096)])
def test_units_that_would_idle_get_parts(device: Device, rows: int, columns: int, tile: int) -> None:
    parts = row_parts(_nest(rows, columns), device, {"n": tile})
    assert rows * parts > 132 and parts * 4 <= -(-columns // tile)


@pytest.mark.parametrize(("rows", "columns"), [
    (4096, 1 << 20),  # all are busy
    (64, 8192),  # over before other kernels have begun
    (4, 16_384),  # too few tiles
    (0, 1 << 20), (4, 0),
    (Sym.named("M"), 1 << 20), (4, Sym.named("N")),
])  # fmt: skip
def test_other_rows_are_walked_by_one_block(device: Device, rows: object, columns: object) -> None:
    assert row_parts(_nest(rows, columns), device, {"n": 8192}) == 1


def test_both_ways_are_schedules_and_options_stay(device: Device) -> None:
    whole = Schedule((("m", 1), ("n", 8192)), warps=8, options=(("keep", "stores"),))
    first, second = in_parts([whole], _nest(4, 1 << 22), device)
    assert second == whole and replace(first, options=whole.options) == whole
    assert dict(first.options)["split_k"] > 1 and dict(first.options)["keep"] == "stores"  # type: ignore[operator]


def _product(m: object, n: object, k: object, dtype: str = "f32") -> Nest:
    axes = tuple(NestAxis(r, r, e) for r, e in zip("mnk", (m, n, k), strict=True))  # type: ignore[arg-type]
    return Nest("contraction", axes, dtype, "f32", dots=dtype)


TILES = tuple(Schedule((("m", m), ("n", m), ("k", 32)), 2, w) for m, w in ((16, 1), (128, 8), (64, 4)))
"""As backends list them for few tiles: first the one that gives every unit something."""


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_long_sums_of_few_products_are_cut_and_their_tiles_are_large(device: Device, dtype: str) -> None:
    found = product_in_parts(TILES, _product(256, 256, 1 << 19, dtype), device)
    assert found is not None and found.tile("m") == 128
    parts = int(found.option("split_k", 1))
    assert 100 <= 4 * parts <= 300 and parts * 4 <= (1 << 19) // 32


@pytest.mark.parametrize(("m", "n", "k"), [
    (4096, 4096, 1 << 19),  # all units are busy
    (256, 256, 256),  # over before another kernel has begun
    (256, 256, 64),  # too few steps
    (0, 256, 1 << 19), (256, 256, 0), (Sym.named("M"), 256, 1 << 19), (256, 256, Sym.named("K")),
])  # fmt: skip
def test_other_products_are_whole(device: Device, m: object, n: object, k: object) -> None:
    assert product_in_parts(TILES, _product(m, n, k), device) is None


def _convolution(pixels: object, channels: object, out: int, taps: object = 3, dtype: str = "f32") -> Nest:
    axes = (NestAxis("m", "m", pixels), NestAxis("n", "n", out), NestAxis("k", "k", channels),  # type: ignore[arg-type]
            NestAxis("kh", "reduced", taps, window="taps"), NestAxis("kw", "reduced", 3, window="taps"))  # type: ignore[arg-type]
    return Nest("contraction", axes, dtype, "f32", dots=dtype)


OVER_TAPS = tuple(replace(s, tiles=(*s.tiles, ("kh", 1), ("kw", 1))) for s in TILES)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("pixels", "channels"), [(98, 512), (392, 256), (196, 1024)])
def test_convolutions_of_few_pixels_share_out_their_channels(device: Device, pixels: int, channels: int, dtype: str) -> None:
    found = product_in_parts(OVER_TAPS, _convolution(pixels, channels, 512, dtype=dtype), device)
    assert found is not None
    parts = found.option("split_k", 1)
    assert isinstance(parts, int) and 1 < parts <= channels // found.tile("k"), "each part has some channels of every tap"


@pytest.mark.parametrize(("pixels", "channels", "taps"), [
    (100_352, 64, 3), (98, 32, 3), (Sym.named("M"), 512, 3), (98, Sym.named("C"), 3), (98, 512, Sym.named("T")),
])  # fmt: skip
def test_other_convolutions_are_whole(device: Device, pixels: object, channels: object, taps: object) -> None:
    assert product_in_parts(OVER_TAPS, _convolution(pixels, channels, 64, taps), device) is None


def test_a_sum_over_taps_and_groups_is_whole(device: Device) -> None:
    nest = _convolution(98, 512, 512)
    both = replace(nest, axes=(*nest.axes, NestAxis("g", "reduced", 4)))
    tiles = [replace(s, tiles=(*s.tiles, ("g", 1))) for s in OVER_TAPS]
    assert product_in_parts(tiles, nest, device) is not None and product_in_parts(tiles, both, device) is None


@pytest.mark.parametrize(("rows", "blocks"), [(1, 528), (4, 528), (16, 528), (64, 512), (100, 500)])
def test_parts_of_rows_end_together(device: Device, rows: int, blocks: int) -> None:
    """Four blocks for each of 132 units, where there is enough for them."""
    assert rows * row_parts(_nest(rows, 1 << 26), device, {"n": 8192}) == blocks
