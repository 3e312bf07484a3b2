"""What the plots show: kinds of marks, roofs, and where lines of a sweep cross."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from portakern.study.report.plots import drawing, roofline, sweeps, times
from portakern.study.report.roofs import Roof, least_us, roof_of
from portakern.study.row import Row
from tests.study.report.studies import study, sweep

pytestmark = pytest.mark.quick


def test_a_roof_is_the_lower_one_of_its_two_sides():
    roof = Roof("p", bandwidth=10.0, peak=100.0, copy=None, sources=())
    assert (roof.at(1.0), roof.at(10.0), roof.at(1000.0)) == (10.0, 100.0, 100.0)
    assert replace(roof, peak=None).at(1000.0) == 10_000.0
    assert replace(roof, bandwidth=None, peak=None, copy=5.0).at(2.0) == 10.0
    assert replace(roof, bandwidth=None, peak=None).at(2.0) is None


def test_every_row_that_can_has_a_mark_of_its_kind():
    rows = study().rows
    kinds = [[s.kind for s in roofline.spots_of(n, r)] for n, r in enumerate(rows)]
    assert kinds[0] == ["timed", "peer", "peer"]  # numba
    assert kinds[1] == ["bound"] and kinds[3] == ["estimated"]  # CUDA was not run, HIP has an estimate
    assert kinds[2] == ["bound"] and kinds[4] == []  # a wrong kernel has no speed


def test_no_mark_of_a_bound_or_estimate_is_above_what_the_product_can():
    for row in study().rows[1:4]:
        roof, (spot,) = roof_of(row), roofline.spots_of(0, row)
        assert roof is not None and (top := roof.at(spot.x)) is not None
        assert spot.y <= top * (1 + 1e-9)
        if spot.kind == "bound":
            assert spot.y == pytest.approx(top)


def test_lines_of_times_stand_in_the_rows_order_with_peers_below():
    (chart_lines,) = [[line for n, r in enumerate(study().rows) for line in times.lines_of(n, r)]]
    assert [(line.label.strip(), line.kind) for line in chart_lines] == [
        ("numba:cpu", "timed"), ("vs numpy", "peer"), ("vs torch.eager", "peer"), ("cuda:sm_90a", "bound"),
        ("triton:sm_90", "bound"), ("hip:gfx942", "estimated")]  # fmt: skip


def test_least_times_come_from_bytes_and_operations():
    row = study().rows[3]
    roof, cost = roof_of(row), row.cost
    assert roof is not None and roof.bandwidth and cost is not None
    assert least_us(row) == pytest.approx(1e6 * cost["bytes"] / roof.bandwidth)


def test_a_sweep_is_found_and_its_crossing_lies_between_the_sizes():
    rows = sweep({"numba:cpu": {64: 1.0, 128: 4.0, 256: 16.0}, "cpp:cpu": {64: 2.0, 128: 4.01, 256: 8.0}})
    (dim_rows,) = sweeps._groups(list(enumerate(rows)))
    assert dim_rows[1] == "M" and len(dim_rows[2]) == 6
    (crossing,) = sweeps.crossings(sweeps._lines("M", dim_rows[2])[0])
    assert (crossing.below, crossing.above, crossing.between) == ("numba:cpu", "cpp:cpu", (64, 256))
    assert 64 < crossing.size < 256 and crossing.size == pytest.approx(128, rel=0.01)


def test_nothing_crosses_where_intervals_overlap():
    rows = sweep({"numba:cpu": {64: 1.0, 128: 2.0, 256: 4.0}, "cpp:cpu": {64: 1.01, 128: 2.0, 256: 3.99}})
    (_, _, mine) = next(sweeps._groups(list(enumerate(rows))))
    assert list(sweeps.crossings(sweeps._lines("M", mine)[0])) == []


@pytest.mark.parametrize(("first", "second", "compared"), [
    ("cpp:cpu", "numba:cpu", True), ("cpp:cpu", "numpy (cpp:cpu)", True), ("cpp:cpu", "numpy (numba:cpu)", False),
    ("numpy (cpp:cpu)", "numpy (numba:cpu)", False), ("numpy (cpp:cpu)", "torch.eager (cpp:cpu)", True),
    ("cpp:cpu", "hip:gfx942 (estimate)", False), ("pallas:v6e (estimate)", "hip:gfx942 (estimate)", True)])  # fmt: skip
def test_times_cross_times_that_were_taken_together(first: str, second: str, compared: bool):
    assert sweeps._comparable(first, second) == sweeps._comparable(second, first) == compared


def test_two_sizes_make_no_sweep_and_peers_are_lines():
    rows = sweep({"numba:cpu": {64: 1.0, 128: 2.0}})
    assert list(sweeps._groups(list(enumerate(rows)))) == []
    rows = sweep({"numba:cpu": {64: 1.0, 128: 2.0, 256: 4.0}}, peers={64: 2.0, 128: 2.5, 256: 3.0})
    lines, unit = sweeps._lines("M", next(sweeps._groups(list(enumerate(rows))))[2])
    assert set(lines) == {"numba:cpu", "numpy (numba:cpu)"} and unit == "GB/s"


def test_a_row_is_in_one_sweep_only():
    rows = [Row("row_sum", "cpp:cpu", shape={"M": m, "N": n}, dtype="f32", evidence="timed", correct=True,
                time={"median_us": float(m * n)}) for m in (1, 2, 4, 8) for n in (1, 2, 4)]  # fmt: skip
    found = [n for _, _, mine in sweeps._groups(list(enumerate(rows))) for n, _ in mine]
    assert sorted(found) == list(range(12))


def test_a_drawing_stands_alone_and_knows_its_rows():
    pytest.importorskip("vl_convert", reason="vl-convert-python draws the plots")
    made = roofline.facets(study().rows)
    assert {t for f in made for t in f.targets} >= {"numba:cpu", "cuda:sm_90a", "hip:gfx942"}
    text = "".join(str(f.drawing) for f in made)
    assert not re.search(r"https?:|xlink|<a |<script", text)
    assert set(re.findall(r'data-row="(\d+)"', text)) == {"0", "1", "2", "3"}
    assert "<title>" in text and 'role="img"' in text
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', text)) - {"none"}
    assert all(c.startswith("var(--") for c in colours), colours  # one drawing for light and dark


@pytest.mark.parametrize(("low", "high", "ticks"), [(0.05, 20, [0.01, 0.1, 1.0, 10.0]), (1, 1, [1.0])])
def test_ticks_of_logarithmic_axes(low: float, high: float, ticks: list[float]):
    assert drawing.log_ticks(low, high) == pytest.approx(ticks)
