"""Plans in the making: pieces are emitted here, built and estimated in workers, and profiled where their device is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from portakern.backend import Language, Target
from portakern.check.agreement import agreement
from portakern.device import Device
from portakern.errors import PortakernError
from portakern.ir.program import Program, turns
from portakern.ir.tensor import tensor_type
from portakern.launch.dispatch import bytes_of
from portakern.model_study.building import times_by_core
from portakern.model_study.naming import Place, any_layer, common, places, words
from portakern.model_study.pieces import Piece, pieces_of
from portakern.model_study.profile import Profile, Use
from portakern.model_study.roof import Peak, Roof, bound, higher, needs_of, needs_of_model, stated
from portakern.model_study.study import KernelRow, TargetPlan
from portakern.registry import registry
from portakern.study import steps
from portakern.study.row import Row
from portakern.study.slots import Slots, SlotTask, room
from portakern.study.steps import Build
from portakern.study.under_way import explain
from portakern.study.work import Work
from portakern.tools.workers import Job, Outcome
from portakern.torch_import.operator import ImportedOperator

BUILD_LIMIT_S, PROFILE_LIMIT_S = 600.0, 1800.0
PROFILE = {"budget_s": 0.5, "min_samples": 10}
"""How each piece is timed, and the whole."""

Progress = Callable[[int, int, str], None]
"""Called with how much is done, of how much, and what was done last."""

@dataclass(frozen=True)
class Expected:
    """What outputs are compared with: the module's in float64 as far as that tells them, others of the float64 oracle."""

    by_module: Mapping[str, np.ndarray] = field(default_factory=dict)
    by_oracle: Mapping[str, np.ndarray] = field(default_factory=dict)


Reference = Callable[[], Expected]


def plans(op: ImportedOperator, works: Sequence[Work], given: Mapping[str, np.ndarray], reference: Reference, jobs: int,
          progress: Progress | None = None) -> Iterator[TargetPlan]:  # fmt: skip
    """A plan for each work, in their order.

    Args:
        op: the model.
        works: one for each target.
        given: its inputs and weights, where it is profiled.
        reference: what the outputs of a profile are compared with.
    """
    making = [_Plan(op, replace(w, families={}), given) for w in works]
    left = _Tally(progress)
    tasks = [task for n, plan in enumerate(making) for task in plan.begin(n)]
    left.add(len(tasks))

    def follow(task: SlotTask, outcome: Outcome) -> list[SlotTask]:
        number = outcome.id[0]  # type: ignore[index]
        after = making[number].after(number, outcome)
        left.add(len(after))
        left.done(str(making[number].target))
        return after

    if tasks:
        with Slots(jobs) as slots:
            for _ in slots.run(tasks, follow):
                pass
    expected = reference() if any(p.profile is not None for p in making) else Expected()
    measured: dict[str, Roof] = {}
    for plan in making:
        if plan.profile is not None:  # languages of one device share what any of them measured there
            device = plan.target.device.name
            measured[device] = higher(measured.get(device, Roof()), plan.measured(plan.profile))
    for plan in making:
        yield plan.finished(expected, measured.get(plan.target.device.name, Roof()))


@dataclass
class _Tally:
    progress: Progress | None
    total: int = 0
    reached: int = 0

    def add(self, count: int) -> None:
        self.total += count

    def done(self, what: str) -> None:
        self.reached += 1
        if self.progress is not None:
            self.progress(self.reached, self.total, what)


WHOLE, PROFILED, PREPARATION = -1, -2, -3
"""Jobs that are no piece's."""


