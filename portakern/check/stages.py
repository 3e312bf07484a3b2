"""Running an executable through the stages of a check.

``values``       outputs within their bounds; nothing written outside an array, no input changed, no element left out
``repeat``       run again with other poison in outputs and guard bands: the same bits
``large`` ...    the inputs of :mod:`portakern.check.adversarial`, on small programs
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from portakern.backend import Executable, HostBuffer
from portakern.check.adversarial import KINDS, adversarial_inputs
from portakern.check.alike import count_of_differences, digest_of, same_bytes
from portakern.check.bounds import Val, says_little
from portakern.check.buffers import POISON, Poison, damage, guarded, unwritten
from portakern.check.compare import compare
from portakern.check.expected import expected
from portakern.dtypes import numpy_dtype
from portakern.ir.oracle import static
from portakern.ir.size import evaluate
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.referee.secret import Secret
from portakern.spec.bind import bind
from portakern.spec.inputs import Family, make_inputs
from portakern.tools.cache import Cache

REPEAT_WITHIN_S = 1.0
"""A run that took longer is not repeated, save where adversarial stages follow."""

SMALL = (32, 100_000)
"""Programs with as many elements in inputs and outputs get adversarial stages unless said otherwise."""

QUICK_S = 0.2
SLOW_KINDS = ("steep", "nonfinite", "integers")
"""The adversarial stages of a small program whose run takes longer than ``QUICK_S``, as in an interpreter."""

EXACT_KINDS = ("integers", "sparse")
"""The adversarial stages of a program that is quick though not small: what makes long sums tell."""


@dataclass(frozen=True)
class Failure:
    """A stage that went wrong, and how."""

    stage: str
    message: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.message}"


@dataclass(frozen=True)
class Verdict:
    """``correct`` is whether every stage in ``stages`` passed; ``max_error_ratio`` the largest error over its bound.

    ``fingerprint`` is a hash of every output of every stage: two executables with the same one did the same.  ``left_out`` are
    stages for which there was no time.  ``little`` are outputs of whose numbers little is known, since what is allowed for
    roundings in the stage ``values`` is a good part of their size.
    """

    correct: bool
    max_error_ratio: float
    failures: tuple[Failure, ...]
    stages: tuple[str, ...]
    fingerprint: str = ""
    left_out: tuple[str, ...] = ()
    little: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """What went wrong, in one line; empty where nothing did."""
        more = len(self.failures) - 3
        return "; ".join(map(str, self.failures[:3])) + (f"; and {more} more" if more > 0 else "")


def check_executable(
    executable: Executable,
    program: TensorProgram,
    sizes: Mapping[str, int] | None = None,
    *,
    families: Mapping[str, Family] | None = None,
    seed: int = 0,
    adversarial: bool | Sequence[str] | None = None,
    cache: Cache | None = None,
) -> Verdict:
    """Whether ``executable`` computes ``program``.

    Args:
        executable: what to run; its faults are handed on.
        program: what it should compute.
        sizes: values of the dims that are still open in ``program``, and were when the executable was built.
        families: what inputs are filled with, by name; standard normal where not given.
        seed: of the inputs.
        adversarial: whether to run the adversarial stages, or which.  Where not said, all of them on a program that is
            small and quick, ``SLOW_KINDS`` on one that is only small and ``EXACT_KINDS`` on one that is only quick;
            ``Verdict.stages`` tells.
        cache: where expected values are kept; the default directory where not given.
    """
    open_dims = dict(sizes or {})
    bound = bind(program, {n: s for n, s in open_dims.items() if n in program.dims})
    check = Checking(executable, bound, open_dims, cache or Cache())
    families = dict(families or {})
    took = check.values("values", make_inputs(bound, families, seed))
    if adversarial is None:
        adversarial = kinds_for(bound, took)
    kinds = tuple(KINDS) if adversarial is True else tuple(adversarial or ())
    if took <= REPEAT_WITHIN_S or kinds:
        check.repeat(make_inputs(bound, families, seed))
    for kind in kinds:
        check.values(kind, adversarial_inputs(kind, bound, families, seed))
    return check.verdict()


def kinds_for(program: TensorProgram, took: float) -> tuple[str, ...]:
    """The adversarial stages of a program, one run of which ``took`` so many seconds."""
    quick = took <= QUICK_S
    if small(program):
        return tuple(KINDS) if quick else SLOW_KINDS
    return EXACT_KINDS if quick else ()


def small(program: TensorProgram) -> bool:
    """Whether inputs and outputs have few elements, but more than a handful."""
    values = [*program.args, *program.results]
    count = sum(math.prod(static(tensor_type(v).shape)) for v in values)
    return SMALL[0] <= count <= SMALL[1]


class Checking:
    """Runs of one executable at one size, and what went wrong in them.  Without a ``secret`` poison is always the same."""

    def __init__(self, executable: Executable, program: TensorProgram, sizes: dict[str, int], cache: Cache | None,
                 secret: Secret | None = None) -> None:  # fmt: skip
        self.executable = executable
        self.program = program
        self.sizes = sizes
        self.cache = cache
        self.secret = secret
        self.runs = 0
        self.held: dict[str, tuple[HostBuffer, Poison]] = {}
        self.outputs: dict[str, np.ndarray] = {}
        self.ratio = 0.0
        self.failures: list[Failure] = []
        self.stages: list[str] = []
        self.left_out: list[str] = []
        self.little: list[str] = []
        self.hash = hashlib.blake2b(digest_size=16)

    def verdict(self) -> Verdict:
        return Verdict(not self.failures, self.ratio, tuple(self.failures), tuple(self.stages), self.hash.hexdigest(),
                       tuple(self.left_out), tuple(self.little))  # fmt: skip

    def fail(self, stage: str, message: str) -> None:
        self.failures.append(Failure(stage, message))

    def poison(self, which: int) -> Poison:
        """For the next run: the first or the second that there is, or one that was never used."""
        self.runs += 1
        return POISON[which] if self.secret is None else Poison(seed=self.secret.number("poison", self.runs))

    def given(self, inputs: Mapping[str, np.ndarray], poison: Poison) -> dict[str, HostBuffer]:
        """The inputs in memory, by name."""
        return {n: guarded(n, x, poison) for n, x in inputs.items()}

    def run(self, stage: str, inputs: Mapping[str, np.ndarray], poison: Poison) -> tuple[dict[str, np.ndarray], float]:
        """Run once; gives the outputs and the seconds it took.  Damage to guard bands and inputs is a failure."""
        buffers = self.given(inputs, poison)
        for name, op in zip(self.program.outputs, self.program.results, strict=True):
            t = tensor_type(op)
            shape = tuple(evaluate(s, self.sizes) for s in t.shape)
            buffers[name] = guarded(name, np.empty(shape, numpy_dtype(t.dtype)), poison, fill=False)
        begun = time.perf_counter()
        self.executable.run(buffers, self.sizes)
        took = time.perf_counter() - begun
        if self.executable.guards:
            for buffer in buffers.values():
                if message := damage(buffer, poison):
                    self.fail(stage, message)
        for name, x in inputs.items():
            if not same_bytes(buffers[name].array, x):
                self.fail(stage, f"the input {name} was changed")
        self.held = {n: (buffers[n], poison) for n in self.program.outputs}
        outputs = {n: buffers[n].array for n in self.program.outputs}
        for x in outputs.values():
            self.hash.update(digest_of(x))
        return outputs, took

    def values(self, stage: str, inputs: Mapping[str, np.ndarray]) -> float:
        outputs, took = self.run(stage, inputs, self.poison(0))
        if stage == "values":
            self.outputs = outputs
        self.stages.append(stage)
        wanted = self.expected(inputs)
        if stage == "values":
            self.little = [n for n, v in wanted.items() if says_little(v)]
        for name, op in zip(self.program.outputs, self.program.results, strict=True):
            self.compare(stage, name, tensor_type(op).dtype, wanted[name], outputs[name])
        return took

    def expected(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Val]:
        return expected(self.program, inputs, self.cache)

    def compare(self, stage: str, name: str, dtype: str, wanted: Val, actual: np.ndarray) -> None:
        result = compare(wanted, dtype, actual)
        self.ratio = max(self.ratio, result.ratio)
        if not result.message:
            return
        left = self.unwritten(name, wanted)
        missing = f" ({left} elements were never written)" if left else ""
        self.fail(stage, f"{name}: {result.message}{missing}")

    def unwritten(self, name: str, wanted: Val) -> int:
        """How many elements of an output the last run left alone, but for those that are rightly NaN."""
        found = unwritten(*self.held[name])
        return int((found & ~np.isnan(wanted.x.astype(np.float64)) if found.shape == wanted.x.shape else found).sum())

    def repeat(self, inputs: Mapping[str, np.ndarray]) -> None:
        outputs, _ = self.run("repeat", inputs, self.poison(1))
        self.stages.append("repeat")
        for name, first in self.outputs.items():
            if count := count_of_differences(first, outputs[name]):
                self.fail("repeat", f"{name}: {count} elements differ between two runs on the same inputs")
