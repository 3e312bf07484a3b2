"""The loop: propose, drop what cannot be or is far behind, compile, look at the results, race, check the winner, keep it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from portakern.errors import PortakernError, ToolMissing, UsageError
from portakern.ir.schedule import Nest, Schedule
from portakern.lower import laid_out, lower
from portakern.lower.choosing import default_schedule
from portakern.registry import registry
from portakern.study import provenance, steps
from portakern.study.row import Row, without_samples
from portakern.study.steps import Build
from portakern.study.work import Work
from portakern.timing.call_clock import HasClock
from portakern.tools.cache import digest
from portakern.tuned.database import Database, Entry, Trial
from portakern.tuning.cost import FAR_BEHIND
from portakern.tuning.lab import Lab, ScheduleCandidate
from portakern.tuning.proposers import Proposer, ProposerChoice, proposer_for
from portakern.tuning.racing import MARGIN, Final, Race
from portakern.tuning.space import Point, Space, space_of, text
from portakern.version import __version__

SEARCH_SHARE = 0.75
"""Of the budget; the rest is for the final race."""

GROUP = 4
"""Candidates that race together."""

BATCH = 8
"""Candidates that are compiled before any is timed, where both need the same processor."""

FINALISTS = 4

AGAIN = 12
"""Candidates of an earlier run that are timed again first."""

SPILLED = 64
"""Bytes of scratch memory per thread, or registers spilled, by which a candidate may exceed the default."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How to tune.

    ``budget_s`` is wall time of the search, from the default's first run to the winner's check; ``most`` the number of
    candidates compiled; ``proposer`` is ``auto``, ``exhaustive``, ``random`` or ``tpe``; ``resume`` takes over what an
    earlier run found.
    """

    budget_s: float = 60.0
    jobs: int = 2
    seed: int = 0
    margin: float = MARGIN
    resume: bool = False
    proposer: str = "auto"
    most: int | None = None


@dataclass
class Tuning:
    """What came of tuning.

    Attributes:
        by: ``time`` or ``estimate``.
        space: points in the space before anything is dropped; ``proposer`` says how it was searched.
        dropped: how many candidates were dropped, by reason: before compiling, by compiling, and after.
        tried: every candidate that was compiled, with its outcome and its time relative to the default's.
        default, best: schedules as text; ``default_us`` and ``best_us`` their medians in the final race.
        ratio: how many times as long the default takes (low, value, high); ``verdict`` of the best against the default.
        stored: whether the best was kept; ``note`` says why not, or what else is to be said.
        interrupted: whether it was ended before its time.
        row: the kept schedule's row: checked, and timed as ``bench`` does.
        peers: by estimate, what others make of the operator under the same model, as in a row's estimate.
    """

    work: Work
    by: str = "time"
    space: int = 0
    proposer: str = ""
    proposed: int = 0
    compiled: int = 0
    resumed: int = 0
    samples: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    tried: list[Trial] = field(default_factory=list)
    default: str = ""
    best: str = ""
    default_us: float | None = None
    best_us: float | None = None
    ratio: tuple[float, float, float] | None = None
    verdict: str | None = None
    stored: bool = False
    note: str = ""
    interrupted: bool = False
    seconds: float = 0.0
    row: Row | None = None
    peers: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        work = self.work
        return {
            "operator": work.row.operator, "target": work.target, "shape": work.row.shape, "dtype": work.row.dtype,
            "params": work.row.params, "key": str(work.key), "by": self.by, "space": self.space, "proposer": self.proposer,
            "proposed": self.proposed, "compiled": self.compiled, "resumed": self.resumed, "samples": self.samples,
            "dropped": dict(self.dropped), "default": self.default, "best": self.best, "default_us": self.default_us,
            "best_us": self.best_us, "ratio": self.ratio, "verdict": self.verdict, "stored": self.stored, "note": self.note,
            "interrupted": self.interrupted, "seconds": self.seconds, "peers": self.peers,
            "tried": [{"schedule": t.schedule, "outcome": t.outcome, "relative": t.relative, **t.detail} for t in self.tried],
            "row": None if self.row is None else without_samples(self.row).to_dict(),
        }  # fmt: skip


def nests_of(work: Work) -> list[Nest]:
    """The nests that lowering asks schedules for, in order.  Raises what lowering raises."""
    target = registry().target(work.target)
    language = registry().language(target.language)
    steps.refuse_dtypes(work.program, target)
    found: list[Nest] = []

    def choose(nest: Nest) -> Schedule:
        listed = language.schedules(nest, target.device)
        if not listed:
            raise UsageError(f"{target} has no schedule for a {nest.family} kernel")
        found.append(nest)
        return listed[0]

    laid = laid_out(work.program, work.weights)
    lower(laid.program if laid else work.program, choose, dict(work.names), dict(work.facts),
          default=lambda nest: default_schedule(language, nest, target))
    return found


def mode_of(work: Work) -> str:
    """``time`` where the silicon is here and the native core times it, ``estimate`` where the language can estimate.  Raises
    :class:`ToolMissing`."""
    target = registry().target(work.target)
    language = registry().language(target.language)
    missing = []
    if language.toolchain is not None and not (found := language.toolchain.available(target)):
        raise ToolMissing(f"nothing here compiles for {target}: {found.detail}", hint=steps.install_hint(language))
    if language.runtime is not None and not isinstance(language.runtime, HasClock):
        if found := language.runtime.available(target):
            return "time"
        missing.append(found.detail)
    if (estimator := registry().estimator(target)) is not None:
        if found := estimator.available(target):
            return "estimate"
        missing.append(found.detail)
    raise ToolMissing(f"{target} can be neither timed nor estimated here: {'; '.join(missing) or 'it has no runtime'}",
                      hint="tune where the device is; schedules that were tuned travel in the database")


class Tuner:
    """One search.

    Args:
        work: the operator at one shape and dtype on one target.
        lab: compiles, times and checks.
        database: where trials and the best are kept; ``None`` keeps nothing.
        settings: how.
        report: told what happens, a line at a time.
        by: ``time`` or ``estimate``.
        proposer: in place of the one that fits the space.
        space: in place of the one that the backend spans.
    """

    def __init__(
        self,
        work: Work,
        lab: Lab,
        database: Database | None,
        settings: Settings | None = None,
        report: Report = lambda line: None,
        by: str = "time",
        proposer: Callable[[Space], Proposer] | None = None,
        space: Space | None = None,
    ) -> None:
        self.work, self.lab, self.database, self.report = replace(work, schedule={}, chosen=None), lab, database, report
        self.settings = settings or Settings()
        self.target = registry().target(work.target)
        self.language = registry().language(self.target.language)
        self.space = space or space_of(nests_of(self.work), self.language, self.target.device)
        choice = (ProposerChoice(proposer(self.space), "as given") if proposer is not None
                  else proposer_for(self.space, self.settings.seed, self.settings.proposer))
        self.proposer = choice.proposer
        self.result = Tuning(self.work, by, self.space.size, choice.why)
        self._points: dict[str, Point] = {}
        self._made: dict[str, tuple[ScheduleCandidate, Build]] = {}
        self._sources: dict[str, str] = {}
        self._known: dict[str, Trial] = {}
        self._again: list[Point] = []
        self._handed_out = 0
        self._least: float | None = None
        self._race: Race | None = None
        self._estimates: dict[str, float] = {}

    # ---- the whole of it

    def run(self) -> Tuning:
        """Tune.  An interrupt ends the search: what was found until then is in the result, and in the database.

        Raises what keeps the default schedule from being compiled and run: there is nothing to compare with then.
        """
        begun = time.monotonic()
        try:
            self._begin()
            self._end = time.monotonic() + self.settings.budget_s
            self._search_end = time.monotonic() + SEARCH_SHARE * self.settings.budget_s
            self._search()
            self._finish()
        except KeyboardInterrupt:
            self.result.interrupted = True
            self._leader()
        self.result.seconds = time.monotonic() - begun
        if self.result.by == "estimate" and not self.result.interrupted:
            self._compare_estimates()
        if self._race is not None:
            self.result.samples = self._race.spent
        return self.result

    def _compare_estimates(self) -> None:
        estimator = registry().estimator(self.target)
        if estimator is not None and self.result.best_us:
            self.result.peers = steps.estimated_peers(estimator, self.target, self.work, self.result.best_us)

    def _begin(self) -> None:
        if self.database is not None:
            if self.settings.resume:
                self._known = self.database.trials(self.run_key)
                self._again = again(self._known.values())
            else:
                self.database.forget_trials(self.run_key)
        self.lab.begin(self.work)
        point = self.space.default
        self.result.default = self.result.best = text(point)
        default = self._candidate(point)
        assert default is not None
        ((_, made),) = list(self.lab.builds([default], list))
        _raise(made.row)
        self._made[default.name] = default, made
        if self.result.by == "estimate":
            self._estimates[default.name] = _estimate(made)
        else:
            if (error := self.lab.admit(default, made)) is not None:
                raise error
            self._race = Race(self.lab, default.name, margin=self.settings.margin, seed=self.settings.seed)
        self.proposer.tell(point, 1.0)
        self.report(f"{self.space.size} schedules in the space, {self.result.proposer}; default {text(point)}")

    @property
    def run_key(self) -> str:
        """What trials must have in common to be compared: everything that decides a time but the schedule."""
        toolchain = self.language.toolchain
        fingerprint = toolchain.fingerprint(self.target) if toolchain is not None else ""
        here = provenance.environment()
        return digest("tuning run", str(self.work.key), self.work.program.digest, sorted(self.work.sizes.items()),
                      self.work.target, fingerprint,
                      self.language.emitter_version, str(here.get("machine_id")), self.result.by)  # fmt: skip

    # ---- candidates

    def _candidate(self, point: Point) -> ScheduleCandidate | None:
        """The point as something to compile; ``None`` for one whose text another point gave before."""
        work = replace(self.work, chosen=self.space.chosen(point))
        source, _ = steps.emit(work)
        if source.digest in self._sources:
            return None
        name = str(len(self._sources))
        self._sources[source.digest] = name
        self._points[name] = point
        return ScheduleCandidate(name, work, source)

    def _next(self) -> list[ScheduleCandidate]:
        """One more candidate that is worth compiling, or none."""
        while time.monotonic() < self._search_end and not self._enough():
            point = self._again.pop(0) if self._again else self.proposer.ask()
            if point is None:
                return []
            if point == self.space.default:
                continue
            self.result.proposed += 1
            reason = self.space.refused(point) or self._far_behind(point)
            if reason:
                self._drop(point, reason)
                continue
            try:
                candidate = self._candidate(point)
            except PortakernError as error:
                self._drop(point, f"cannot be emitted ({error.kind})")
                continue
            if candidate is None:
                self._drop(point, "the same kernel as another")
            elif not self._taken_over(candidate):
                self._handed_out += 1
                return [candidate]
        return []

    def _enough(self) -> bool:
        return self.settings.most is not None and self._handed_out >= self.settings.most

    def _far_behind(self, point: Point) -> str:
        cost = self.space.cost(point)
        if cost is None:
            return ""
        if self._least is None:
            self._least = self.space.cost(self.space.default) or cost
        self._least = min(self._least, cost)
        return f"estimated at over {FAR_BEHIND:g} times the best" if cost > FAR_BEHIND * self._least else ""

    def _drop(self, point: Point, reason: str) -> None:
        self.result.dropped[reason] += 1
        self.proposer.tell(point, None)

    def _taken_over(self, candidate: ScheduleCandidate) -> bool:
        """Whether an earlier run says what there is to know; those that might win are compiled and timed again.

        An estimate is what it was, so only those below the default's are looked at again.
        """
        trial = self._known.get(candidate.source.digest)
        if trial is None:
            return False
        self.result.resumed += 1
        behind = trial.outcome == "estimated" and (trial.relative or 0.0) > 1
        if trial.outcome == "timed" or (trial.outcome == "estimated" and not behind):
            return False
        self.proposer.tell(self._points[candidate.name], trial.relative)
        self.result.tried.append(trial)
        return True

    # ---- searching

    def _search(self) -> None:
        if self.lab.overlap:
            ready: list[tuple[ScheduleCandidate, Build]] = []
            for candidate, made in self.lab.builds(self._several(2 * self.settings.jobs + 1), self._next):
                ready.append((candidate, made))
                if len(ready) >= GROUP:
                    self._contend(ready)
                    ready = []
            self._contend(ready)
            return
        while batch := self._several(BATCH):
            built = list(self.lab.builds(batch, list))
            for i in range(0, len(built), GROUP):
                self._contend(built[i : i + GROUP])

    def _several(self, count: int) -> list[ScheduleCandidate]:
        found: list[ScheduleCandidate] = []
        while len(found) < count and (more := self._next()):
            found += more
        return found

    def _contend(self, built: Sequence[tuple[ScheduleCandidate, Build]]) -> None:
        """Compiled candidates: what is wrong with them, and how they fare in the race."""
        able: list[str] = []
        for candidate, made in built:
            self.result.compiled += 1
            outcome, reason = self._unfit(candidate, made)
            if outcome:
                self.result.dropped[reason] += 1
                self._tell(candidate.name, outcome, None, {"error": reason})
                continue
            self._made[candidate.name] = candidate, made
            able.append(candidate.name)
        if self._race is None:
            for name in able:
                if self._made[name][1].row.estimate is None:
                    self.result.dropped["no estimate"] += 1
                    self._tell(name, "failed", None, {"error": "no estimate"})
                    continue
                self._estimates[name] = _estimate(self._made[name][1])
                self._tell(name, "estimated", self._estimates[name] / self._estimates["0"], {"us": self._estimates[name]})
            return
        if not able:
            return
        before = self._race.best
        for s in self._race.enter(able):
            if s.error is not None:
                self.result.dropped[f"could not be timed ({s.error.kind})"] += 1
                self._tell(s.name, "failed", None, {"error": s.error.message})
            else:
                outcome = "slower" if s.state == "slower" else "timed"
                self._tell(s.name, outcome, s.relative, {"us": s.median_us, "samples": s.samples})
        if self._race.best != before:
            best = self._race.standings[self._race.best]
            self.report(f"{best.relative:.3f} of the default's time: {text(self._points[best.name])}")
        self._leader()

    def _unfit(self, candidate: ScheduleCandidate, made: Build) -> tuple[str, str]:
        """(outcome, reason) for a candidate that goes no further; empty for one that does."""
        if made.row.error is not None:
            return "failed", f"does not compile ({made.row.error['kind']})"
        if reason := over_resources(made.row.resources, self._made["0"][1].row.resources):
            return "spills", reason
        if self._race is not None and (error := self.lab.admit(candidate, made)) is not None:
            return ("incorrect", "wrong results") if error.kind == "incorrect" else ("failed", f"does not run ({error.kind})")
        return "", ""

    def _tell(self, name: str, outcome: str, relative: float | None, detail: Mapping[str, Any]) -> None:
        point = self._points[name]
        self.proposer.tell(point, relative)
        source = self._source(name)
        said = {k: v for k, v in detail.items() if v is not None}
        trial = Trial(source, text(point), outcome, relative, said, provenance.now())
        self.result.tried.append(trial)
        if self.database is not None:
            self.database.add_trial(self.run_key, trial)

    def _source(self, name: str) -> str:
        return next(d for d, n in self._sources.items() if n == name)

    def _leader(self) -> None:
        """The best so far, into the result."""
        if self._race is not None:
            best = self._race.standings[self._race.best]
            self.result.best, self.result.best_us = text(self._points[best.name]), best.median_us
        elif self._estimates:
            name = min(self._estimates, key=lambda n: self._estimates[n])
            self.result.best, self.result.best_us = text(self._points[name]), self._estimates[name]

    # ---- the end

    def _finish(self) -> None:
        ranking = self._estimated() if self._race is None else self._raced(self._race)
        for name in ranking:
            if name == "0":
                self.result.best, self.result.best_us = text(self._points["0"]), self.result.default_us
                self.result.note = self.result.note or "the default is the best: nothing to keep"
                self._forget()
                return
            candidate, made = self._made[name]
            if not made.runner:
                self.result.note = "not kept: nothing here can run the best to check it"
                return
            self.report(f"checking {text(self._points[name])}")
            row = self.lab.check(candidate, made)
            if row.correct:
                self.result.best, self.result.row = text(self._points[name]), row
                self._keep(name)
                if self._race is not None:
                    self.result.row = self.lab.time(candidate, row, made)
                return
            message = (row.error or {}).get("message", "it was not checked")
            self.result.dropped["the whole check fails"] += 1
            self.report(f"not correct: {message}")
            self._tell(name, "incorrect", None, {"error": message})

    def _estimated(self) -> list[str]:
        order = sorted(self._estimates, key=lambda n: self._estimates[n])
        self.result.default_us, self.result.best_us = self._estimates["0"], self._estimates[order[0]]
        gain = self._estimates["0"] / self._estimates[order[0]]
        return order if gain > 1 + self.settings.margin else ["0"]

    def _raced(self, race: Race) -> list[str]:
        """Names to keep, best first, after the final race; ``"0"`` alone where none beats the default beyond the margin."""
        final = race.final(race.finalists(FINALISTS), until=lambda: time.monotonic() > self._end)
        self._note_final(final)
        if final.against is None:
            return ["0"]
        if final.against.verdict != "FASTER":
            verdict = final.against.verdict
            self.result.note = f"the default stays: {text(self._points[final.winner])} is {verdict} in the final race"
            return ["0"]
        return [n for n in final.ranking if n == final.winner or n != "0"] + ["0"]

    def _note_final(self, final: Final) -> None:
        self.result.default_us, self.result.best_us = final.default_us, final.median_us
        self.result.best = text(self._points[final.winner])
        if final.against is not None:
            self.result.ratio = (final.against.low, final.against.value, final.against.high)
            self.result.verdict = final.against.verdict

    def _keep(self, name: str) -> None:
        if self.database is None or self.work.key is None:
            self.result.note = "not kept: there is no database"
            return
        nests = tuple(self.space.for_nests(self._points[name]))
        self.database.put(Entry(self.work.key, self.work.row.operator, nests, self.language.emitter_version, self.result.by,
                                self._provenance()))  # fmt: skip
        self.result.stored = True

    def _forget(self) -> None:
        """An entry that lost to the default goes, where it is the user's own and timed on this machine."""
        if self.database is not None and self.work.key is not None and self.database.find(self.work.key) is not None:
            self.database.forget(self.work.key)
            self.result.note += "; the entry that there was is taken out"

    def _provenance(self) -> dict[str, Any]:
        here, facts = provenance.environment(), dict(self.lab.facts())
        ratio = self.result.ratio
        row = self.result.row
        return {
            "taken": provenance.now(), "portakern": __version__, "commit": here.get("commit"), "dirty": here.get("dirty"),
            "device": facts.get("device") or (row.device if row is not None else None), "driver": facts.get("driver"),
            "mode": facts.get("mode"), "suspicions": list(facts.get("suspicions", ())), "libraries": here.get("libraries"),
            "toolchain": self.language.toolchain.fingerprint(self.target) if self.language.toolchain is not None else None,
            "shape": self.work.row.shape, "params": self.work.row.params, "default": self.result.default,
            "default_us": self.result.default_us, "us": self.result.best_us,
            "times_as_fast": None if ratio is None else {"low": ratio[0], "value": ratio[1], "high": ratio[2]},
            "verdict": self.result.verdict, "candidates": self.result.compiled,
            "checked": row.method if row is not None else None,
            "max_error_ratio": row.max_error_ratio if row is not None else None,
        }  # fmt: skip


def again(trials: Iterable[Trial]) -> list[Point]:
    """What did best in an earlier run, to be timed (or estimated) first in this one."""
    kept = ("timed", "estimated")
    timed = sorted((t for t in trials if t.outcome in kept and t.relative is not None), key=lambda t: t.relative or 0.0)
    return [tuple(map(Schedule.parse, t.schedule.split("; "))) for t in timed[:AGAIN]]


def over_resources(used: Mapping[str, Any] | None, default: Mapping[str, Any] | None) -> str:
    """What the binary says against a candidate; empty where nothing does."""
    if not used:
        return ""
    if used.get("occupancy") == 0:
        return "does not fit on a unit"
    for key, words in (("spills", "spills registers"), ("scratch_bytes", "needs scratch memory")):
        if (used.get(key) or 0) > ((default or {}).get(key) or 0) + SPILLED:
            return words
    return ""


def _estimate(made: Build) -> float:
    if made.row.estimate is None:
        raise PortakernError("no-estimate", f"{made.row.target} gave no estimate")
    return float(made.row.estimate["us"])


def _raise(row: Row) -> None:
    if row.error is not None:
        raise PortakernError(row.error["kind"], f"the default schedule: {row.error['message']}", hint=row.error.get("hint", ""))


