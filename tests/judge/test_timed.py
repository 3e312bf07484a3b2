"""What was correct when checked is correct when timed, and the clock of record is ours."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest

from portakern.errors import PortakernError
from portakern.referee import process as referee_process
from portakern.referee.secret import Secret
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import apart, steps, timing
from portakern.study.plausible import DISTURBED, Claim, Group, at_least, consistent, floors
from portakern.study.row import Row
from portakern.study.steps import Build
from portakern.study.work import Foreign, Problem, Work, works
from portakern.timing.roofline import Copy
from tests.judge.attacks import cpp, numba
from tests.judge.judges import undisturbed
from tests.judge.timed_attacks import TIMED, TimedAttack
from tests.tools.test_waiting import busy

OPTIONS = {"budget_s": 0.2, "warm_up_s": 0.02}


def asked(target: str, text: str, secret: Secret | None = None) -> Work:
    foreign = Foreign(text, None, "auto", 4 << 30, secret or Secret.drawn())
    (work,) = works(Problem(load_operator("row_sum"), {"M": 16, "N": 32}, {}), [registry().target(target)], ["f32"],
                    foreign=foreign)  # fmt: skip
    return work


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be believed is not tried for as long as elsewhere."""
    monkeypatch.setattr(apart, "ROUNDS_S", 2.0)
    monkeypatch.setattr(apart, "TRIES", 1)


@functools.cache
def built(target: str, text: str) -> Build:
    """Some are timed by several tests."""
    return steps.build(asked(target, text))


def timed_once(target: str, text: str, against: Sequence[str] = (), **options: object) -> Row:
    made = built(target, text)
    assert made.row.error is None, made.row.error
    return timing.time(asked(target, text), made, against, options={**OPTIONS, **options})


def timed(target: str, text: str, against: Sequence[str] = (), **options: object) -> Row:
    return undisturbed(lambda: timed_once(target, text, against, **options))


def each(slow: bool):
    return [pytest.param(a, id=a.name) for a in TIMED if a.slow == slow]


def judged(attack: TimedAttack) -> None:
    if attack.target.startswith("sycl"):
        pytest.importorskip("pyopencl")
    row = (timed_once if DISTURBED in attack.kind else timed)(attack.target, attack.text)
    if not attack.kind:
        assert row.time is not None, row.error
        return
    assert row.error is not None and row.time is None, row
    assert row.error["kind"] in attack.kind.split("|") and attack.says in row.error["message"], row.error


@pytest.mark.parametrize("attack", each(slow=False))
def test_nothing_is_gained_by_knowing_that_one_is_timed(attack: TimedAttack):
    judged(attack)


@pytest.mark.slow
@pytest.mark.parametrize("attack", each(slow=True))
def test_nor_by_other_ways(attack: TimedAttack):
    judged(attack)


@pytest.mark.parametrize("cache", ["cold", pytest.param("warm", marks=pytest.mark.slow)])
def test_an_honest_kernel_is_timed_by_both_clocks(cache: str):
    row = timed("cpp:cpu", cpp("honest(x, out);"), cache=cache)
    assert row.error is None and row.time is not None and row.evidence == "timed", row.error
    seen = row.time["judged"]
    assert seen["us"] > 0 and seen["in_part"] > 0 and seen["wholly"] > 0


def test_a_machine_that_is_busy_is_no_fault_of_the_kernel(monkeypatch: pytest.MonkeyPatch):
    """Both processes have one processor, with one that never rests."""
    monkeypatch.setattr(apart, "ROUNDS_S", 0.3)
    with busy(1):
        row = timed_once("cpp:cpu", cpp("honest(x, out);"))
    assert row.error is None or row.error["kind"] == DISTURBED, row.error


def test_a_row_has_nothing_of_a_kernels_making_but_figures():
    row = timed("numba:cpu", next(a.text for a in TIMED if a.name == "of-its-own-making"), against=("numpy",))
    assert row.time is not None, row.error
    told = str(row.time)
    assert len(told) < 200_000 and "forged" not in told and "\x1b" not in told and "deep" not in told
    assert not {"coverage", "more"} & set(row.time) and len(row.time["mode"]) < 400
    row = row.but(correct=True)  # which this test did not ask for
    assert row.time is not None and 0 < row.reward("speedup") < 100 and row.reward("share_of_roof") < 0.9
    assert row.reward("kernelgym", coverage=None, weight=1.0) <= row.reward("kernelgym", coverage=0.0, weight=1.0)
    (peer,) = row.time["peers"]
    assert peer["samples"] == row.time["samples"]


