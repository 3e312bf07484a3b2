"""Plans of models that are really made: profiled where the device is here, compiled and bounded where not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import portakern as pk  # noqa: E402
from portakern.cli import main  # noqa: E402
from portakern.errors import MissingRuleError, UsageError  # noqa: E402
from portakern.ir import oracle  # noqa: E402
from portakern.model_study import making  # noqa: E402
from portakern.model_study.profile import Profile, Use, _Session  # noqa: E402
from portakern.model_study.remarks import remarks  # noqa: E402
from portakern.model_study.roof import Roof  # noqa: E402
from portakern.registry import registry  # noqa: E402
from portakern.study import steps  # noqa: E402
from portakern.study.work import like_typical, works  # noqa: E402
from portakern.timing.measure import Options  # noqa: E402
from tests.model_study import small_models  # noqa: E402

FILE = str(Path(small_models.__file__))


@pytest.fixture(scope="module", autouse=True)
def briefly() -> Iterator[None]:
    """Times are taken, and nobody asks how well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "PROFILE", {"budget_s": 0.02, "min_samples": 5})
        yield


@pytest.fixture(scope="module")
def two_targets(briefly: None) -> Any:
    return pk.model(*small_models.blocks()).plan("cpp:cpu,hip:gfx942")


def test_a_device_that_is_here_is_profiled(two_targets: Any):
    plan = two_targets.plan("cpp:cpu")
    assert plan.error is None and plan.evidence == "timed" and plan.basis == "time"
    assert [(r.name.partition(" ")[0], r.count) for r in plan.rows] == [
        ("blocks.{0-2}.up", 3), ("blocks.{0-2}.down", 3), ("head", 1)]  # fmt: skip
    assert plan.whole["median_us"] > 0 and plan.launches == 7 and plan.floor is not None
    assert "in float64" in plan.checked and all("in float64" in r.row.method for r in plan.rows)
    assert plan.roof.bandwidth is not None and "copy" in plan.roof.bandwidth.source


def test_a_device_that_is_not_here_has_no_time(two_targets: Any):
    plan = two_targets.plan("hip:gfx942")
    assert plan.basis != "time" and plan.whole is None and all(r.row.time is None for r in plan.rows)
    assert "MI300X" in plan.device and plan.roof.says == f"stated for {plan.device}"
    assert sum(r.needs.flops * r.count for r in plan.rows) == two_targets.needs.flops


def profiled(asked: Any) -> making._Plan:
    """A plan as it is after a profile whose kernels gave what the oracle gives, each in a microsecond."""
    op = asked.operator
    (work,) = works(like_typical(op, {}, {}), registry().match("cpp:cpu"), ["f32"])
    plan = making._Plan(op, work, {})
    count = len(plan.begin(0))
    plan.built = {n: steps.Build(work.row.but(evidence="compiled", method="compiled")) for n in plan.first.values()}
    outputs = oracle.evaluate(op.program(), op.example_arrays())
    plan.profile = Profile({"median_us": 10.0}, ({"median_us": 1.0},) * count, outputs, "a device", Roof())
    return plan


@pytest.mark.quick
def test_a_right_result_has_times():
    asked = pk.model(*small_models.blocks())
    plan = profiled(asked).finished(asked._reference(), Roof())
    assert plan.error is None and plan.evidence == "timed" and plan.total("time") == 7.0


@pytest.mark.quick
@pytest.mark.parametrize(("expected", "kind"), [
    (making.Expected({"out": np.full((4, 5), 3.0)}), "incorrect"),
    (making.Expected({}, {"out": np.full((4, 5), 3.0)}), "incorrect"),
    (making.Expected(), "not-checked"),
])  # fmt: skip
def test_a_result_that_is_wrong_or_was_compared_with_nothing_has_no_time(expected: making.Expected, kind: str):
    plan = profiled(pk.model(*small_models.blocks())).finished(expected, Roof())
    assert plan.error is not None and plan.error["kind"] == kind
    assert plan.whole is None and plan.basis != "time" and all(r.row.time is None for r in plan.rows)
    assert plan.evidence == "compiled"


