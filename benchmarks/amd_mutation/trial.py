"""A kernel and its mutants on the inputs of a check, and what is true of the kernel as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from portakern.backend import CompiledBinary, Dispatch, HostBuffer, Source
from portakern.backends.rocm.amdgcn.execution.simulator import MachineProgram, Translated
from portakern.check.adversarial import KINDS, adversarial_inputs
from portakern.check.bounds import Val
from portakern.check.buffers import POISON
from portakern.check.expected import expected
from portakern.check.stages import Checking
from portakern.dtypes import DTYPES
from portakern.errors import PortakernError, SimulatorError
from portakern.ir.core import Arg
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.launch.dispatch import dispatch_sequence_of
from portakern.spec.inputs import Family, make_inputs
from portakern.tools.cache import Cache, digest

from .beside import FILLINGS, Beside, meeting
from .mutant import TRAP, Mutant
from .walk import Edge, reached
from .workshop import TRAPS, Edit, Workshop, trap

INFINITE = "infinite"
"""Stages beside those of a check: two infinities in one input, which tell whether what is multiplied by zero was loaded."""

PEAKS = "peaks"
"""A stage in which one number of each row is far above the others: a maximum that leaves it out overflows."""

EDGES = "edges"
"""Stages in which many rows of one input have an infinity among their first or last elements: what lies behind a row's end in
memory, and the last element that a clamped load repeats."""

MORE_SEEDS = (1, 2)
"""Of further inputs for what is neither caught nor equivalent: it may be wrong there, or agree with the kernel bit by bit."""


@dataclass(frozen=True, eq=False)
class Unit:
    """A kernel of a program: its text, its name, and how many work-items a workgroup has."""

    workshop: Workshop
    kernel: str
    items: int

    @property
    def one_wave(self) -> bool:
        return self.items <= (32 if self.workshop.kernel(self.kernel).spare.wave32 else 64)


@dataclass(frozen=True, eq=False)
class Changed:
    """A unit with lines changed; nothing is where ``unit`` is ``None``."""

    unit: Unit | None = None
    edit: Edit = field(default_factory=dict)
    other_formats: bool = False
    beside: Beside | None = None
    """The waves go both ways from the changed line on."""

    def translated(self, unit: Unit) -> Translated:
        """``unit`` as it is to be executed."""
        if unit is not self.unit:
            return unit.workshop.translated(unit.kernel, {})
        if self.beside is not None:
            return unit.workshop.beside(unit.kernel, self.edit, self.beside)
        return unit.workshop.translated(unit.kernel, self.edit, self.other_formats)


@dataclass
class Recorded(MachineProgram):
    """A program that remembers the bits of what it put out."""

    outputs: list[str] = field(default_factory=list)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        super().run(buffers, sizes)
        self.outputs.append(digest(*(_bits(buffers[a.name].array) for a in self.source.by_role("output"))))


def _bits(x: np.ndarray) -> bytes:
    """What is in an array, every NaN alike."""
    if x.dtype.kind in "iub":
        return x.tobytes()
    wide = x.astype(np.float32)
    return np.where(np.isnan(wide), np.float32(np.nan), wide).tobytes()


@dataclass
class Trial:
    """
    Args:
        source, binary: what was compiled.
        program: what it should compute, with its dims bound.
        sizes: values of the dims that are open in the binary.
        families: what inputs are filled with.
        stages: of a check, those to go through.

    Raises :class:`PortakernError` for what is wrong with the kernels as they are.
    """

    source: Source
    binary: CompiledBinary
    program: TensorProgram
    sizes: dict[str, int]
    families: Mapping[str, Family]
    stages: Sequence[str]
    budget: int = 50_000_000
    _inputs: dict[tuple[str, int], tuple[dict[str, np.ndarray], Mapping[str, Val]]] = field(default_factory=dict, repr=False)
    _own: dict[tuple[str, int], str] = field(default_factory=dict, repr=False)
    _cache: Cache = field(default_factory=Cache, repr=False)

    def __post_init__(self) -> None:
        steps = dispatch_sequence_of(self.source, self.binary, self.sizes).steps
        kernels = {(d.assembly, d.kernel): d for d in steps if isinstance(d, Dispatch)}
        shops = {text: Workshop(text) for text, _ in kernels}
        self.units = [Unit(shops[text], name, int(np.prod(d.block))) for (text, name), d in kernels.items()]
        matrices = [a.name for a in self.program.args if len(_float_shape(a)) > 1]
        self.stages = (*self.stages, PEAKS, *(f"{INFINITE} {n} {k}" for n in matrices for k in (0, 1)),
                       *(f"{EDGES} {n} 0" for n in matrices))  # fmt: skip
        first = self.executable(Changed())
        for stage in self.stages:
            if message := self._run(first, stage):
                raise PortakernError("incorrect", message)
        self.outputs = first.outputs
        self.budget = max(50_000, 2 * first.executed // max(1, len(first.outputs)))

    def executable(self, changed: Changed) -> Recorded:
        found = Recorded(self.source, self.binary, budget=self.budget, threads=1)
        for u in self.units:
            found._translated[u.workshop.text, u.kernel] = changed.translated(u)
        return found

    def problem(self, changed: Changed) -> tuple[str, list[str]]:
        """The first thing that is wrong, and the bits of what was put out until then."""
        program: Recorded | None = None
        try:
            program = self.executable(changed)
            for stage in self.stages:
                if message := self._run(program, stage):
                    return f"wrong: {message}", program.outputs
        except PortakernError as error:
            return error.message, program.outputs if program else []
        return "", program.outputs

    def elsewhere(self, changed: Changed) -> tuple[str, bool]:
        """What is wrong on further inputs, and whether what is put out there are the kernel's own bits."""
        program = self.executable(changed)
        same = True
        try:
            for seed in MORE_SEEDS:
                for stage in self.stages:
                    if message := self._run(program, stage, seed):
                        return f"wrong: {message} (seed {seed})", False
                    same = same and program.outputs[-1] == self._own_outputs(stage, seed)
        except SimulatorError as error:
            return error.message, False
        return "", same

    def _own_outputs(self, stage: str, seed: int) -> str:
        if (stage, seed) not in self._own:
            own = self.executable(Changed())
            if message := self._run(own, stage, seed):
                raise PortakernError("incorrect", f"with seed {seed}: {message}")
            self._own[stage, seed] = own.outputs[0]
        return self._own[stage, seed]

    def _run(self, executable: Recorded, stage: str, seed: int = 0) -> str:
        """What is wrong with the results of a stage; faults are raised."""
        checking = Checking(executable, self.program, self.sizes, self._cache)
        if (stage, seed) not in self._inputs:
            made = self._made(stage, seed)
            self._inputs[stage, seed] = made, expected(self.program, made, self._cache)
        inputs, wanted = self._inputs[stage, seed]
        outputs, _ = checking.run(stage, inputs, POISON[stage == "repeat"])
        for name, op in zip(self.program.outputs, self.program.results, strict=True):
            checking.compare(stage, name, tensor_type(op).dtype, wanted[name], outputs[name])
        return checking.verdict().message

    def _made(self, stage: str, seed: int) -> dict[str, np.ndarray]:
        kind, _, where = stage.partition(" ")
        if kind in KINDS:
            return dict(adversarial_inputs(kind, self.program, self.families, seed))
        made = dict(make_inputs(self.program, self.families, seed))
        if kind == PEAKS:
            return {n: _peaks(x, np.random.default_rng(seed)) for n, x in made.items()}
        if where:
            name, _, number = where.partition(" ")
            fill = _edges if kind == EDGES else _infinite
            made[name] = fill(made[name], np.random.default_rng([seed, int(number)]))
        return made

    # ---- what is true of the kernel as it is ---------------------------------------------------------------------

    def untripped(self, unit: Unit, checks: Mapping[int, Edit]) -> set[int]:
        """Those of ``checks``, by the number of their trap, that no input trips."""
        left = dict(checks)
        for stage in self.stages:
            while left:
                number = self._trapped(Changed(unit, _joined(left.values())), stage)
                if number is None:
                    break
                del left[number]
        return set(left)

    def _trapped(self, changed: Changed, stage: str) -> int | None:
        """The trap that is run into; ``None`` for none."""
        try:
            self._run(self.executable(changed), stage)
        except SimulatorError as error:
            found = re.search(r"line (\d+) of the assembly", error.message)
            if found is None or int(found[1]) < TRAPS:
                raise
            return int(found[1]) - TRAPS
        return None

    @cached_property
    def _never(self) -> dict[Unit, frozenset[Edge]]:
        return {}

    def never(self, unit: Unit) -> frozenset[Edge]:
        """The ways out of branches that are never taken."""
        if unit not in self._never:
            found: set[Edge] = set()
            branches = [i for i in unit.workshop.kernel(unit.kernel).instructions if i.mnemonic.startswith("s_cbranch")]
            for taken in (True, False):
                checks: dict[int, Edit] = {}
                for n, i in enumerate(branches):
                    kept = unit.workshop.line(i.line)
                    to = (f"{n}@{i.mnemonic} {trap(n)}", kept) if taken else (kept, f"{n}@s_branch {trap(n)}")
                    checks[n] = {i.line: to}
                found |= {(branches[n].line, taken) for n in self.untripped(unit, checks)}
            self._never[unit] = frozenset(found)
        return self._never[unit]

    def reaches(self, unit: Unit, line: int) -> bool:
        """Whether the line is ever executed."""
        return line in reached(unit.workshop.changed(unit.kernel, {}), unit.kernel, self.never(unit))

    def meets(self, unit: Unit, edit: Edit, stores: bool) -> str:
        """How the kernel and one with ``edit`` meet again (:mod:`.beside`); empty where they may not."""
        (line,) = edit
        assembly = unit.workshop.changed(unit.kernel, {})
        for join in meeting(assembly, unit.kernel, line, self.never(unit), stores):
            if not self.problem(Changed(unit, edit, beside=Beside(join, 0)))[0]:
                return "nothing that can be seen depends on what both ways leave different where they meet"
            for filling in FILLINGS:
                problem, outputs = self.problem(Changed(unit, edit, beside=Beside(join, filling)))
                if problem or outputs != self.outputs:
                    break
            else:
                return "other values in place of what both ways leave different change no bit of the results"
        return ""

    def same(self, unit: Unit, chosen: Sequence[Mutant]) -> set[int]:
        """The positions of those of ``chosen`` whose witnesses are never tripped."""
        rounds: list[dict[int, Edit]] = []
        for n, m in enumerate(chosen):
            if not m.witnessed:
                continue
            check = {m.line: _witness(m, n, unit.workshop.line(m.line))}
            free = next((r for r in rounds if all(m.line not in c for c in r.values())), None)
            if free is None:
                rounds.append(free := {})
            free[n] = check
        return set().union(*(self.untripped(unit, r) for r in rounds)) if rounds else set()


