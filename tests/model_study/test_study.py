"""What a study says: shares and gains, each kind of figure apart from the others, and text that fits."""

from __future__ import annotations

import json
import re

import pytest

from portakern.model_study.roof import Bound, Needs, Part, Peak, Roof, bound, higher
from portakern.model_study.study import KernelRow, ModelStudy, TargetPlan
from portakern.study.row import Row

pytestmark = pytest.mark.quick

ROOF = Roof(Peak(1e9, "a test"), {"peak_f32": Peak(1e12, "a test")}, "stated for a test")
WHOLE = {"median_us": 200.0, "ci_low_us": 199.0, "ci_high_us": 201.0, "launch_us": 40.0, "end_to_end_us": 230.0}


def kernel(name: str, us: float, count: int = 1, basis: str = "time", least: float = 10.0, what: str = "contraction",
           launches: int = 1, weights: bool = False) -> KernelRow:  # fmt: skip
    row = Row("model", "cpp:cpu", evidence="timed" if basis == "time" else "compiled",
              time={"median_us": us} if basis == "time" else None, estimate={"us": us} if basis == "estimate" else None)
    needs = Needs((Part(int(least * 1e3), 1000, "peak_f32"),))
    return KernelRow(f"{name} (m.py:3)", ((f"{name} (m.py:3)", count),), what, 1, (name,), count, launches, needs,
                     Bound(least, "memory"), weights, row)  # fmt: skip


def plan(*rows: KernelRow, target: str = "cpp:cpu", **more: object) -> TargetPlan:
    return TargetPlan(target, "a device", rows, 7, floor=Bound(5.0, "memory"), roof=ROOF, **more)  # type: ignore[arg-type]


def study(*plans: TargetPlan) -> ModelStudy:
    return ModelStudy("model", "x f32[4]", plans, Needs((Part(100, 50, "peak_f32"),)), 64)


def test_shares_count_every_layer():
    p = plan(kernel("up", 20.0, 4), kernel("head", 20.0))
    assert [p.share(r) for r in p.rows] == [0.8, 0.2]
    assert p.total() == 100.0
    assert [r.name for r in p.ranked] == ["up (m.py:3)", "head (m.py:3)"]


def test_gains_are_amdahls_and_of_the_whole_call_where_that_is_known():
    rows = kernel("up", 40.0, 2), kernel("head", 20.0)
    assert plan(*rows).gain(rows[:1]) == pytest.approx(100 / 40)
    assert plan(*rows, whole=WHOLE).gain(rows[:1]) == pytest.approx(200 / 140)
    assert plan(*rows, whole=WHOLE).gain(rows) == pytest.approx(200 / 130)


def test_a_kernel_at_its_roof_gains_nothing_and_one_below_it_does_not_lose():
    at, cached = kernel("at", 10.0), kernel("cached", 4.0)
    p = plan(at, cached)
    assert p.gain([at]) == p.gain([cached]) == 1.0


def test_a_bound_alone_promises_no_gain():
    p = plan(kernel("up", 0.0, basis="bound"))
    assert p.basis == "bound" and p.gain(p.rows) is None and p.total() == 10.0


def test_times_rank_before_estimates_only_where_all_kernels_have_them():
    assert plan(kernel("a", 1.0), kernel("b", 1.0)).basis == "time"
    mixed = plan(kernel("a", 1.0), kernel("b", 1.0, basis="estimate"))
    assert mixed.basis == "estimate" and mixed.total() == 1.0 and mixed.unknown() == 1


def test_an_estimate_or_a_bound_is_never_where_a_time_belongs():
    told = study(plan(kernel("up", 33.0, basis="estimate")), plan(kernel("up", 0.0, basis="bound"), target="cuda:h200"))
    for text in (told.table(width=120), told.table(width=80)):
        assert "time us" not in text and "kernels us" not in text and "whole call" not in text
        assert not re.search(r"(?<![~=\d.])33\.0", text)  # an estimate has its sign wherever it stands
        assert "~33.00" in text and ">=10.00" in text
    page = told.to_html()
    assert '<td class="estimate">~33.00</td>' in page and "<td>~33" not in page