@dataclass
class _Plan:
    """One target's plan under construction.  Jobs are (number of the plan, number of the piece that stands for its equals)."""

    op: ImportedOperator
    work: Work
    given: Mapping[str, np.ndarray]
    pieces: list[Piece] = field(default_factory=list)
    first: dict[str, int] = field(default_factory=dict)
    built: dict[int, Build] = field(default_factory=dict)
    program: Program | None = None
    preparation: Program | None = None
    launches: int | None = None
    profile: Profile | None = None
    error: PortakernError | None = None

    @property
    def target(self) -> Target:
        return registry().target(self.work.target)

    @property
    def language(self) -> Language:
        return registry().language(self.target.language)

    # ---- jobs

    def begin(self, number: int) -> list[SlotTask]:
        """What is to be built, after the model was emitted here."""
        try:
            found = steps.emission(replace(self.work, weights=self.op.weights))
        except PortakernError as error:
            self.error = error
            return []
        self.work, self.program = found.work, found.program
        self.preparation = found.preparation[1] if found.preparation is not None else None
        self.pieces = pieces_of(found.program)
        self.launches = _launches(len(found.source.launches), found.source.repeats) or _launches(
            len(found.program.kernels), found.program.repeats)  # fmt: skip
        for n, piece in enumerate(self.pieces):
            self.first.setdefault(piece.key, n)
        return [self._build(number, n, self.pieces[n].program) for n in self.first.values()]

    def _build(self, number: int, piece: int, program: Program) -> SlotTask:
        job = Job((number, piece), "portakern.model_study.building:build", (self.work, program), {}, BUILD_LIMIT_S)
        return SlotTask(room(self.language.name, steps.build_environment(self.language)), job)

    def after(self, number: int, outcome: Outcome) -> list[SlotTask]:
        job = outcome.id[1]  # type: ignore[index]
        if job == PROFILED:
            self.profile = outcome.value
            self.error = None if outcome.error is None else explain(outcome.error, self.work, "time")
            return []
        failed = None if outcome.error is None else explain(outcome.error, self.work, "build")
        self.built[job] = outcome.value if failed is None else Build(self.work.row.failed(failed))
        wholes = {WHOLE: self.program, PREPARATION: self.preparation}
        wanted = {n: p for n, p in wholes.items() if p is not None}
        if job in wanted:
            return self._profile(number) if wanted.keys() <= self.built.keys() else []
        runs_here = times_by_core(self.language) and all(b.runner == "runtime" and b.row.error is None
                                                         for b in self.built.values())  # fmt: skip
        if len(self.built) == len(self.first) and runs_here:
            return [self._build(number, n, p) for n, p in wanted.items()]
        return []

    def _profile(self, number: int) -> list[SlotTask]:
        whole, preparation = self.built[WHOLE], self.built.get(PREPARATION)
        for error in (b.row.error for b in (whole, preparation) if b is not None and b.row.error is not None):
            self.error = PortakernError(error["kind"], error["message"], error.get("hint", ""))
            return []
        order = list(self.first.values())
        uses = [Use(order.index(self.first[p.key]), p.arrays) for p in self.pieces]
        args = (self.program, whole, [self.built[n] for n in order], uses, self.given, preparation, PROFILE)
        job = Job((number, PROFILED), "portakern.model_study.profile:profile", args, {}, PROFILE_LIMIT_S)
        return [SlotTask(room(self.language.name, steps.run_environment(self.target, "runtime")), job)]

    # ---- what comes of it

    def finished(self, expected: Expected, measured: Roof) -> TargetPlan:
        """The plan; ``expected`` are the model's outputs, ``measured`` what its device was seen to do."""
        product = _product(self.target, self.language.name)
        roof = stated(product)
        if roof.bandwidth is None:
            roof = measured
        device = self.profile.device if self.profile is not None else product.title
        checked, wrong = self._checked(expected)
        error = wrong or self.error
        rows = self._rows(roof, checked if wrong is None else "")
        whole = self.profile.whole if self.profile is not None and wrong is None else None
        floor = bound(needs_of_model(self.work.program), roof)
        return TargetPlan(str(self.target), device, tuple(rows), self.launches, whole, floor, roof, self._rereads(),
                          checked, error.to_dict() if error else None,
                          len(self.preparation.kernels) if self.preparation is not None else 0)  # fmt: skip

    def measured(self, profile: Profile) -> Roof:
        """What the device was seen to do: a copy, and the highest rate of arithmetic of anything that ran there, by the peak
        that counts for it."""
        best = dict(profile.roof.peaks)  # others are not added: the best of few small kernels is no peak
        for n, time in zip(self.first.values(), profile.pieces, strict=True):
            needs = needs_of(self.pieces[n])
            rate, names = needs.flops / time["median_us"] * 1e6, {p.peak for p in needs.parts}
            if len(names) == 1 and (name := names.pop()) in best and rate > best[name].per_s:
                best[name] = Peak(rate, f"reached by {self.pieces[n].program.name} of this model")
        return replace(profile.roof, peaks=best)

    def _checked(self, expected: Expected) -> tuple[str, PortakernError | None]:
        """What the outputs of the profile were compared with, and how they differ."""
        if self.profile is None:
            return "", None
        outputs = self.profile.outputs
        dtypes = tuple(dict.fromkeys(tensor_type(x).dtype for x in (*self.work.program.results, *self.work.program.args)))
        told = []
        for whose, values in (("the module in float64", expected.by_module), ("the float64 oracle", expected.by_oracle)):
            found = {name: agreement(x, outputs[name], dtypes) for name, x in values.items()}
            for name, held in found.items():
                if held.message:
                    return "", PortakernError("incorrect", f"{name} against {whose}: {held.message}",
                                              hint="a wrong result has no time; portakern.torch_import.agreement says whether "
                                                   "the import or a kernel is wrong")  # fmt: skip
            if found:
                told.append(f"{len(found)} output{'s' if len(found) > 1 else ''} within "
                            f"{max(held.worst for held in found.values()):.2g} of a value of {whose}")  # fmt: skip
        if not told:
            return "", PortakernError("not-checked", "no output could be compared: random numbers reach all of them, and the "
                                      "float64 oracle would take minutes", hint="import a smaller example")  # fmt: skip
        apart = len(outputs) - len(expected.by_module) - len(expected.by_oracle)
        return "; ".join([*told, *([f"{apart} not compared"] if apart else [])]), None

    def _rows(self, roof: Roof, checked: str) -> list[KernelRow]:
        found = places(self.pieces)
        weights = self._on_weights_alone()
        rows = []
        for n in self.first.values():
            equal = [m for m, p in enumerate(self.pieces) if p.key == self.pieces[n].key]
            piece, needs = self.pieces[n], needs_of(self.pieces[n])
            path, place = common([found[m].path for m in equal]), found[n]
            layers = Counter(self._named(any_layer(found[m].path), found[m]) for m in equal)
            rows.append(KernelRow(
                self._named(path, place), tuple(layers.items()),
                words(piece), n + 1, tuple(k.name for m in equal for k in self.pieces[m].program.kernels), len(equal),
                self._launches_of(n), needs, bound(needs, roof), all(m in weights for m in equal), self._row(n, checked),
            ))  # fmt: skip
        return rows

    def _named(self, path: str, place: Place) -> str:
        name = path or self.op.name
        name = f"{name} ({place.line})" if place.line else name
        return f"for {name}" if place.feeds else name

    def _row(self, piece: int, checked: str) -> Row:
        row = self.built[piece].row if piece in self.built else self.work.row
        if self.profile is None or not checked:
            return row
        time = self.profile.pieces[list(self.first.values()).index(piece)]
        method = f"{row.method}; run on {self.profile.device}, {checked}"
        return row.but(evidence="timed", correct=True, time=time, method=method, device=self.profile.device)

    def _rereads(self) -> int:
        """Bytes of arrays between pieces that readers after the second read."""
        readers = Counter(a.name for p in self.pieces for a in p.program.by_role("input"))
        between = self.program.by_role("temporary") if self.program is not None else ()
        return sum(bytes_of(a, {}) * max(0, readers[a.name] - 2) for a in between)

    def _launches_of(self, piece: int) -> int:
        source, program = self.built[piece].source if piece in self.built else None, self.pieces[piece].program
        if source is not None and source.launches:
            return _launches(len(source.launches), source.repeats)
        return _launches(len(program.kernels), program.repeats)

    def _on_weights_alone(self) -> set[int]:
        """Pieces that read nothing but weights and what was made of weights, and write no part of anything else."""
        reads = [{a.name for a in p.program.by_role("input", "scalar")} for p in self.pieces]
        writes = [{a.name for a in p.program.by_role("output")} for p in self.pieces]
        varies = {a.name for a in self.work.program.args} - set(self.op.paths)
        known = -1
        while known != len(varies):
            known = len(varies)
            for n in range(len(self.pieces)):
                if (reads[n] | writes[n]) & varies:
                    varies |= writes[n]
        return {n for n in range(len(self.pieces)) if reads[n] and not (reads[n] | writes[n]) & varies}


def _launches(count: int, repeats: Sequence[Any]) -> int:
    return sum(1 for _ in turns(count, repeats, {}))


def _product(target: Target, language: str) -> Device:
    """What figures are of: the product, or the one that an instruction set names."""
    device = target.device
    return registry().devices(language).get(device.default_product, device) if not device.product else device
