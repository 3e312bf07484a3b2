"""The whole search on planted times: what it finds, what it spends, what it drops, and how it goes on after an interrupt."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from portakern.errors import PortakernError
from portakern.ir.schedule import Schedule
from portakern.study.steps import Build
from portakern.tuned.database import Database
from portakern.tuning.racing import RUNGS
from portakern.tuning.tuner import Settings, Tuner, Tuning, over_resources
from tests.tuning.bench import Planted, work_of

BEST = "m=1,n=1024,stages=1,warps=8,keep=stores"


def planted(s: Schedule) -> float:
    """100 us at the default (n=2048, 8 warps), 80 at BEST, and slower the further away."""
    off = abs(s.tile("n").bit_length() - 11) + abs(s.warps.bit_length() - 4) + s.tile("m").bit_length() - 1
    return 80 * (1 + 0.25 * off)


def tune(lab: Planted, file: Path | None, seed: int = 0, **settings: object) -> Tuning:
    database = Database(file) if file is not None else None
    return Tuner(work_of(), lab, database, Settings(seed=seed, **settings)).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_the_planted_best_is_found_through_noise(tmp_path: Path, seed: int):
    lab = Planted(planted, noise=0.05, seed=seed)
    result = tune(lab, tmp_path / "t.sqlite", seed)
    assert result.best == BEST
    assert result.verdict == "FASTER" and result.stored
    assert result.ratio is not None and result.ratio[0] > 1.15
    work = work_of()
    assert work.key is not None
    entry = Database(tmp_path / "t.sqlite").find(work.key)
    assert entry is not None and str(entry.nests[0].schedule) == BEST
    assert entry.provenance["device"] == "a device that is not" and entry.provenance["verdict"] == "FASTER"


@pytest.mark.parametrize("proposer", ["exhaustive", "random", "tpe"])
def test_every_proposer_finds_it(proposer: str):
    if proposer == "tpe":
        pytest.importorskip("optuna")
    assert tune(Planted(planted), None, proposer=proposer).best == BEST


def test_a_processor_that_compiles_and_runs_alternates(tmp_path: Path):
    assert tune(Planted(planted, overlap=False), tmp_path / "t.sqlite").best == BEST


def test_nothing_is_kept_where_the_default_is_the_best(tmp_path: Path):
    default = "m=1,n=2048,stages=1,warps=8,keep=stores"
    result = tune(Planted(lambda s: 100.0 if str(s) == default else 130.0), tmp_path / "t.sqlite")
    assert not result.stored and result.best == result.default
    assert Database(tmp_path / "t.sqlite").entries() == ()


def test_differences_within_the_margin_are_not_kept(tmp_path: Path):
    result = tune(Planted(lambda s: 100.0 - 0.2 * (s.warps == 4), noise=0.01), tmp_path / "t.sqlite")
    assert not result.stored and result.verdict in ("SAME", "UNDECIDED", None)


def test_racing_spends_fewer_samples_than_equal_shares():
    lab = Planted(planted)
    result = tune(lab, None)
    equal = (result.compiled + 1) * sum(RUNGS)
    assert sum(lab.samples.values()) == result.samples
    searched = sum(n for s, n in lab.samples.items() if planted(Schedule.parse(s)) > 100)
    many = sum(planted(Schedule.parse(s)) > 100 for s in set(lab.compiled))
    assert searched < many * sum(RUNGS) / 3, "clearly slower candidates take a first rung and little more"
    assert result.samples < 2 * equal
    fastest = max(lab.samples, key=lambda s: lab.samples[s])
    assert planted(Schedule.parse(fastest)) <= 100


def test_everything_that_is_dropped_is_counted():
    lab = Planted(planted, wrong=lambda s: s.warps == 2, spills=lambda s: s.tile("n") == 512)
    result = tune(lab, None)
    after = ("wrong results", "spills registers")
    before = sum(n for reason, n in result.dropped.items() if reason not in after)
    assert result.proposed == before + result.compiled
    assert result.dropped["spills registers"] == sum("n=512" in s for s in lab.compiled)
    assert result.dropped["wrong results"] == sum("warps=2" in s and "n=512" not in s for s in lab.compiled) > 0
    assert any("over 3 times" in reason for reason in result.dropped)
    assert all("warps=2" not in s for s in lab.samples), "what is wrong is never timed"


def test_a_winner_that_fails_the_whole_check_is_not_kept(tmp_path: Path):
    lab = Planted(planted, subtle=lambda s: str(s) == BEST)
    result = tune(lab, tmp_path / "t.sqlite")
    assert BEST in lab.checked
    kept = Database(tmp_path / "t.sqlite").entries()
    assert all(str(n.schedule) != BEST for e in kept for n in e.nests)
    assert result.dropped["the whole check fails"] == 1
    if result.stored:  # the next one that beat the default
        assert result.best == lab.checked[-1] != BEST


def test_an_interrupt_keeps_the_trials_and_a_later_run_goes_on(tmp_path: Path):
    file = tmp_path / "t.sqlite"
    first = Planted(planted, interrupt_after=4)
    result = tune(first, file)
    assert result.interrupted and not result.stored
    assert result.best in first.compiled
    assert Database(file).entries() == ()
    slower = {t.schedule for t in result.tried if t.outcome == "slower"}
    assert slower
    second = Planted(planted)
    resumed = tune(second, file, resume=True)
    assert resumed.resumed > 0 and resumed.best == BEST and resumed.stored
    assert not slower & set(second.compiled), "what lost its race is not compiled again"
    third = Planted(planted)
    assert tune(third, file).resumed == 0, "without --resume everything is tried anew"


def test_trials_of_another_shape_are_not_taken_over(tmp_path: Path):
    file = tmp_path / "t.sqlite"
    tune(Planted(planted), file)
    other = Tuner(work_of(M=4096, N=8192), Planted(planted), Database(file), Settings(resume=True)).run()
    assert other.resumed == 0


def test_a_default_that_does_not_run_ends_the_search():
    with pytest.raises(PortakernError, match="another result"):
        tune(Planted(planted, wrong=lambda s: True), None)


def test_resources_against_the_default():
    assert over_resources({"spills": 200}, {"spills": 0}) == "spills registers"
    assert over_resources({"spills": 200, "scratch_bytes": 0}, {"spills": 190}) == ""
    assert over_resources({"occupancy": 0}, None) == "does not fit on a unit"
    assert over_resources(None, None) == ""


class Estimated(Planted):
    """The same where nothing is timed; ``die_after`` is how many candidates are built before the process is killed."""

    die_after: int | None = None

    def builds(self, first, follow):  # type: ignore[no-untyped-def]
        for candidate, made in super().builds(first, follow):
            if self.die_after is not None and len(self.compiled) > self.die_after:
                os.kill(os.getpid(), signal.SIGKILL)
            us = planted(self.schedules[candidate.name])
            estimate = None if us == 140 else {"us": us}
            yield candidate, Build(made.row.but(estimate=estimate), made.source, "key", "simulator")


def killed(file: Path) -> None:
    lab = Estimated(planted)
    lab.die_after = 20
    Tuner(work_of(), lab, Database(file), by="estimate").run()


def test_a_search_by_estimate_goes_on_after_it_was_killed(tmp_path: Path):
    file = tmp_path / "t.sqlite"
    child = multiprocessing.get_context("spawn").Process(target=killed, args=(file,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL and Database(file).entries() == ()
    lab = Estimated(planted)
    result = Tuner(work_of(), lab, Database(file), Settings(resume=True), by="estimate").run()
    assert result.best == BEST and result.stored and result.resumed >= 12
    behind = {t.schedule for t in result.tried if (t.relative or 0) > 1}
    assert behind - set(lab.compiled), "what was estimated behind the default is not compiled again"
    assert any(t.detail.get("error") == "no estimate" for t in result.tried), "which ends nothing"


def test_tuning_by_estimate_is_marked(tmp_path: Path):
    file = tmp_path / "t.sqlite"
    result = Tuner(work_of(), Estimated(planted), Database(file), by="estimate").run()
    assert result.best == BEST and result.stored and result.samples == 0
    (entry,) = Database(file).entries()
    assert entry.by == "estimate"
