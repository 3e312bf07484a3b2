"""The check of a kernel that would pass if it knew what comes: all that it could foresee is drawn from a secret.

It goes through the stages of :mod:`portakern.check.stages` in an order that is drawn, each on inputs of its own.  Beyond these

- a program that is too large for all stages goes through ``FURTHER``, in which drawn parts of its outputs are compared
  (:mod:`portakern.check.restrict`), so that a softmax without its maximum is caught at any size;
- one whose dims are open is run at other sizes than were asked for, small, long and ragged, through every stage.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence

import numpy as np

from portakern.backend import Executable
from portakern.check.adversarial import KINDS, adversarial_inputs
from portakern.check.bounds import Val
from portakern.check.expected import expected
from portakern.check.pool import Kept, Pool
from portakern.check.sampled import affordable, compare_parts, elements, parts_of
from portakern.check.stages import QUICK_S, REPEAT_WITHIN_S, SLOW_KINDS, SMALL, Checking, Failure, Verdict, kinds_for, small
from portakern.errors import PortakernError
from portakern.ir import oracle
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.referee.secret import Secret
from portakern.spec.bind import bind
from portakern.spec.cost import cost
from portakern.spec.inputs import Family, at_sizes, make_inputs
from portakern.tools.cache import Cache

FURTHER = ("steep", "nonfinite", "offset", "outliers")
"""The adversarial stages that a large program goes through by parts; the first three of them where it is slow."""

PART = ((1 << 14, 1 << 18), 1 << 26)
"""What a part may read and write, and compute: many stages have parts."""

HIDDEN_ELEMENTS, HIDDEN_FLOPS = 30_000, 1 << 26
"""Sizes that nobody asked for have no more."""

BUDGET_S = 20.0
"""After so many seconds no further stage is begun; which ones are left over was drawn."""

SPANS = (((1, 60), (1, 60)), ((1, 60), (60, 1500)), ((60, 190), (60, 190)))
"""Between which all dims are, and one of them: smaller than tiles, one that is long, and all of them more than a tile with a
rest."""

HIDDEN_SIZES = len(SPANS)
QUICK_KINDS = 3
"""How many adversarial stages a quick check has."""

_TRIES = 40


def check_hidden(
    executable: Executable,
    program: TensorProgram,
    sizes: Mapping[str, int] | None = None,
    *,
    families: Mapping[str, Family] | None = None,
    secret: Secret,
    cache: Cache | None = None,
    pool: Pool | None = None,
) -> Verdict:
    """Whether ``executable`` computes ``program``.

    Args:
        executable, program, sizes: as for :func:`portakern.check.check_executable`.
        families: what inputs are filled with, by name; their expressions of open dims are read at every size.
        secret: what everything is drawn from.
        cache: where expected values are kept, which is of use where a secret is taken again.
        pool: where inputs come from whose expected values take long; new ones where not given.
    """
    asked = dict(sizes or {})
    places = [("", asked, secret.other("asked"))]
    for number, other in enumerate(hidden_sizes(program, secret.random("sizes"), families or {})):
        told = ", ".join(f"{n}={s}" for n, s in other.items())
        places.append((f" at {told}", {**asked, **other}, secret.other("hidden", number)))
    checks = [(where, HiddenCheck(executable, program, at, families or {}, own, cache)) for where, at, own in places]
    checks[0][1].pool = pool
    begun = time.monotonic()
    for number, (_, check) in enumerate(checks):
        check.first()
        check.others(begun + BUDGET_S * (number + 1) / len(checks), further=not number)
    return joined([(where, check.verdict()) for where, check in checks])


def check_quick(executable: Executable, program: TensorProgram, sizes: Mapping[str, int] | None = None, *,
                families: Mapping[str, Family] | None = None, secret: Secret) -> Verdict:  # fmt: skip
    """Whether ``executable`` seems to compute ``program``: a few stages of :func:`check_hidden`, which are drawn, each only
    where all before it passed.  A large program is compared in parts.  Where dims are open, it is run at one other size,
    too."""
    asked = dict(sizes or {})
    check = HiddenCheck(executable, program, asked, families or {}, secret.other("asked"), None)
    check.quick()
    found = [("", check.verdict())]
    if not check.failures:
        for other in hidden_sizes(program, secret.random("sizes"), families or {}, 1):
            small = HiddenCheck(executable, program, {**asked, **other}, families or {}, secret.other("hidden", 0), None)
            small.first()
            found.append((" at " + ", ".join(f"{n}={s}" for n, s in other.items()), small.verdict()))
    return joined(found)


def hidden_sizes(program: TensorProgram, rng: np.random.Generator, families: Mapping[str, Family],
                 count: int = HIDDEN_SIZES) -> list[dict[str, int]]:  # fmt: skip
    """Sizes of the open dims that the program can be computed at, one of each of :data:`SPANS` for which there are some; fewer
    of them, drawn, where ``count`` says so."""
    spans = SPANS if count >= len(SPANS) else [SPANS[i] for i in rng.permutation(len(SPANS))[:count]]
    found: list[dict[str, int]] = []
    for most, one in spans if program.dims else ():
        for _ in range(_TRIES):
            sizes = {n: _between(rng, most) for n in program.dims}
            sizes[program.dims[int(rng.integers(len(program.dims)))]] = _between(rng, one)
            if sizes not in found and _can_be(program, sizes, families):
                found.append(sizes)
                break
    return found


def _between(rng: np.random.Generator, span: tuple[int, int]) -> int:
    """Drawn, each magnitude as likely as another."""
    return int(np.exp(rng.uniform(*np.log(span))))


def _can_be(program: TensorProgram, sizes: Mapping[str, int], families: Mapping[str, Family]) -> bool:
    """Whether the program is small at these sizes and can be computed; what it refuses is no fault of the kernel's."""
    try:
        bound = bind(program, sizes)
        flops = cost(bound).flops
        if elements(bound) > HIDDEN_ELEMENTS or not isinstance(flops, int) or flops > HIDDEN_FLOPS:
            return False
        oracle.evaluate(bound, make_inputs(bound, at_sizes(families, sizes)))
    except (PortakernError, IndexError, ValueError):  # the latter two of the oracle: more elements are asked for than there are
        return False
    return True


