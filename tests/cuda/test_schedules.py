"""The schedule spaces: filled, without repeats, and within what the device holds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import portakern as pk
from portakern.errors import MissingRuleError, ScheduleError
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.ir.size import Size, Sym
from portakern.registry import registry

pytestmark = pytest.mark.quick

CUDA = registry().language("cuda")
M = Sym.named("M")


def axis(name: str, role: str, extent: Size, contiguous: bool = False) -> NestAxis:
    return NestAxis(name, role, extent, contiguous)


def space(nest: Nest, device: str = "sm_90a") -> list[Schedule]:
    return list(CUDA.schedules(nest, registry().target(f"cuda:{device}").device))


def rows(extent: Size, reduced: Size, dtype: str = "bf16", live: int = 2) -> Nest:
    return Nest("rows", (axis("m", "parallel", extent), axis("n", "reduced", reduced, True)), dtype, "f32", live)


def product(m: Size, n: Size, k: Size, dtype: str) -> Nest:
    return Nest("contraction", (axis("m", "m", m), axis("n", "n", n), axis("k", "k", k)), dtype, "f32", dots=dtype)


def attention(length: Size, width: int, dtype: str) -> Nest:
    axes = (axis("b", "batch", 4), axis("m", "m", length), axis("n", "n", length), axis("k", "k", width), axis("d", "d", width))
    return Nest("attention", axes, dtype, "f32", dots=dtype)


NESTS = [
    Nest("elementwise", (axis("i", "parallel", 8192 * 8192, True),), "bf16", "f32"),
    Nest("elementwise", (axis("i", "parallel", 1, True),), "f64", "f64"),
    Nest("elementwise", (axis("a", "parallel", 3), axis("i", "parallel", M), axis("j", "parallel", 50, True)), "f32", "f32", 6),
    Nest("transpose", (axis("i", "source", 8192), axis("j", "target", 3)), "f64", "f64"),
    *(rows(m, n) for m, n in ((8192, 8192), (8, 128), (4, 1 << 20), (M, M), (1, 1), (8192, 1024))),
    Nest("rows", (axis("j", "parallel", 70, True), axis("i", "reduced", 33)), "f32", "f32"),
    Nest("rows", (axis("i", "reduced", 33, True),), "f32", "f32"),
    *(product(m, n, k, d) for d in ("bf16", "f16", "f32", "f64")
      for m, n, k in ((4096, 4096, 4096), (1, 8192, 99), (1, 1, 1), (M, 7, M))),
    *(attention(s, w, d) for d in ("bf16", "f32") for s, w in ((4096, 128), (17, 80), (512, 256))),
]  # fmt: skip


@pytest.mark.parametrize("device", ["sm_80", "sm_90a", "sm_100a", "sm_120"])
def test_every_nest_has_distinct_schedules_that_name_all_axes(device: str) -> None:
    for nest in NESTS:
        found = space(nest, device)
        assert found, nest
        assert len(set(found)) == len(found)
        for s in found:
            assert [name for name, _ in s.tiles] == [a.name for a in nest.axes]
            assert s.warps in (1, 2, 4, 8, 16) and all(tile >= 1 for _, tile in s.tiles)


@pytest.mark.parametrize(("length", "width", "tile"), [
    (8192, 32, (128, 64, 4)), (8192, 64, (128, 64, 4)), (8192, 128, (128, 64, 8)),
    (2048, 32, (64, 64, 4)),  # blocks of 128 rows would be fewer than the device's units
    (M, 32, (128, 64, 4)), (17, 80, (32, 32, 4)), (8192, 512, (32, 32, 4)),
])  # fmt: skip
def test_threads_of_f32_attention_make_8_by_8_scores_where_there_is_room(length: Size, width: int, tile: tuple) -> None:
    first = space(attention(length, width, "f32"), "sm_90a")[0]
    assert (first.tile("m"), first.tile("n"), first.warps) == tile


def test_a_row_is_taken_whole_where_it_fits_in_registers() -> None:
    assert space(rows(8192, 8192))[0].tile("n") == 8192
    assert space(rows(8192, 1000))[0].tile("n") == 1024
    assert space(rows(4, 1 << 20))[0].tile("n") < 1 << 20
    assert space(rows(4, 32768, live=8))[0].tile("n") < 32768


def test_a_long_row_of_which_nothing_is_needed_twice_is_walked() -> None:
    """Half of the threads that an SM may have, with 64 elements each, wait for memory together."""
    once = replace(rows(1 << 20, 32768, "f32"), again=False)
    assert space(once)[0].tile("n") == 8192 and space(replace(once, again=True))[0].tile("n") == 32768
    assert space(replace(rows(1 << 20, 16384, "f32"), again=False))[0].tile("n") == 16384


def test_warps_below_each_other_join_seldom_where_blocks_are_many() -> None:
    def columns(across: int, down: int, live: int = 2, compute: str = "f32") -> Schedule:
        axes = (axis("b", "parallel", 128), axis("n", "parallel", across, True), axis("m", "reduced", down))
        return space(Nest("rows", axes, "f32", compute, live, again=False))[0]

    assert (columns(4095, 4096).tile("n"), columns(4095, 4096).tile("m")) == (128, 128)
    for other in (columns(70, 4096), columns(4095, 100), columns(4095, 4096, live=3), columns(4095, 4096, compute="f64")):
        assert other.tile("n") * other.tile("m") < 128 * 128


def test_few_rows_are_spread_over_the_device() -> None:
    assert space(rows(100_000, 256))[0].tile("m") > 1
    assert space(rows(64, 256))[0].tile("m") == 1


def test_operands_fit_in_shared_memory() -> None:
    for device in ("sm_80", "sm_90a", "sm_120"):
        most = registry().target(f"cuda:{device}").device.count("shared_bytes_per_block")
        for s in space(product(4096, 4096, 4096, "bf16"), device):
            assert 2 * (s.tile("m") + s.tile("n")) * s.tile("k") * s.stages <= most


def test_small_products_take_small_tiles() -> None:
    assert space(product(4096, 4096, 4096, "bf16"))[0].tile("m") == 128
    assert space(product(256, 256, 256, "bf16"))[0].tile("m") < 128
    assert space(product(1, 1, 1, "bf16"))[0].tile("m") == 16


@pytest.mark.parametrize(("rows", "columns"), [(98, 512), (392, 256), (128, 480)])
def test_few_small_blocks_have_four_warps(rows: int, columns: int) -> None:
    """One warp would wait for all it copies; three quarters of the units are enough for a tile of twice the width."""
    taps = (axis("kh", "reduced", 3), axis("kw", "reduced", 3))
    nest = product(rows, columns, columns, "f32")
    first = space(replace(nest, axes=(*taps, *nest.axes)), "h200")[0]
    assert (first.tile("m"), first.tile("n"), first.warps) == (16, 32, 4)


# ---- few channels by many pixels ------------------------------------------------------------------------------------------


def pixels(channels: int, positions: Size, depth: int = 81, batch: int = 16, dtype: str = "f32", rounded: str = "ieee") -> Nest:
    axes = (axis("b", "batch", batch), axis("m", "m", channels), NestAxis("n", "n", positions, window="positions"),
            axis("k", "k", depth))  # fmt: skip
    return Nest("contraction", axes, dtype, "f32", live=3, dots=dtype, precision=rounded)


def tile(nest: Nest, device: str = "h200") -> tuple[int, ...]:
    first = space(nest, device)[0]
    return first.tile("m"), first.tile("n"), first.tile("k"), first.warps, first.stages


@pytest.mark.parametrize(("channels", "wanted"), [
    (64, (64, 128, 16, 4, 3)), (48, (64, 128, 16, 4, 3)), (32, (32, 256, 16, 4, 2)), (24, (32, 256, 16, 4, 2)),
    (16, (16, 256, 16, 4, 2)), (5, (16, 256, 16, 4, 2)), (128, (128, 128, 32, 8, 3)), (96, (128, 128, 32, 8, 3)),
])  # fmt: skip
def test_few_channels_by_many_pixels_take_short_steps_of_few_warps(channels: int, wanted: tuple[int, ...]) -> None:
    for depth in (27, 576, 3360):
        assert tile(pixels(channels, 45_360, depth)) == wanted
    assert tile(pixels(channels, M)) == wanted


def test_more_blocks_than_units_are_needed_for_short_steps() -> None:
    assert tile(pixels(64, 133 * 128, batch=1)) == (64, 128, 16, 4, 3)
    assert tile(pixels(64, 132 * 128, batch=1)) == (64, 128, 32, 4, 2)


def test_only_pixels_in_f32_take_them() -> None:
    for nest in (pixels(64, 45_360, dtype="bf16"), pixels(64, 45_360, rounded="tf32"), product(64, 725_760, 576, "f32")):
        assert tile(nest) != (64, 128, 16, 4, 3)
    assert tile(product(4096, 4096, 4096, "f32")) == (128, 128, 32, 8, 3)
    assert tile(pixels(64, 45_360), "sm_80") != (64, 128, 16, 4, 3), "its thirds are those of wgmma"


# ---- products on Hopper ---------------------------------------------------------------------------------------------------


def chosen(m: Size, n: Size, k: Size) -> tuple[int, int, int]:
    """Tile along m and n and the number of parts of the default for an H200."""
    first = space(product(m, n, k, "bf16"), "h200")[0]
    return first.tile("m"), first.tile("n"), int(first.option("split_k", 1))


def test_tiles_that_fill_whole_rounds() -> None:
    """4000 x 4104 is 528 tiles of 256 x 128, four for each of 132 SMs, and 544 of 128 x 256."""
    assert chosen(4096, 4096, 4096) == (128, 256, 1)
    assert chosen(4000, 4104, 4072) == (256, 128, 1)
    assert chosen(1024, 1024, 1024) == (64, 128, 1)


@pytest.mark.parametrize("size", [(256, 256, 16384), (512, 512, 8192), (128, 128, 4096)])
def test_few_tiles_and_a_long_sum_are_cut_into_parts(size: tuple[int, int, int]) -> None:
    m, n, k = size
    tm, tn, parts = chosen(*size)
    assert parts > 1 and m // tm * (n // tn) * parts <= 132, "more blocks than SMs"
    assert k // 64 // parts >= 4, "parts too short to fill a pipeline"


@pytest.mark.parametrize("size", [(4096, 4096, 16384), (256, 256, 256), (512, 512, 512), (M, 256, 16384), (256, 256, M)])
def test_other_products_are_not_cut(size: tuple[Size, Size, Size]) -> None:
    assert all(s.option("split_k", 1) == 1 for s in space(product(*size, "bf16"), "h200")[:1])


@pytest.mark.parametrize("n", [128, 1024, 4096, 8192, 14336, 100_000, M])
def test_a_row_times_a_matrix_takes_blocks_that_fit_at_once(n: Size) -> None:
    found = [s for s in space(product(1, n, 8192, "bf16"), "h200") if s.option("cluster", "auto") != "auto"]
    assert {s.warps for s in found} == {8, 16}
    for s in found:
        parts, at_once = int(str(s.option("cluster", ""))[2:]), 132 * (16 // s.warps)
        blocks = -(-n // s.tile("n")) * parts if isinstance(n, int) else 132 * parts
        assert parts == 1 or blocks <= at_once


@pytest.mark.parametrize("family", ["rows", "elementwise", "scan", "transpose"])
def test_results_of_streams_stay_in_cache_where_that_was_measured(family: str) -> None:
    roles = {"rows": ("parallel", "reduced"), "elementwise": ("parallel", "parallel"), "scan": ("parallel", "scanned"),
             "transpose": ("source", "target")}[family]  # fmt: skip
    nest = Nest(family, (axis("m", roles[0], 512), axis("n", roles[1], 512, True)), "bf16", "f32")
    assert {s.option("keep", "none") for s in space(nest)} == {"stores"}
    assert {s.option("keep", "none") for s in space(nest, "sm_80")} == {"none"}


@pytest.mark.parametrize(("dtype", "tile"), [("bf16", dict(m=8)), ("f16", dict(k=8)), ("f32", dict(n=4))])
def test_tiles_below_an_instruction_are_refused_before_they_are_compiled(dtype: str, tile: dict[str, int]) -> None:
    with pytest.raises(MissingRuleError, match=r"a product of \d+ x \d+ by \d+ x \d+ tiles"):
        pk.build("matmul", target="cuda:sm_80", dtype=dtype, M=64, N=64, K=64, schedule={"m": 16, "n": 16, "k": 16, **tile})


def test_lines_of_bytes_below_a_copy_are_refused_where_they_are_copied_whole() -> None:
    def product(x: pk.Tensor["M", "K", pk.i8], y: pk.Tensor["K", "N", pk.i8]):
        return pk.matmul(x, y, dtype=pk.i32)

    def turned(x: pk.Tensor["M", "K", pk.i8], y: pk.Tensor["N", "K", pk.i8]):
        return pk.matmul(x, y.T, dtype=pk.i32)

    tiles = dict(m=16, n=8, k=32)
    with pytest.raises(MissingRuleError, match="multiples of 16, 16 and 32"):
        pk.build(pk.operator(product), target="cuda:sm_80", M=64, N=64, K=64, schedule=tiles)
    assert pk.build(pk.operator(turned), target="cuda:sm_80", M=64, N=64, K=64, schedule=tiles).source  # lines along k


@pytest.mark.parametrize("tiles", [dict(m=16, n=256, k=128, stages=4, warps=4), dict(m=128, n=256, k=64, stages=5, warps=8)])
def test_operands_beyond_the_memory_of_a_block_are_refused_with_the_line(tiles: dict[str, int]) -> None:
    with pytest.raises(ScheduleError, match=r"matmul.py:\d+: matmul takes \d+ bytes of shared memory .* sm_90a has 232448"):
        pk.build("matmul", target="cuda:sm_90a", dtype="bf16", M=512, N=512, K=512, schedule=tiles)


@pytest.mark.parametrize(("size", "near"), [
    ((5120, 5120, 5120), [(128, 192, 1), (128, 256, 1)]), ((300, 14336, 4096), [(128, 192, 1)]),
    ((512, 1024, 16384), [(128, 128, 4)]), ((4096, 4096, 4096), [(128, 256, 1)]), ((2047, 2049, 2048), [(128, 192, 1)]),
])  # fmt: skip
def test_chosen_as_measured(size: tuple[int, int, int], near: list[tuple[int, int, int]]) -> None:
    """Within 5% of the best of the schedules that were timed on an H100 (benchmarks/choosing.py): (m, n, parts)."""
    first = space(product(*size, "bf16"), "h100-sxm")[0]
    assert (first.tile("m"), first.tile("n"), int(first.option("split_k", 1))) in near


def test_rows_that_are_neighbours_in_memory_are_summed_in_parts() -> None:
    """Few rows of a left operand that is stored by columns are no narrow product, and keep all units busy by parts."""
    nest = product(7, 4096, 14336, "bf16")
    first, narrow = space(replace(nest, turned=True), "h100-sxm")[0], space(nest, "h100-sxm")[0]
    assert (first.tile("m"), first.tile("n"), first.option("split_k", 1)) == (16, 128, 8)
    assert narrow.option("cluster", "")


def test_arrays_of_few_elements_are_spread_over_all_units() -> None:
    nest = Nest("elementwise", (axis("i", "parallel", 64), axis("j", "parallel", 128, True)), "f32", "f32")
    assert math.prod(size for _, size in space(nest, "h100-sxm")[0].tiles) == 128
