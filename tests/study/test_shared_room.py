"""Languages that are timed together live in one process where they may: what is imported and compiled there is so once."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.backend import Language
from portakern.registry import registry
from portakern.study import steps
from portakern.study.under_way import RowsUnderWay
from tests.study.test_timing import work_of


def languages(*names: str) -> list[Language]:
    return [registry().language(n) for n in names]


@pytest.mark.quick
def test_environments_are_joined_where_languages_say_that_they_may_live_together():
    joined = steps.shared_environment(languages("cpp", "numba"))
    assert joined is not None and steps.build_environment(registry().language("numba")).items() <= joined.items()
    assert steps.shared_environment(languages("cpp")) is None
    assert steps.shared_environment(languages("cpp", "opencl", "pallas")) is None


@pytest.mark.quick
def test_one_that_wants_another_value_stays_alone(monkeypatch: pytest.MonkeyPatch):
    wants = {"cpp": {"PK_X": "1"}, "numba": {"PK_X": "2"}, "cuda": {"PK_X": "1", "PK_Y": "3"}}
    monkeypatch.setattr("portakern.study.steps.environments.build_environment", lambda language: wants[language.name])
    assert steps.shared_environment(languages("cpp", "numba", "cuda")) == {"PK_X": "1", "PK_Y": "3"}
    assert steps.shared_environment(languages("cpp", "numba")) is None


@pytest.mark.quick
@pytest.mark.parametrize(("goal", "together"), [("timed", True), ("checked", False), ("compared", False)])
def test_rows_are_built_in_the_shared_room_only_where_all_are_timed(goal: str, together: bool):
    shared = steps.shared_environment(languages("cpp", "numba"))
    way = RowsUnderWay(goal, shared=shared)
    rooms = {way.begin(n, work_of("softmax", t, M=4, N=8)).room for n, t in enumerate(("cpp:cpu", "numba:cpu", "opencl:cpu"))}
    assert len(rooms) == (2 if together else 3)


def test_peers_are_compiled_once_for_two_targets():
    pytest.importorskip("torch")
    rows = pk.bench("row_sum", targets="cpp:cpu,numba:cpu", dtype="f32", shape={"M": 8, "N": 64}, against="torch.compile",
                    budget=0.05, store=False).rows  # fmt: skip
    first, second = ((r.time or {})["peers"][0] for r in rows)
    assert first["ratio"] and second["ratio"] and first["compile_s"] == second["compile_s"]