class HiddenCheck(Checking):
    """One executable at one size."""

    def __init__(self, executable: Executable, program: TensorProgram, sizes: dict[str, int], families: Mapping[str, Family],
                 secret: Secret, cache: Cache | None) -> None:  # fmt: skip
        bound = bind(program, {n: s for n, s in sizes.items() if n in program.dims})
        super().__init__(executable, bound, sizes, cache, secret)
        self.families, self.secret = at_sizes(families, sizes), secret
        self.pool: Pool | None = None
        self.kept: dict[str, Kept | None] = {}

    def inputs(self, stage: str) -> Mapping[str, np.ndarray]:
        """Of a stage that compares whole outputs."""
        if stage not in self.kept:
            key = (self.program.digest, repr(sorted(self.families.items())), stage)
            self.kept[stage] = None if self.pool is None or not self.has_parts() else self.pool.take(
                key, lambda seed: self.made(stage, seed), lambda inputs: expected(self.program, inputs))  # fmt: skip
        found = self.kept[stage]
        return found.inputs if found is not None else self.made(stage, self.secret.number("inputs", stage))

    def expected(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Val]:
        known = next((k for k in self.kept.values() if k is not None and k.inputs is inputs), None)
        return known.wanted if known is not None else super().expected(inputs)

    def made(self, stage: str, seed: int) -> dict[str, np.ndarray]:
        if stage not in KINDS:
            return make_inputs(self.program, self.families, seed)
        return adversarial_inputs(stage, self.program, self.families, seed)

    def new_inputs(self, stage: str) -> dict[str, np.ndarray]:
        """Of a stage that compares parts."""
        return self.made(stage, self.secret.number("inputs in parts", stage))

    def has_parts(self) -> bool:
        """Whether outputs can be compared in parts on inputs that are new: else none are kept."""
        return all(parts_of(self.program, name, 0, *PART) is not None for name in self.program.outputs)

    def first(self) -> None:
        self.took = self.values("values", self.inputs("values"))

    def others(self, until: float, further: bool) -> None:
        """The stages behind the first one, as many as begin before ``until``; with ``further`` those by parts, too."""
        whole, parts = self.kinds(self.took)
        repeat = ["repeat"] if self.took <= REPEAT_WITHIN_S or whole else []
        left = [*repeat, *whole, *(parts if further else ())]
        for stage in self.secret.random("order").permutation(left).tolist():
            if time.monotonic() > until:
                self.left_out.append(stage)
            elif stage == "repeat":
                self.repeat(self.inputs("values"))
            elif stage in whole:
                self.values(stage, self.inputs(stage))
            else:
                self.by_parts(stage)
        self.anew()

    def anew(self) -> None:
        """Runs on inputs that nobody has seen where others were taken from the pool: as usual ones are, and as those of a stage
        that is drawn among these."""
        pooled = [stage for stage, k in self.kept.items() if k is not None]
        if pooled:
            for stage in dict.fromkeys(["values", str(self.secret.random("anew").choice(pooled))]):
                self.by_parts(stage)

    def quick(self) -> None:
        """The first stage, a second run, and some of the adversarial ones, until one fails."""
        whole_values = elements(self.program) <= SMALL[1]
        if whole_values:
            self.first()
        else:
            self.took = self.by_parts("values")
        whole, parts = self.kinds(self.took)
        rng = self.secret.random("quick")
        chosen = [str(k) for k in rng.permutation([*whole, *parts])[: QUICK_KINDS if self.took <= QUICK_S else 1]]
        repeat = ["repeat"] if self.took <= REPEAT_WITHIN_S else []
        for stage in rng.permutation([*repeat, *chosen]).tolist():
            if self.failures:
                return
            if stage == "repeat":
                self.repeat(self.inputs("values") if whole_values else self.new_inputs("values"))
            elif whole_values:
                self.values(stage, self.inputs(stage))
            else:
                self.by_parts(stage)

    def kinds(self, took: float) -> tuple[Sequence[str], Sequence[str]]:
        """The adversarial stages of all outputs, and of parts of them."""
        whole = kinds_for(self.program, took)
        if whole == SLOW_KINDS:
            return (*whole, "offset"), ()
        few = FURTHER if took <= QUICK_S else FURTHER[:3] if took <= REPEAT_WITHIN_S else ()
        return whole, [k for k in few if k not in whole] if not small(self.program) else ()

    def by_parts(self, stage: str) -> float:
        """Seconds of the run."""
        inputs = self.new_inputs(stage)
        outputs, took = self.run(stage, inputs, self.poison(0))
        if stage == "values" and not self.outputs:
            self.outputs = outputs
        self.stages.append(f"{stage} in parts")
        for name, result in zip(self.program.outputs, self.program.results, strict=True):
            dtype, actual = tensor_type(result).dtype, self.held[name][0].array
            parts = parts_of(self.program, name, self.secret.number("parts", stage), *PART)
            if parts is not None:
                compare_parts(self, stage, parts, dtype, inputs, actual)
            elif affordable(self.program):
                self.compare(stage, name, dtype, self.expected(inputs)[name], actual)
        return took


def joined(found: Sequence[tuple[str, Verdict]]) -> Verdict:
    """One verdict of those at several sizes, each with what is said behind its stages."""
    verdicts = [v for _, v in found]
    failures = tuple(Failure(f.stage + where, f.message) for where, v in found for f in v.failures)
    stages = tuple(s + where for where, v in found for s in v.stages)
    fingerprint = hashlib.blake2b("".join(v.fingerprint for v in verdicts).encode(), digest_size=16).hexdigest()
    left_out = tuple(s + where for where, v in found for s in v.left_out)
    little = verdicts[0].little
    return Verdict(not failures, max(v.max_error_ratio for v in verdicts), failures, stages, fingerprint, left_out, little)
