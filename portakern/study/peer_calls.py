"""Peers made ready to be timed: found, compiled, compared and called on sets of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.check.agreement import agreement
from portakern.check.nearer import is_farther
from portakern.errors import PortakernError
from portakern.ir.tensor import TensorProgram
from portakern.timing import peers as peer_forms
from portakern.timing.inputs import ArrayPlace, InputSets
from portakern.timing.measure import Contender
from portakern.timing.peers import Peer, Subject

Differ = Callable[[Mapping[str, np.ndarray], Sequence[np.ndarray]], str]
"""How a peer's outputs differ from those that the inputs have, in words; '' where they do not."""


@dataclass
class Absent:
    """A peer that was not timed, and why."""

    name: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "error": self.reason}


@dataclass(frozen=True)
class PeerCalls:
    """Peers of one operator on ``sets`` of inputs that lie in ``place``.

    ``blocking`` is whether the device that ours is timed on is the host, ``stream`` what ours queues on.
    """

    subject: Subject
    place: ArrayPlace
    sets: InputSets
    blocking: bool
    stream: int

    def find(self, names: Sequence[str], differ: Differ) -> tuple[list[Peer], list[Absent]]:
        """Those that can be timed, after a call whose results are those of the inputs; and those that cannot."""
        found: list[Peer] = []
        absent: list[Absent] = []
        for name in dict.fromkeys(names):
            try:
                found.append(self._ready(name, differ))
            except PortakernError as error:
                absent.append(Absent(name, f"{error.message}; {error.hint}" if error.hint else error.message))
            except Exception as error:  # a peer may fail in any way, which is no fault of ours
                absent.append(Absent(name, one_line(f"{type(error).__name__}: {error}")))
        return found, absent

    def _ready(self, name: str, differ: Differ) -> Peer:
        peer = peer_forms.find(name, self.subject)
        if peer.library == "jax" and self.place.library == "torch":
            raise PortakernError("no-peer", f"{name} is timed on TPUs and on CPUs, whose arrays jax takes")
        arrays = self.sets.of_library(0, peer.library)
        if name == "torch.compile":
            peer = peer_forms.compiled(peer, self.subject, arrays)
        theirs = peer_forms.host_outputs(peer.call(*arrays))
        wanted = len(self.subject.program.outputs)
        if len(theirs) != wanted:
            raise PortakernError("other", f"gives {len(theirs)} outputs, not {wanted}; not timed")
        if message := differ(self.sets.host[0], theirs):
            raise PortakernError("other", f"computes something else ({message}); not timed")
        return peer

    def beside(self, peer: Peer) -> bool:
        """Whether a peer's work is on the device that times ours: the host's, or arrays that lie there."""
        return self.blocking or (self.place.library == peer.library and peer.library != "numpy")

    def contender(self, peer: Peer) -> Contender:
        sets = self._inputs(peer)
        call, count = peer.call, len(sets)
        return Contender(peer.name, lambda i: call(*sets[i % count]), self.stream)

    def _inputs(self, peer: Peer) -> list[list[Any]]:
        """The sets as the peer takes them: those that lie there where they will do, so that both read the same memory."""
        if peer.library == self.place.library:
            return self.sets.arrays
        return [self.sets.of_library(i, peer.library) for i in range(len(self.sets))]


def differing(program: TensorProgram, dtypes: tuple[str, ...], wanted: Sequence[Any], theirs: Sequence[Any],
              roundings: Callable[[], Roundings | None] = lambda: None) -> str:  # fmt: skip
    """The first output that is of another computation, and how.  None is that has no other roundings than an array library's,
    which are asked for where something differs."""
    for at, (output, a, b) in enumerate(zip(program.outputs, wanted, theirs, strict=True)):
        if message := agreement(a, b, dtypes).message:
            found = roundings()
            if found is None or is_farther(b, found.usual[at], found.exact[at], dtypes):
                return f"{output}: {message}"
    return ""


@dataclass(frozen=True)
class Roundings:
    """What a program's outputs are without roundings on the way (``exact``), and as an array library rounds (``usual``)."""

    exact: Sequence[np.ndarray]
    usual: Sequence[np.ndarray]


def one_line(text: str) -> str:
    return " ".join(text.split())[:400]