@pytest.mark.quick
@pytest.mark.parametrize("train", [False, True])
def test_work_on_weights_alone_is_in_no_figure_where_it_is_done_once(train: bool):
    asked = pk.model(*small_models.convolved(), train=train)
    plan = profiled(asked).finished(asked._reference(), Roof())
    assert (plan.prepared, sum(r.count for r in plan.rows if r.weights_only)) == ((0, 1) if train else (2, 0))
    said = " ".join(remarks(replace(plan, whole=None)))
    assert ("2 kernels on weights alone, in no figure here" in said) != train
    assert ("which could be done once" in said) == train


def test_a_profile_prepares_weights_first():
    plan = pk.model(*small_models.convolved()).plan("cpp:cpu").plan("cpp:cpu")
    assert plan.error is None and plan.evidence == "timed" and plan.prepared == 2 and plan.launches == 4


@pytest.mark.quick
def test_what_random_numbers_reach_is_held_against_the_oracle():
    expected = pk.model(torch.nn.Dropout(0.5), torch.ones(3, 8), train=True)._reference()
    assert not expected.by_module and set(np.unique(expected.by_oracle["out"])) == {0.0, 2.0}


def test_pieces_by_themselves_are_timed_on_what_queues():
    """What a GPU's profile does, here on the host."""
    op = pk.from_torch(*small_models.recurrent())
    (work,) = works(like_typical(op, {}, {}), registry().match("cpp:cpu"), ["f32"])
    plan = making._Plan(op, work, {})
    jobs = plan.begin(0)
    built = [_done(job) for job in jobs]
    whole = _done(plan._build(0, making.WHOLE, plan.program))  # type: ignore[arg-type]
    order = list(plan.first.values())
    uses = [Use(order.index(plan.first[p.key]), p.arrays) for p in plan.pieces]
    session = _Session(plan.program, whole, built, uses, op.example_arrays())  # type: ignore[arg-type]
    session._run()
    figures = session._by_themselves(Options(budget_s=0.02, min_samples=5, cache="warm"))
    assert len(figures) == len(built) and all(f["median_us"] > 0 and f["samples"] >= 5 for f in figures)


def _done(task: Any) -> steps.Build:
    from portakern.model_study.building import build

    assert task.job.function == "portakern.model_study.building:build"
    made = build(*task.job.args)
    assert made.row.error is None, made.row.error
    return made


@pytest.mark.quick
def test_what_cannot_be_imported_is_said_with_its_line():
    with pytest.raises(MissingRuleError, match=r"aten\.nonzero.*small_models\.py:\d+"):
        pk.model(*small_models.refused())
    with pytest.raises(UsageError, match="not int"):
        pk.model(3, ())


@pytest.mark.quick
@pytest.mark.parametrize(("asked", "says"), [
    (f"{FILE}:blockz", "did you mean blocks"),
    ("nowhere.py:f", "there is no file nowhere.py"),
    ("blocks", "FILE.py:FACTORY"),
    (f"{FILE}:a_number", "gives int, not a module"),
    (f"{FILE}:MODELS", "has no function"),
])  # fmt: skip
def test_bad_usage(capsys: pytest.CaptureFixture[str], asked: str, says: str):
    assert main(["plan", asked, "--targets", "cpp:cpu"]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.quick
def test_a_factory_that_fails_and_a_target_that_is_none(capsys: pytest.CaptureFixture[str]):
    assert main(["plan", f"{FILE}:broken", "--targets", "cpp:cpu"]) == 1
    assert "the factory's own fault" in capsys.readouterr().err
    assert main(["plan", f"{FILE}:broken", "--targets", "cpp:gpu"]) == 2
    assert "cpp has no device 'gpu'" in capsys.readouterr().err


def test_the_command_writes_all_its_forms(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    page, data = tmp_path / "p.html", tmp_path / "p.json"
    assert main(["plan", f"{FILE}:blocks", "--targets", "cpp:cpu", "--html", str(page), "--json", str(data)]) == 0
    assert "blocks.{0-2}.up (small_models.py:" in capsys.readouterr().out
    assert "blocks.{0-2}.up" in page.read_text() and json.loads(data.read_text())["plans"][0]["evidence"] == "timed"
