"""What the protocol asks of a device, in which order, and what it makes of the answers: on a device made of arithmetic."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from portakern import native
from portakern.errors import PortakernError
from portakern.timing import THROTTLED, UNGATED, Contender, ContenderError, measure
from tests.timing.fake import Fake, options

# ---- one sample


def test_a_cold_sample_is_flushed_and_queued_whole_behind_the_gate():
    fake = Fake()
    measure(fake.device, [Contender("k", fake.call())], options())
    assert fake.log.count("reset close flush event k event open sync") == 10


def test_a_warm_sample_flushes_nothing():
    fake = Fake()
    found = measure(fake.device, [Contender("k", fake.call())], options(cache="warm"))
    assert "flush" not in fake.log and "reset" not in fake.log
    assert re.search(r"close (k )+event k event open sync", fake.log)
    assert found.timings[0].mode.startswith("warm: right behind ")


def leads(log: str) -> set[int]:
    """How many calls came before the timed one in each sample."""
    return {len(before.split()) for before in re.findall(r"close ((?:[a-z] )*)event [a-z] event open", log) if "k" in before}


def test_calls_lead_into_a_warm_sample_for_a_millisecond():
    """What waited is not as warm as what worked: caches that others share, threads that fell asleep."""
    fake = Fake()
    measure(fake.device, [Contender("k", fake.call())], options(cache="warm"))
    assert leads(fake.log) == {64}  # the fake's host time is next to nothing

    def slow(i: int) -> None:
        time.sleep(0.4e-3)
        call()

    fake = Fake()
    call = fake.call()
    found = measure(fake.device, [Contender("k", slow)], options(cache="warm"))
    (count,) = leads(fake.log)
    assert 1 <= count <= 3 and f"behind {count} untimed calls" in found.timings[0].mode


def test_what_takes_long_is_not_done_twice():
    fake = Fake()
    call = fake.call()

    def long(i: int) -> None:
        time.sleep(0.11)
        call()

    found = measure(fake.device, [Contender("k", long)], options(cache="warm", min_samples=1, max_samples=1, gate_limit_s=1))
    assert leads(fake.log) == set() and "close event k event open" in fake.log
    assert found.timings[0].mode.startswith("warm: caches as the calls leave them")


def test_leading_calls_take_the_inputs_that_come_before():
    fake = Fake()
    calls = [fake.call(name) for name in "abc"]
    measure(fake.device, [Contender("k", calls)], options(cache="warm"))
    timed = re.findall(r"close (?:[abc] )*?((?:[abc] ){0,3})event ([abc]) event open", fake.log)
    assert set(timed) == {("a b c ", "a"), ("b c a ", "b"), ("c a b ", "c")}


def test_nothing_leads_into_a_cold_sample():
    fake = Fake()
    measure(fake.device, [Contender("k", fake.call())], options())
    assert leads(fake.log) == set()


def test_nothing_is_gated_before_the_first_calls_have_ended():
    """What a first call loads or allocates would wait for ever behind a closed gate."""
    fake = Fake()
    measure(fake.device, [Contender("k", fake.call())], options())
    assert fake.log.startswith("wrap0 flush empty k sync ")  # what the driver can do is asked first
    assert fake.log.index("k sync") < fake.log.index("close")


def test_every_block_has_each_contender_once_in_random_order():
    fake = Fake()
    contenders = [Contender(name, fake.call(name)) for name in "abc"]
    found = measure(fake.device, contenders, options(min_samples=40, max_samples=40))
    taken = re.findall(r"reset close flush event ([abc]) event open sync ", fake.log)[-120:]
    blocks = [tuple(taken[i : i + 3]) for i in range(0, 120, 3)]
    assert found.blocks == 40
    assert all(sorted(block) == ["a", "b", "c"] for block in blocks)
    assert len(set(blocks)) == 6


def test_the_order_follows_from_the_seed():
    def order(seed: int) -> list[str]:
        fake = Fake()
        measure(fake.device, [Contender(name, fake.call(name)) for name in "ab"], options(seed=seed))
        return re.findall(r"reset close flush event (\w)", fake.log)

    assert order(1) == order(1) != order(2)


def test_prepared_calls_are_taken_in_turns():
    fake = Fake()
    measure(fake.device, [Contender("k", [fake.call(name) for name in "xyz"])], options())
    taken = re.findall(r"reset close flush event (\w)", fake.log)
    assert "".join(taken).endswith("exyzxyzxyzx"), "after the empty launches"


def test_a_callable_is_told_which_inputs_are_due():
    fake = Fake()
    seen: list[int] = []
    call = fake.call()

    def function(i: int) -> None:
        seen.append(i)
        call()

    measure(fake.device, [Contender("k", function)], options())
    first = len(seen) - 10
    assert list(range(10)) == seen[first:]


# ---- what is taken off


def test_the_event_pairs_own_cost_is_taken_off():
    fake = Fake(pair_ns=1200, empty_kernel_ns=1000)
    timing = measure(fake.device, [Contender("k", fake.call(us=5))], options()).timings[0]
    assert timing.empty_us == pytest.approx(2.2)
    assert timing.correction_us == pytest.approx(1.2)
    assert timing.samples_us == pytest.approx([6.2] * 10)
    assert timing.device_us == pytest.approx([5] * 10)
    assert (timing.median_us, timing.ci_low_us, timing.ci_high_us) == pytest.approx((5, 5, 5))
    assert timing.quantiles_us == pytest.approx({10: 5, 25: 5, 75: 5, 90: 5})


def test_without_the_empty_kernels_own_time_nothing_is_taken_off():
    fake = Fake(empty_kernel_ns=0)
    timing = measure(fake.device, [Contender("k", fake.call(us=5))], options()).timings[0]
    assert timing.correction_us == 0
    assert timing.median_us == pytest.approx(6.2) and timing.empty_us == pytest.approx(2.2)


def test_ratios_are_of_corrected_times():
    fake = Fake()
    found = measure(fake.device, [Contender("a", fake.call("a", 4)), Contender("b", fake.call("b", 8))], options())
    (compared,) = found.comparisons()
    assert compared.ratio == pytest.approx(2) and compared.verdict == "FASTER" and compared.name == "b"
    assert found.comparisons(base=1)[0].verdict == "SLOWER"


# ---- several calls in a sample


def test_short_warm_calls_become_a_graph():
    fake = Fake()
    contenders = [Contender("a", [fake.call("x", 2), fake.call("y", 4)]), Contender("b", fake.call("b", 30))]
    found = measure(fake.device, contenders, options(cache="warm"))
    short, long = found.timings
    assert "record x y x y" in fake.log and "close event graph event open sync" in fake.log
    assert short.calls_per_sample > 10 and long.calls_per_sample >= 4
    # The pair's cost is shared by all calls of the graph.
    assert short.median_us == pytest.approx(3) and long.median_us == pytest.approx(30)
    assert short.correction_us == pytest.approx(1.2 / short.calls_per_sample)
    assert "graph" in short.mode


def test_what_cannot_be_recorded_runs_one_after_the_other():
    fake = Fake(no_capture=1)
    found = measure(fake.device, [Contender("a", fake.call(us=2))], options(cache="warm"))
    timing = found.timings[0]
    assert timing.calls_per_sample > 10 and timing.median_us == pytest.approx(2)
    assert "one after the other" in timing.mode
    with pytest.raises(PortakernError, match="graphs"):
        measure(fake.device, [Contender("a", fake.call(us=2))], options(cache="warm", mode="graph"))


def test_a_callable_is_never_recorded():
    fake = Fake()
    call = fake.call(us=2)
    found = measure(fake.device, [Contender("a", lambda i: call()), Contender("b", call)], options(cache="warm"))
    assert "record" not in fake.log
    assert all("one after the other" in t.mode for t in found.timings)


def test_longer_calls_stay_alone():
    fake = Fake()
    assert measure(fake.device, [Contender("a", fake.call(us=12))], options(cache="warm")).timings[0].calls_per_sample == 1
    short = measure(fake.device, [Contender("a", fake.call(us=2))], options(cache="warm", mode="single")).timings[0]
    assert short.calls_per_sample == 1


def test_several_calls_cannot_be_cold():
    fake = Fake()
    with pytest.raises(PortakernError, match="cold"):
        measure(fake.device, [Contender("a", fake.call())], options(mode="graph"))


# ---- drivers that have less


def test_a_driver_without_gate_flush_and_health_says_so():
    fake = Fake("little_fake")
    found = measure(fake.device, [Contender("a", fake.call(us=5))], options())
    timing = found.timings[0]
    assert timing.median_us == pytest.approx(6.2) and timing.empty_us is None
    assert "cannot flush" in timing.mode and "no gate" in timing.mode
    assert found.health_before is None
    assert not (timing.flags & UNGATED).any()


def test_a_table_of_an_earlier_header_has_what_it_had():
    fake = Fake("old_fake")
    assert measure(fake.device, [Contender("a", fake.call(us=5))], options(cache="warm")).timings[0].mode.count("one after")
    with pytest.raises(native.DriverError, match="native handles"):
        _ = fake.device.stream().handle


# ---- trouble


def test_a_call_that_waits_behind_the_gate_is_let_through_and_noted():
    fake = Fake()
    call = fake.call()

    def waits(i: int) -> None:
        call()
        fake.device.synchronize(stream=0)

    found = measure(fake.device, [Contender("free", fake.call("f")), Contender("waits", waits)], options(gate_limit_s=0.01))
    free, stuck = found.timings
    assert "not gated" in stuck.mode and (stuck.flags & UNGATED).all()
    assert any("without the gate" in s for s in stuck.suspicions)
    assert "closed gate" in free.mode and not free.flags.any() and not free.suspicions
    assert stuck.median_us == pytest.approx(20)


def test_a_kernel_that_never_ends_is_a_timeout_and_frees_nothing():
    fake = Fake()
    contenders = [Contender("good", fake.call()), Contender("hangs", fake.call("h", -1))]
    with pytest.raises(ContenderError) as caught:
        measure(fake.device, contenders, options(deadline_s=0.05))
    assert (caught.value.kind, caught.value.contender) == ("timeout", "hangs")
    assert "hangs: fake synchronize" in str(caught.value)
    assert fake.device.stuck
    del contenders
    fake.device.free(4096)
    assert "free" not in fake.log


@pytest.mark.parametrize(("code", "kind"), [(700, "device-lost"), (5, "driver")])
def test_a_failure_amid_the_samples_is_the_drivers_error(code: int, kind: str):
    fake = Fake(fail_at=60, fail_with=code)
    with pytest.raises(ContenderError, match=rf"k: fake launch: FAKE_ERROR \({code}\) the fake was told to fail") as caught:
        measure(fake.device, [Contender("k", fake.call())], options(width=0, max_samples=1000))
    assert caught.value.kind == kind and isinstance(caught.value.__cause__, native.DriverError)
    assert fake.log.count("close") == fake.log.count("open")


def test_an_exception_of_a_callable_names_its_contender_and_opens_the_gate():
    fake = Fake()

    def function(i: int) -> None:
        if i == 7:
            raise RuntimeError("seven")

    with pytest.raises(ContenderError, match="seventh: RuntimeError: seven") as caught:
        measure(fake.device, [Contender("k", fake.call()), Contender("seventh", function)], options())
    assert caught.value.kind == "contender"
    fake.device.synchronize(1)
    assert fake.log.count("close") == fake.log.count("open")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the shell has it ignored, as it does for what runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_it_within_a_sample():
    fake = Fake()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        measure(fake.device, [Contender("k", fake.call())], options(width=0, budget_s=1e6, max_samples=10**9))
    timer.join()


def test_calls_of_another_device_are_refused():
    fake = Fake()
    with pytest.raises(PortakernError, match="another device"):
        measure(native.open_device("host"), [Contender("k", fake.call())], options())


# ---- what does not fit together


def test_throttled_samples_are_marked_and_kept():
    fake = Fake(throttled=1)
    timing = measure(fake.device, [Contender("k", fake.call())], options()).timings[0]
    assert len(timing.samples_us) == 10 and (timing.flags & THROTTLED).all()
    assert any("throttled during 10 of 10" in s for s in timing.suspicions)


def test_health_is_read_now_and_then_and_may_be_unknown():
    fake = Fake()
    found = measure(fake.device, [Contender("k", fake.call())], options(width=0, budget_s=0.35, max_samples=10**9))
    assert 4 <= fake.health_reads <= 7 and found.stopped == "budget"
    assert found.health_after is not None and found.health_after.throttled is False
    unknown = Fake(no_health=1)
    assert measure(unknown.device, [Contender("k", unknown.call())], options()).health_after is None


def test_work_on_another_stream_is_suspected():
    fake = Fake()
    honest, cheat = measure(fake.device, [Contender("k", fake.call("k")), Contender("s", fake.call("s"))], options()).timings
    assert not honest.suspicions and not honest.incomplete and cheat.incomplete
    assert any("other streams" in s for s in cheat.suspicions)


def test_work_that_is_not_there_is_suspected():
    fake = Fake()
    timing = measure(fake.device, [Contender("lazy", lambda i: None)], options()).timings[0]
    assert timing.incomplete and any("less time than an empty launch" in s for s in timing.suspicions)


def test_drift_is_suspected():
    fake = Fake(drift=50)
    timing = measure(fake.device, [Contender("k", fake.call())], options(min_samples=80, max_samples=80)).timings[0]
    assert any(s.startswith("drift") for s in timing.suspicions) and not timing.incomplete


# ---- stopping


def test_it_stops_when_the_interval_is_narrow():
    quiet, loud = Fake(noise=0.004), None
    found = measure(quiet.device, [Contender("k", quiet.call(us=100))], options(max_samples=500))
    assert found.stopped == "width" and found.blocks == 10
    loud = Fake(noise=0.2)
    found = measure(loud.device, [Contender("k", loud.call(us=100))], options(max_samples=5000, width=0.02))
    timing = found.timings[0]
    assert found.stopped == "width" and 20 < found.blocks < 2000
    assert timing.ci_high_us - timing.ci_low_us <= 0.02 * timing.median_us * 1.1


def test_it_stops_where_the_timer_is_no_finer():
    """Steps of 128 ns in a kernel of 3 us: an interval from one step to the next is as narrow as it gets."""
    fake = Fake(noise=0.01, step_ns=128)
    contenders = [Contender("a", fake.call("a", 3.05)), Contender("b", fake.call("b", 3.05))]
    found = measure(fake.device, contenders, options(max_samples=2000))
    assert found.stopped == "width" and found.blocks < 200


def test_it_stops_at_the_most_samples_and_at_the_budget():
    fake = Fake(noise=0.5)
    assert measure(fake.device, [Contender("k", fake.call())], options(width=1e-6)).stopped == "samples"
    found = measure(fake.device, [Contender("k", fake.call())], options(width=0, budget_s=0, min_samples=50, max_samples=90))
    assert found.stopped == "budget" and found.blocks == 5


def test_undecided_verdicts_are_sampled_on():
    """Two that differ by half the margin: narrow intervals of the medians are not enough to stop."""
    fake = Fake(noise=0.03)
    contenders = [Contender("a", fake.call("a", 100)), Contender("b", fake.call("b", 100.5))]
    found = measure(fake.device, contenders, options(width=0.05, max_samples=3000))
    (compared,) = found.comparisons()
    assert found.stopped == "width" and found.blocks > 10
    assert compared.verdict == "SAME" or compared.ci_high - compared.ci_low <= 0.005 * 1.2


# ---- how often it is right


def verdicts(fake: Fake, slowdown: float, runs: int) -> list[str]:
    found = []
    for seed in range(runs):
        contenders = [Contender("base", fake.call("a", 100 * slowdown)), Contender("plain", fake.call("b", 100))]
        measured = measure(fake.device, contenders, options(seed=seed, min_samples=20, max_samples=400, warm_up_s=1e-4))
        found.append(measured.comparisons()[0].verdict)
    return found


def test_a_kernel_against_itself_is_no_faster_and_no_slower():
    said = verdicts(Fake(noise=0.06), 1.0, 60)
    assert sum(v in ("SAME", "UNDECIDED") for v in said) >= 59


def test_two_percent_are_found():
    assert verdicts(Fake(noise=0.06), 1.02, 60).count("SLOWER") >= 57


# ---- the face


def test_a_timing_says_how_long_calling_took():
    fake = Fake()
    timing = measure(fake.device, [Contender("k", fake.call())], options()).timings[0]
    assert timing.launch_us is not None and 0 < timing.launch_us <= timing.end_to_end_us
    assert timing.overhead_us != 0 and timing.samples_us.dtype == np.float64 and timing.flags.dtype == np.uint8


def test_on_a_blocking_device_there_is_no_launch_time():
    fake = Fake("little_fake", blocking=1)
    assert measure(fake.device, [Contender("k", fake.call())], options()).timings[0].launch_us is None


@pytest.mark.parametrize("change", [{"cache": "tepid"}, {"mode": "fast"}])
def test_options_that_make_no_sense_are_refused(change: dict[str, str]):
    fake = Fake()
    with pytest.raises(PortakernError, match=next(iter(change))):
        measure(fake.device, [Contender("k", fake.call())], options(**change))


def test_nothing_to_measure_is_refused():
    with pytest.raises(PortakernError, match="nothing to measure"):
        measure(Fake().device, [], options())
    with pytest.raises(PortakernError, match="at least one call"):
        measure(Fake().device, [Contender("k", [])], options())