def _joined(edits: Iterable[Edit]) -> Edit:
    return {line: text for edit in edits for line, text in edit.items()}


def _witness(m: Mutant, n: int, kept: str) -> tuple[str, ...]:
    def numbered(lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{n}@{line.replace(TRAP, trap(n))}" for line in lines)

    return (*numbered(m.before), kept, *numbered(m.after))


def _float_shape(arg: Arg) -> tuple[object, ...]:
    t = tensor_type(arg)
    return tuple(t.shape) if DTYPES[t.dtype].is_float else ()


def _infinite(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """With an infinity as its last element or in its last row, and one elsewhere."""
    if not x.size:
        return x
    rows = x.reshape(-1, x.shape[-1]).copy()
    count, width = rows.shape
    rows[-1, -1 if rng.random() < 0.5 else int(rng.integers(width))] = np.inf
    rows[int(rng.integers(count)), int(rng.integers(width))] = np.inf
    return rows.reshape(x.shape)


def _edges(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """With an infinity in two of three rows: among the first or last eight elements, often the very last."""
    if not x.size:
        return x
    rows = x.reshape(-1, x.shape[-1]).copy()
    for row in rows:
        place = int(rng.integers(min(8, len(row))))
        where = int(rng.integers(6))
        if where < 4:
            row[(place, -1 - place, -1, place)[where]] = np.inf
    return rows.reshape(x.shape)


def _peaks(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if x.dtype.kind in "iub" or x.ndim < 2 or not x.size:
        return x
    rows = x.reshape(-1, x.shape[-1]).copy()
    rows[np.arange(len(rows)), rng.integers(rows.shape[1], size=len(rows))] = 120
    return rows.reshape(x.shape)