APART = """
import portakern.study.inside as inside
inside.Inside.in_place = property(lambda self: False)
count = [0]
"""


@pytest.mark.parametrize(("body", "says"), [
    ("", ""), pytest.param("count[0] += 1\nif count[0] > 250:\n    out[:] = out[0]", "elements wrong", marks=pytest.mark.slow)])
def test_arrays_of_a_device_are_exchanged_through_those_that_both_see(body: str, says: str):
    """As if this processor had memory of its own."""
    row = timed("numba:cpu", numba(body, APART))
    if says:
        assert row.error is not None and row.error["kind"] == "unstable" and says in row.error["message"], row.error
    else:
        assert row.time is not None and row.time["judged"]["in_part"] > 0, row.error


def test_no_process_that_holds_the_kernel_is_told_the_secret(monkeypatch: pytest.MonkeyPatch):
    told: list[bytes] = []
    send = referee_process.send

    def listening(to, body, blobs=(), descriptors=()):
        told.append(repr(body).encode())
        told.extend(blobs)
        send(to, body, blobs, descriptors)

    monkeypatch.setattr(referee_process, "send", listening)
    secret = Secret.drawn()
    work = asked("cpp:cpu", cpp("honest(x, out);"), secret)
    made = steps.build(work)
    assert steps.check(work, made).correct
    assert undisturbed(lambda: timing.time(work, made, options=OPTIONS)).time is not None
    derived = [secret.other(use).text for use in ("check", "memory", "timing")]
    assert len(told) > 20 and not any(s.encode() in t for t in told for s in (secret.text, *derived))


# ---- floors

FIGURES = {"samples_us": [1.0, 2.0, 3.0], "median_us": 2.0, "ci_low_us": 1.5, "ci_high_us": 2.5, "calls_per_sample": 1}


@pytest.mark.quick
def test_figures_that_do_not_fit_together_are_refused():
    assert consistent(FIGURES, 1.0) == 2.0
    for wrong in ({"samples_us": [0.0]}, {"samples_us": []}, {"median_us": 1.0}, {"ci_low_us": -1.0}, {"median_us": True},
                  {"samples_us": [2e6], "median_us": 2e6, "ci_low_us": 2e6, "ci_high_us": 2e6}):  # fmt: skip
        with pytest.raises(PortakernError, match="not that of its work"):
            consistent({**FIGURES, **wrong}, 1.0)


@pytest.mark.quick
@pytest.mark.parametrize(("groups", "stolen", "kind"), [
    ([(500, 480), (140, 0)], False, ""), ([(500, 0), (400, 0)], False, "implausible-timing"),
    ([(500, 0), (400, 300)], False, DISTURBED), ([(500, 0), (400, 100)], False, "implausible-timing"),
    ([(500, 0)], True, DISTURBED)])  # fmt: skip
def test_waiting_for_a_processor_is_not_called_a_lie_and_excuses_nothing(groups: list[tuple[float, float]], stolen: bool,
                                                                        kind: str):  # fmt: skip
    def hold() -> None:
        Claim(100.0, 10.0).hold([Group(*g) for g in groups], stolen)

    if not kind:
        return hold()
    with pytest.raises(PortakernError, match="clock of who judges") as caught:
        hold()
    assert caught.value.kind == kind


@pytest.mark.quick
@pytest.mark.parametrize(("name", "dims", "why", "fair_us"), [
    ("matmul", {"M": 1024, "N": 1024, "K": 1024}, "operations", 2000.0), ("softmax", {"M": 4096, "N": 4096}, "inputs", 3000.0),
    ("transpose", {"M": 8192, "N": 8192}, "inputs", 20000.0)])  # fmt: skip
def test_no_time_is_below_what_memory_and_arithmetic_take(name: str, dims: dict[str, int], why: str, fair_us: float):
    program = load_operator(name).program(dims, {}, "f32")
    found = floors(program, True, None, Copy(2e10, "as measured"))
    assert any(why in f.why for f in found)
    for floor in found:
        at_least(fair_us, floor)
        with pytest.raises(PortakernError, match=floor.why):
            at_least(floor.us / 2, floor)


@pytest.mark.quick
def test_warm_caches_and_picked_elements_have_no_floor_of_memory():
    table = load_operator("embedding").program({"V": 8192, "D": 1024, "B": (4,)}, {}, "f32")
    rows = load_operator("softmax").program({"M": 4096, "N": 4096}, {}, "f32")
    for program, cold in ((table, True), (rows, False)):
        assert not any("inputs" in f.why for f in floors(program, cold, None, Copy(2e10, "as measured")))
