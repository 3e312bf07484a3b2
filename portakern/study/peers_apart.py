"""Peers of a stranger's kernel: the side that judges, which has kernel and peers do a block of samples in turns.

Peers are in a process of their own (:mod:`portakern.study.peers_inside`), which the kernel cannot reach.  While one of the two
processes is timed, the other one stands still with all that it started: a kernel's threads cannot slow a peer down, and a
peer's cannot slow down the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic as clock
from types import TracebackType
from typing import Any

import numpy as np

from portakern.errors import PortakernError
from portakern.referee.bell import ASKED, END, SERVED, Bell
from portakern.referee.process import Allowance, Fresh, KernelProcess
from portakern.referee.secret import Secret
from portakern.referee.shared import arena_for
from portakern.registry import ONLY
from portakern.spec.bind import bind
from portakern.study.peers_inside import LIMIT_S, Wanted, endless, timing_of
from portakern.study.work import Work
from portakern.timing.measure import Options, Timing
from portakern.timing.settled import settled
from portakern.tools.process import merged_environment

INSIDE = "portakern.study.peers_inside"
BEGIN_S, PEER_S = 120.0, 180.0
"""What making them may take, and each of them more: compiling one takes minutes."""

BLOCKS_S = 60.0
"""What their warming up may take, and a block of samples, beyond what is asked for."""


def time_for(timing: Mapping[str, Any]) -> float:
    """Seconds that peers may take beside what a kernel may: being made, and a budget each; of what
    :func:`portakern.study.timing.time` is given."""
    count = len(timing.get("against") or ())
    budget_s = Options(**(timing.get("options") or {})).budget_s
    return BEGIN_S + count * (PEER_S + 2 * budget_s) if count else 0.0


class PeerFailed(Exception):
    """One failed while it was timed; the others can be."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name, self.reason = name, reason


def wanted_of(work: Work, names: Sequence[str]) -> Wanted:
    """Files are named wholly, since their process is in a folder of its own."""
    told = tuple(str(Path(n).resolve()) if n.rpartition(":")[0].endswith(".py") else n for n in names)
    return Wanted(work.target, bind(work.program, work.sizes), work.families, work.torch, work.row.params or {}, told,
                  Secret.drawn().number("peers"))  # fmt: skip


Lend = Callable[[Work, tuple[str, ...], Options, Mapping[str, str] | None], AbstractContextManager["PeerProcess"]]

lent: Lend | None = None
"""Where they come from in a process that judges many kernels (:mod:`portakern.study.seat`)."""


def peers_of(work: Work, names: tuple[str, ...], options: Options, environment: Mapping[str, str] | None
             ) -> AbstractContextManager[PeerProcess]:  # fmt: skip
    """Ready to be timed beside a kernel for ``work``."""
    return (lent or PeerProcess)(work, names, options, environment)


class PeerProcess:
    """Peers, ready to be timed.  Used with ``with``.

    ``places`` has the clock of each by name, ``told`` what a row says of it, and ``absent`` entries of those that are not
    timed.  Where the whole process is lost, all of them are.  ``whole`` is whether all is as it was at the beginning.
    """

    def __init__(self, work: Work, names: Sequence[str], options: Options, environment: Mapping[str, str] | None) -> None:
        wanted = wanted_of(work, names)
        self.names, self.options = dict(zip(wanted.names, names, strict=True)), options
        self.told: dict[str, dict[str, Any]] = {}
        self.places: dict[str, str] = {}
        self.absent: list[dict[str, Any]] = []
        self.process: KernelProcess | None = None
        self.whole = True
        if not names:
            return
        arena = arena_for({}, np.random.default_rng())
        self.bell = Bell(arena.memory)
        try:
            self._begin(wanted, environment, arena.descriptor)
        except PortakernError as error:
            self.lose(error.message)
        finally:
            arena.close()

    def _begin(self, wanted: Wanted, environment: Mapping[str, str] | None, descriptor: int) -> None:
        variables = merged_environment({**(environment or {}), ONLY: None})  # files of the user may want any backend
        self.process = KernelProcess("off", None, "timing peers", lambda theirs: Fresh(theirs, variables))
        self._limit(BEGIN_S + PEER_S * len(wanted.names))
        found = self.process.call(f"{INSIDE}:begin", (wanted, self._endless()), [descriptor])
        for peer in found["peers"]:
            name = self.names[peer["name"]]
            self.places[name] = peer["place"]
            self.told[name] = {k: v for k, v in peer.items() if k != "place"} | {"name": name}
        self.absent += [{**a, "name": self.names[a["name"]]} for a in found["absent"]]
        self.process.hold()

    def _endless(self) -> dict[str, Any]:
        return asdict(endless(self.options))

    def _limit(self, seconds: float) -> None:
        assert self.process is not None
        self.process.allowance = Allowance(seconds)

    def lose(self, why: str) -> None:
        """None of them can be timed any more."""
        self.whole = False
        known = {a["name"] for a in self.absent}
        self.absent += [{"name": n, "error": why} for n in self.names.values() if n not in known]
        self.places.clear()
        self.close()

    def leave_out(self, name: str, why: str) -> None:
        self.whole = False
        self.places.pop(name, None)
        self.absent.append({"name": name, "error": why})

    def of(self, place: str) -> list[str]:
        return [n for n, p in self.places.items() if p == place]

    def turns(self, place: str) -> Turns | None:
        """The peers of a place, ready for their first block; ``None`` where there are none."""
        names = self.of(place)
        return Turns(self, place, names) if names else None

    def close(self) -> None:
        if self.process is not None:
            self.process.close()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def ours_of(time: Mapping[str, Any]) -> Timing:
    """The time of a kernel, whose figures were found to be consistent, as peers are compared with it."""
    correction = time.get("correction_us")
    off = float(correction) if isinstance(correction, int | float) else 0.0
    median_us, low, high = (float(time[k]) for k in ("median_us", "ci_low_us", "ci_high_us"))
    samples = np.asarray(time["samples_us"], np.float64)
    flags, calls = np.zeros(len(samples), np.uint8), int(time["calls_per_sample"])
    return Timing("ours", samples, flags, len(samples), median_us, low, high, {}, off, None, None, 0.0, 0.0, calls, "", (),
                  False)  # fmt: skip


