"""Timing a row: whole calls under the host's monotonic clock, ours and the peers' in turns.

This is the first form of timing: it measures what a caller waits for, launch and output allocation included.  Times on the
device alone, launch times and cache flushing between samples are not measured yet, and the row's ``mode`` says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portakern.backend import Executable, Target
from portakern.errors import PortakernError
from portakern.native import now_ns
from portakern.spec.bind import bind
from portakern.spec.inputs import make_inputs
from portakern.study.row import Row
from portakern.study.steps import Made, guarded, load
from portakern.study.work import Work
from portakern.timing import peers as peer_forms
from portakern.timing.statistics import interval, ratio, verdict

WARM_UP_S = 0.2
SAMPLE_S = 2e-4  # a sample shorter than this is made of several calls, so that reading the clock does not count
MIN_SAMPLES, MAX_SAMPLES = 10, 400
ENOUGH = 0.02  # stop when the interval is narrower than this share of the median
INPUT_SETS, INPUT_BYTES = 4, 256 << 20


@dataclass
class Contender:
    """Something that is timed: ours or a peer."""

    name: str
    call: Callable[[int], Any]
    calls: int = 1
    samples: list[float] = field(default_factory=list)


def time(work: Work, made: Made, against: Sequence[str] = (), torch_function: str = "", budget_s: float = 2.0) -> Row:
    """The row with its ``time``; a peer that cannot run is listed with the reason."""
    def step() -> Made:
        return Made(_timed(work, made, against, torch_function, budget_s))

    return guarded(made.row, step).row


def _timed(work: Work, made: Made, against: Sequence[str], torch_function: str, budget_s: float) -> Row:
    assert made.source is not None
    if made.runner != "runtime":
        raise PortakernError("not-timed", f"{work.target} is not timed: no silicon of this kind is here",
                             hint="a simulator's speed says nothing about the device's")
    target = made.source.target
    executable = load(made.source, made.binary_key, made.runner)
    sets = input_sets(work)
    ours = Contender("portakern", _our_call(executable, target, sets, work.sizes))
    first = host_bytes(ours.call(0))
    contenders, absent = [ours], []
    for name in against:
        try:
            peer = peer_forms.find(name, work.row.operator, torch_function, work.row.params or {})
            contender = Contender(name, _peer_call(peer, target, sets))
            contender.call(0)
            contenders.append(contender)
        except PortakernError as error:
            absent.append({"name": name, "error": error.message})
        except Exception as error:  # a peer may fail in any way, which is no fault of ours
            absent.append({"name": name, "error": f"{type(error).__name__}: {error}"[:500]})
    take_samples(contenders, budget_s)
    if host_bytes(ours.call(0)) != first:
        raise PortakernError("unstable", "the outputs after timing differ from those before it")
    return made.row.but(evidence="timed", time=time_dict(contenders, absent, mode_text(target, sets)))


def input_sets(work: Work) -> list[dict[str, Any]]:
    """Different inputs to take in turns, so that no call finds the last one's results in place; fewer when they are large."""
    program = bind(work.program, work.sizes)
    sets = [make_inputs(program, work.families, 0)]
    size = sum(x.nbytes for x in sets[0].values())
    for seed in range(1, INPUT_SETS if size * INPUT_SETS <= INPUT_BYTES else 2):
        sets.append(make_inputs(program, work.families, seed))
    return sets


def mode_text(target: Target, sets: Sequence[Mapping[str, Any]]) -> str:
    where = "host arrays" if target.device.kind == "cpu" else "device arrays, waiting for the device"
    return (f"whole calls under the host's monotonic clock ({where}), outputs allocated by the call, "
            f"{len(sets)} sets of inputs in turns, caches as the calls leave them")


def take_samples(contenders: Sequence[Contender], budget_s: float) -> None:
    """Warm up, then one sample of each in random order, round after round, until the first's interval is narrow."""
    for c in contenders:
        c.calls = warmed_up(c)
    order = list(contenders)
    shuffle = random.Random(0).shuffle
    end = now_ns() + int(budget_s * 1e9 * len(contenders))
    for round_number in range(MAX_SAMPLES):
        shuffle(order)
        for c in order:
            c.samples.append(sample(c, round_number))
        if round_number + 1 < MIN_SAMPLES:
            continue
        if now_ns() > end or (round_number % 10 == 9 and all(interval(c.samples).width < ENOUGH for c in contenders)):
            return