def test_the_host_is_told_apart_from_the_device():
    text = " ".join(study(plan(kernel("up", 150.0), whole=WHOLE)).table(width=120).split())
    assert "a call takes 200.0 us [199.0, 201.0]; its kernels one by one 150.0 us" in text
    assert "the rest 50.00 us (25%)" in text and "the host is busy for 40.00 us" in text and "and back, 230.0 us" in text
    assert "is known where the device is" in study(plan(kernel("up", 1.0, basis="estimate"))).table()


@pytest.mark.parametrize("width", [80, 100, 132])
@pytest.mark.parametrize("basis", ["time", "estimate", "bound"])
def test_text_fits_the_terminal(width: int, basis: str):
    names = [f"encoder.layers.{{0-11}}.a_long_name_of_a_module_{n}" for n in range(1, 30)]
    rows = [kernel(name, 123456.7 + n, 12, basis, launches=65) for n, name in enumerate(names)]
    whole = WHOLE if basis == "time" else None
    plans = [plan(*rows, target=t, whole=whole) for t in ("cpp:cpu", "triton:gfx1201", "pallas:v6e")]
    text = study(*plans).table(rows=5, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "24 more, all of them" in text


def test_places_put_layers_together_and_targets_side_by_side():
    text = study(plan(kernel("up", 10.0, 3)), plan(kernel("up", 5.0, basis="estimate"), target="hip:gfx942")).table(width=100)
    line = next(x for x in text.splitlines() if x.startswith("up"))
    assert line.split() == ["up", "(m.py:3)", "30.00", "100%", "~5.000", "100%"]


def test_what_a_performance_engineer_looks_for_is_said():
    p = plan(kernel("pack", 30.0, what="copy", weights=True), kernel("move", 20.0, what="copy"), kernel("fc", 50.0),
             rereads=20_000)  # fmt: skip
    text = " ".join(study(p).table(width=132).split())
    assert "30% of the time is work on weights alone" in text and "20% of the time is copies" in text
    assert "67% of the bytes are arrays read by a third kernel" in text


def test_json_has_every_figure():
    told = json.loads(study(plan(kernel("up", 40.0, 2), whole=WHOLE)).to_json())
    (entry,) = told["plans"]
    assert entry["basis"] == "time" and entry["evidence"] == "timed" and entry["whole"]["median_us"] == 200.0
    assert entry["roof"]["bandwidth"] == {"value": 1e9, "source": "a test"}
    (row,) = entry["rows"]
    assert row["time"] == {"median_us": 40.0} and row["estimate"] is None
    assert row["roofline"] == {"us": 10.0, "limiter": "memory"}
    assert row["gain"] == pytest.approx(200 / 140) and row["share"] == 1.0 and row["places"] == {"up (m.py:3)": 2}


# ---- rooflines -----------------------------------------------------------------------------------------------------------


def test_a_bound_is_the_longer_of_memory_and_arithmetic_of_each_part():
    memory, arithmetic = Part(2000, 0, "peak_f32"), Part(0, 3_000_000, "peak_f32", 2)
    assert bound(Needs((memory,)), ROOF) == Bound(2.0, "memory")
    assert bound(Needs((arithmetic,)), ROOF) == Bound(6.0, "arithmetic")
    both = bound(Needs((memory, arithmetic)), ROOF)
    assert both == Bound(8.0, "arithmetic")


def test_an_unknown_peak_bounds_nothing_and_an_unknown_bandwidth_gives_no_bound():
    assert bound(Needs((Part(1000, 10**12, "peak_bf16"),)), ROOF) == Bound(1.0, "memory")
    assert bound(Needs((Part(1000, 1, "peak_f32"),)), Roof()) is None
    text = study(plan(KernelRow("a", (("a", 1),), "rows", 1, ("a",), 1, 1, Needs((Part(1000, 9, "peak_bf16"),)),
                                Bound(1.0, "memory"), False, Row("m", "t", evidence="compiled")))).table()  # fmt: skip
    assert "no bf16 peak is known" in " ".join(text.split())


def test_what_was_reached_once_can_be_reached():
    other = Roof(Peak(5e8, "b"), {"peak_f32": Peak(2e12, "b"), "peak_f64": Peak(1e11, "b")})
    found = higher(ROOF, other)
    assert found.bandwidth == Peak(1e9, "a test")
    assert found.peaks == {"peak_f32": Peak(2e12, "b"), "peak_f64": Peak(1e11, "b")}
