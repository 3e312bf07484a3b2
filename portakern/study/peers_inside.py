"""Peers of a stranger's kernel: the process that holds them, and never holds the kernel.

It times them on inputs of its own, a block whenever the side that judges says so (:mod:`portakern.study.peers_apart`).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from portakern.check.bounds import Val
from portakern.check.compare import compare
from portakern.check.expected import expected
from portakern.check.restrict import cut
from portakern.check.sampled import affordable, parts_of
from portakern.dtypes import numpy_dtype
from portakern.errors import PortakernError
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.launch import arrays_of, device_of
from portakern.launch.arrays import family_of
from portakern.native import open_device
from portakern.referee.bell import ASKED, BYTES, END, SERVED, Bell
from portakern.registry import registry
from portakern.spec.inputs import Family
from portakern.study.peer_calls import PeerCalls, differing
from portakern.timing.inputs import TorchPlace, input_sets, place_of
from portakern.timing.measure import ContenderError, Options, Timing, measure
from portakern.timing.peers import Peer, Subject

HERE, HOST = "device", "host"
"""Whose clock tells the time of a peer: that of the device that runs the kernel, or the host's."""

LIMIT_S = 3600.0
"""How long the other side is waited for, which ends this process when it ends."""


@dataclass(frozen=True)
class Wanted:
    """What peers are asked for: an operator with its dims bound, as of :class:`portakern.timing.peers.Subject`."""

    target: str
    program: TensorProgram
    families: Mapping[str, Family]
    torch: str
    params: Mapping[str, Any]
    names: tuple[str, ...]
    seed: int


def begin(wanted: Wanted, options: Mapping[str, Any], descriptor: int) -> dict[str, Any]:
    """Makes the peers and compares their results; what there is to say of each, and of those that are not."""
    global _held
    memory = mmap.mmap(descriptor, BYTES)
    os.close(descriptor)
    _held = Held(wanted, Options(**options), Bell(memory))
    return _held.told


def sample(place: str, names: Sequence[str]) -> dict[str, Any]:
    """The timings of peers by one clock; or which of them failed, and how."""
    assert _held is not None
    try:
        return {"timings": [plain_timing(t) for t in _held.sampled(place, names)]}
    except ContenderError as error:
        return {"failed": error.contender, "message": error.message, "kind": error.kind}


@dataclass
class Held:
    wanted: Wanted
    options: Options
    bell: Bell
    calls: PeerCalls = field(init=False)
    peers: dict[str, Peer] = field(init=False)
    told: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        target = registry().target(self.wanted.target)
        runtime = registry().language(target.language).runtime
        assert runtime is not None
        self.device = device_of(runtime, target) or open_device("host")
        place = place_of(target, self.device, arrays_of(runtime))
        facts, program = self.device.facts, self.wanted.program
        sets = input_sets(program, self.wanted.families, place, facts.cache_bytes, facts.memory_bytes,
                          self.options.cache == "warm", self.wanted.seed)  # fmt: skip
        stream = family_of((), place.device.type, self.device.ordinal).stream() if isinstance(place, TorchPlace) else 0
        self.calls = PeerCalls(Subject(program, self.wanted.torch, self.wanted.params), place, sets, facts.blocking, stream)
        found, absent = self.calls.find(self.wanted.names, self.differ)
        self.peers = {p.name: p for p in found}
        self.told = {"absent": [a.to_dict() for a in absent],
                     "peers": [{**p.to_dict(), "place": HERE if self.calls.beside(p) else HOST} for p in found]}  # fmt: skip

    def differ(self, inputs: Mapping[str, np.ndarray], theirs: Sequence[np.ndarray]) -> str:
        """From the oracle's results, in parts where that would take long."""
        program, dtypes = self.wanted.program, self.calls.subject.dtypes
        if affordable(program):
            return _unlike(program, dtypes, [*expected(program, inputs).values()], theirs)
        compared = False
        for output, result, actual in zip(program.outputs, program.results, theirs, strict=True):
            if (shape := tensor_type(result).shape) != actual.shape:
                return f"{output}: its shape is {list(actual.shape)}, not {list(shape)}"
            for part in parts_of(program, output, self.wanted.seed) or ():
                few = {n: np.ascontiguousarray(cut(x, part.inputs[n])) if x.ndim else x for n, x in inputs.items()}
                (wanted,) = expected(part.program, few).values()
                if message := _unlike(part.program, dtypes, [wanted], [cut(actual, part.box)]):
                    return message
                compared = True
        if not compared:
            raise PortakernError("other", "what it computes could not be compared, since no part of the operator is small "
                                 "enough for the oracle; not timed")  # fmt: skip
        return ""

    def sampled(self, place: str, names: Sequence[str]) -> Sequence[Timing]:
        device = self.device if place == HERE else open_device("host")
        return measure(device, [self.calls.contender(self.peers[n]) for n in names], self.options, self.refresh).timings

    def refresh(self, block: int, last: list[float]) -> bool:
        """Waits until the next block may begin; whether one does."""
        self.bell.figures[: len(last)] = last[: len(self.bell.figures)]
        self.bell[ASKED] = asked = self.bell[ASKED] + 1
        return self.bell.wait(SERVED, asked, LIMIT_S, pause_s=2e-4) and not self.bell[END]


def endless(options: Options) -> Options:
    """Of a loop that goes on until it is told to end."""
    return replace(options, width=0.0, budget_s=LIMIT_S, max_samples=1 << 20)


def plain_timing(t: Timing) -> dict[str, Any]:
    return {**asdict(t), "samples_us": [float(x) for x in t.samples_us], "flags": [int(x) for x in t.flags],
            "quantiles_us": {str(k): v for k, v in t.quantiles_us.items()}, "suspicions": list(t.suspicions)}  # fmt: skip


def timing_of(told: Mapping[str, Any]) -> Timing:
    """What :func:`plain_timing` was given."""
    return Timing(**{**told, "samples_us": np.asarray(told["samples_us"], np.float64),
                     "flags": np.asarray(told["flags"], np.uint8), "suspicions": tuple(told["suspicions"]),
                     "quantiles_us": {int(k): v for k, v in told["quantiles_us"].items()}})  # fmt: skip


_held: Held | None = None


def _unlike(program: TensorProgram, dtypes: tuple[str, ...], wanted: Sequence[Val], theirs: Sequence[np.ndarray]) -> str:
    """The first output that is of another computation than the oracle's, and how.  One within its bounds is not, whatever it
    chose between what is nearly equal."""
    for at, (value, actual) in enumerate(zip(wanted, theirs, strict=True)):
        dtype = tensor_type(program.results[at]).dtype
        one = replace(program, outputs=(program.outputs[at],))
        message = differing(one, dtypes, [value.x], [actual])
        if message and compare(value, dtype, actual.astype(numpy_dtype(dtype))).ratio > 1:
            return message
    return ""
