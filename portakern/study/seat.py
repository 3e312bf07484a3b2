"""Judging kernels one after the other in a process that stays: the side that judges, behind
:class:`portakern.study.judging.Judge`.

It holds what must be kept from kernels (secrets, the oracle, bounds, comparisons) and, per environment, a nursery whose
processes hold one kernel each.  A kernel is compiled and checked in the same process where both want the same environment,
since either step runs what the kernel's author wrote; it is timed in a new interpreter, as everywhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from portakern.backend import Target
from portakern.check.pool import Pool
from portakern.errors import PortakernError
from portakern.referee.nursery import Nursery
from portakern.referee.process import Allowance, KernelProcess
from portakern.referee.zygote import Rehearsals
from portakern.registry import registry
from portakern.study import peers_apart, steps, stranger, timing
from portakern.study.peers_apart import PeerProcess
from portakern.study.rehearsed import rehearsals_for
from portakern.study.row import Row
from portakern.study.steps import Build
from portakern.study.work import Work
from portakern.timing.measure import Options

Environment = tuple[tuple[str, str], ...]


class Seat:
    """Where one kernel after the other is judged."""

    def __init__(self) -> None:
        self.nurseries: dict[tuple[str, Environment], Nursery] = {}
        self.held: dict[Environment, KernelProcess] = {}
        self.allowance = Allowance(0.0)
        self.peers: PeerProcess | None = None
        self.peers_of: object = None

    def begin(self, limit_s: float) -> None:
        """A kernel comes whose processes have so many seconds."""
        self.finish()
        self.allowance = Allowance(limit_s)

    def finish(self) -> None:
        """Ends the processes of the kernel that was here."""
        while self.held:
            self.held.popitem()[1].close()

    @contextlib.contextmanager
    def lend(self, work: Work, doing: str, environment: Mapping[str, str] | None) -> Iterator[KernelProcess]:
        """A process for a step of this kernel, which no other kernel was in."""
        assert work.foreign is not None
        if doing == "timing":
            with self._fresh(work, environment) as process:
                yield self._told(process, work, doing)
            return
        key = tuple(sorted((environment or {}).items()))
        process = self.held.get(key)
        if process is None or not process.alive():
            if process is not None:
                self.held.pop(key).close()
            nursery = self._nursery(work, key)
            self.held[key] = process = nursery.take(stranger.doing_text(work, doing))
            nursery.prepare()
        yield self._told(process, work, doing)

    @contextlib.contextmanager
    def lend_peers(self, work: Work, names: tuple[str, ...], options: Options, environment: Mapping[str, str] | None
                   ) -> Iterator[PeerProcess]:  # fmt: skip
        """The same ones for every kernel of the same work."""
        of = (work.program.digest, tuple(sorted(work.sizes.items())), names)
        if self.peers is not None and self.peers_of != of:
            self._end_peers()
        if self.peers is None:
            self.peers, self.peers_of = PeerProcess(work, names, options, environment), of
        try:
            yield self.peers
        finally:
            if not self.peers.whole:
                self._end_peers()

    def _end_peers(self) -> None:
        if self.peers is not None:
            self.peers.close()
            self.peers = None

    def _told(self, process: KernelProcess, work: Work, doing: str) -> KernelProcess:
        process.doing = stranger.doing_text(work, doing)
        process.allowance = self.allowance
        return process

    def _fresh(self, work: Work, environment: Mapping[str, str] | None) -> KernelProcess:
        assert work.foreign is not None
        return KernelProcess(work.foreign.jail, work.foreign.memory_bytes, start=stranger.interpreter(work, environment))

    def _nursery(self, work: Work, environment: Environment) -> Nursery:
        key = (work.target, environment)
        if key not in self.nurseries:
            assert work.foreign is not None
            target = registry().target(work.target)
            language = registry().language(target.language)
            variables = {**dict(environment), **registry().environment_for(language.name)}
            self.nurseries[key] = Nursery(language.name, variables, language.preload, _rehearsals(target, environment),
                                          work.foreign.jail, work.foreign.memory_bytes)  # fmt: skip
        return self.nurseries[key]

    def warm(self, work: Work) -> None:
        """Has processes ready for what is to come."""
        target = registry().target(work.target)
        language = registry().language(target.language)
        runner, _ = steps.runner_for(language, target)
        for environment in (steps.build_environment(language), steps.run_environment(target, runner) if runner else {}):
            self._nursery(work, tuple(sorted(environment.items()))).prepare()

    def settle(self) -> None:
        """Nothing is being prepared when this returns."""
        for nursery in self.nurseries.values():
            nursery.settle()

    def close(self) -> None:
        self.finish()
        self._end_peers()
        for nursery in self.nurseries.values():
            nursery.close()
        self.nurseries.clear()


def _rehearsals(target: Target, environment: Environment) -> Rehearsals:
    """In the environment in which kernels run they are compiled and run, in one for compiling they are compiled."""
    language = registry().language(target.language)
    runner, _ = steps.runner_for(language, target)
    runs = bool(runner) and tuple(sorted(steps.run_environment(target, runner).items())) == environment
    return rehearsals_for(target, runner if runs else "")


_seat: Seat | None = None


def seat() -> Seat:
    global _seat
    if _seat is None:
        _seat = Seat()
        stranger.lent = _seat.lend
        peers_apart.lent = _seat.lend_peers
        stranger.pool = Pool()
    return _seat


# ---- what the process is told to do ------------------------------------------------------------------------------------------


def warm(work: Work) -> None:
    with contextlib.suppress(PortakernError):  # what is missing will be in the rows
        seat().warm(work)


def build(work: Work, limit_s: float, estimate: bool, last: bool) -> Build:
    """The first step of a kernel; with ``last`` the only one."""
    seat().begin(limit_s)
    try:
        return steps.build(work, estimate)
    finally:
        if last:
            seat().finish()


def check(work: Work, made: Build) -> Row:
    try:
        return steps.check(work, made)
    finally:
        seat().finish()


def time_it(work: Work, made: Build, limit_s: float, options: Mapping[str, Any]) -> Row:
    seat().begin(limit_s)
    seat().settle()
    return timing.time(work, made, **options)