def warmed_up(c: Contender) -> int:
    """Calls it for a while; gives how many calls a sample takes."""
    begun, calls = now_ns(), 0
    while calls < 3 or now_ns() - begun < WARM_UP_S * 1e9:
        c.call(calls)
        calls += 1
        if now_ns() - begun > 10 * WARM_UP_S * 1e9:
            break
    each = max((now_ns() - begun) / calls, 1)
    return max(1, int(SAMPLE_S * 1e9 / each))


def sample(c: Contender, round_number: int) -> float:
    """Microseconds per call."""
    begun = now_ns()
    for i in range(c.calls):
        c.call(round_number + i)
    return (now_ns() - begun) / c.calls / 1e3


def time_dict(contenders: Sequence[Contender], absent: Sequence[Mapping[str, Any]], mode: str) -> dict[str, Any]:
    ours, *others = contenders
    mine = interval(ours.samples)
    peers: list[Mapping[str, Any]] = []
    for c in others:
        times = ratio(c.samples, ours.samples)
        peers.append({"name": c.name, "median_us": interval(c.samples).median, "ratio": times.median,
                      "ci_low": times.low, "ci_high": times.high, "verdict": verdict(times)})  # fmt: skip
    return {"median_us": mine.median, "ci_low_us": mine.low, "ci_high_us": mine.high, "samples": len(ours.samples),
            "launch_us": None, "end_to_end_us": mine.median, "mode": mode, "roofline": None,
            "peers": [*peers, *absent]}  # fmt: skip


# ---- arrays where the kernel wants them ------------------------------------------------------------------------------


def _our_call(executable: Executable, target: Target, sets: Sequence[Mapping[str, Any]], sizes: Mapping[str, int]
              ) -> Callable[[int], Any]:  # fmt: skip
    on_device = target.device.kind != "cpu"
    ready = [[_scalar(x) if not x.shape else to_torch(x, True) if on_device else x for x in s.values()] for s in sets]
    wait = _synchronise() if on_device else None

    def call(i: int) -> Any:
        out = executable.call(ready[i % len(ready)], sizes)
        if wait is not None:
            wait()
        return out

    return call


def _peer_call(peer: peer_forms.Peer, target: Target, sets: Sequence[Mapping[str, Any]]) -> Callable[[int], Any]:
    on_device = target.device.kind != "cpu"
    if peer.arrays == "torch":
        ready = [[_scalar(x) if not x.shape else to_torch(x, on_device) for x in s.values()] for s in sets]
    else:
        ready = [[_scalar(x) if not x.shape else x for x in s.values()] for s in sets]
    wait = _synchronise() if on_device and peer.arrays == "torch" else None

    def call(i: int) -> Any:
        out = peer.call(*ready[i % len(ready)])
        if wait is not None:
            wait()
        return out

    return call


def _scalar(x: Any) -> Any:
    return x.item()


def _synchronise() -> Callable[[], None]:
    import torch

    return torch.cuda.synchronize


def to_torch(x: Any, on_device: bool) -> Any:
    """A numpy array as a torch tensor; bf16, which numpy does not know, by its bits."""
    import numpy as np
    import torch

    narrow = {"bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}
    if x.dtype.name in narrow:
        bits = np.uint16 if x.dtype.itemsize == 2 else np.uint8
        tensor = torch.from_numpy(x.view(bits)).view(narrow[x.dtype.name])
    else:
        tensor = torch.from_numpy(x)
    return tensor.cuda() if on_device else tensor


def host_bytes(outputs: Any) -> list[bytes]:
    """The bytes of an output or of several, whatever library they are of."""
    found = []
    for x in outputs if isinstance(outputs, tuple) else (outputs,):
        if hasattr(x, "detach"):
            import torch

            x = x.detach().cpu().contiguous().view(torch.uint8 if x.dim() else x.dtype).numpy()
        elif hasattr(x, "get"):
            x = x.get()
        found.append(x.tobytes())
    return found