@dataclass
class Turns:
    """One loop over peers, a block at a time, beside that of a kernel.

    ``seen`` are the samples of ours and theirs so far, in microseconds; they decide when it is enough.
    """

    peers: PeerProcess
    place: str
    names: list[str]
    blocks: int = 0
    owed: bool = False
    stopped: str = ""
    seen: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.options = self.peers.options
        self.seen = [[] for _ in (None, *self.names)]
        self.look, self.begun = self.options.min_samples, 0.0
        self.bell, self.process = self.peers.bell, self.peers.process
        assert self.process is not None
        self._asker = ThreadPoolExecutor(1)
        wide = self.options.warm_up_s * 10 + self.options.deadline_s * 2
        self.limit_s = BLOCKS_S + wide * len(self.names)
        self.process.allowance = Allowance(LIMIT_S)
        self.bell[END] = 0
        self.asked = self.bell[ASKED]
        self.process.let_go()
        names = [n for n, known in self.peers.names.items() if known in self.names]
        self._answer: Future[Mapping[str, Any]] = self._asker.submit(
            self.process.call, f"{INSIDE}:sample", (self.place, names))  # fmt: skip
        self._await()

    def _await(self) -> None:
        """Until their process asks for the next block; it stands still then."""
        assert self.process is not None
        self.asked += 1
        if not self.bell.wait(ASKED, self.asked, self.limit_s, pause_s=2e-4, alive=lambda: not self._answer.done()):
            self._failed()
        self.process.hold()

    def _failed(self) -> None:
        """Says which of them ended the loop; where none did, their process is of no more use."""
        if self._answer.done():
            found = self._answer.result()
            if "failed" in found and found.get("kind") not in ("timeout", "device-lost"):
                raise PeerFailed(self.peers.names[found["failed"]], f"failed while it was timed: {found['message']}"[:400])
            raise PortakernError("peer", f"a peer failed while it was timed: {found.get('message', 'it ended')}"[:400])
        raise PortakernError("timeout", "a peer did not finish while it was timed")

    def block(self) -> None:
        """One sample of each."""
        assert self.process is not None
        self.owed = False
        self.process.let_go()
        self.bell[SERVED] = self.asked
        self.blocks += 1
        self._await()
        for samples, us in zip(self.seen[1:], self.bell.figures, strict=False):
            samples.append(float(us))

    def enough(self, ours_us: Sequence[float]) -> bool:
        """Whether what was sampled settles it, as in a loop over contenders of one process; ``ours_us`` is our last one."""
        self.seen[0] += ours_us
        o, count = self.options, len(self.seen[0])
        if not count:
            self.begun = clock()
            return False
        if count >= min(5, o.min_samples) and clock() - self.begun > o.budget_s * len(self.seen):
            self.stopped = "budget"
        elif count >= o.max_samples:
            self.stopped = "samples"
        elif count >= self.look:
            self.look = max(self.look + 1, int(self.look * 1.3))
            self.stopped = "width" if settled(self.seen, o) else ""
        return bool(self.stopped)

    def end(self) -> list[tuple[str, Timing]]:
        """Their timings."""
        assert self.process is not None
        try:
            self.bell[END] = 1
            self.bell[SERVED] = self.asked
            self.process.let_go()
            found = self._answer.result(self.limit_s)
            if "timings" not in found:
                self._failed()
            return [(n, timing_of(t)) for n, t in zip(self.names, found["timings"], strict=True)]
        finally:
            self.process.hold()
            self._asker.shutdown(wait=False)
