"""Checking at a size where the oracle would take minutes: parts of the outputs in full rigour, and every element coarsely.

The kernel runs on the whole inputs between guard bands, twice with other poison, as in every check.  Then

- parts of each output (its first, its last and some in between) are compared with the float64 oracle within its bounds,
  the oracle computing only what these parts need (:mod:`portakern.check.restrict`).  Where every element needs more than the
  oracle can afford, as the sum over all of a large array does, an output has no parts, and what is said says so;
- the whole of each output is compared with the same program run on an array library's arrays, in the program's dtypes,
  within :data:`portakern.check.agreement.ALLOWED`: what is wrong outside the parts is seen if it is wrong by more than that.
  Where results are rounding alone, as the mean of what was normalised is, a difference counts as far as it is beyond what
  that program's own results change by when its inputs do by a rounding (:func:`noise_of`).  If one is left that counts,
  the program in float64 without roundings decides which result is nearer to it (:mod:`portakern.check.nearer`);
- an output without parts is compared with that program in float64, too, if there is room: no element may be farther off than
  :data:`TIMES` the library's own worst.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.array_program import array_function
from portakern.backend import Executable
from portakern.check.agreement import agreement
from portakern.check.expected import expected
from portakern.check.nearer import is_farther
from portakern.check.restrict import Box, Restricted, cut, restrict
from portakern.check.stages import Checking, Verdict
from portakern.check.widened import unrounded, widened
from portakern.dtypes import DTYPES
from portakern.ir.oracle import static
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type
from portakern.spec.bind import bind
from portakern.spec.cost import cost
from portakern.spec.inputs import Family, make_inputs
from portakern.tools.cache import Cache

WHOLE_ELEMENTS, WHOLE_FLOPS = 1 << 22, 1 << 31
"""Programs within both are checked in full: elements of inputs and outputs, operations."""

WHOLE_VALUES = 1 << 25
"""And elements of all values on the way, which are few in products and many between all pairs of two arrays: the oracle holds
them in float64, in a dozen stages, and takes a second for a million."""

PART_ELEMENTS, PART_FLOPS = (1 << 19, 1 << 22, 1 << 24), 1 << 30
"""What one part may read and write (the next where none is within it, as in attention to long keys); and compute."""

LARGE_FLOPS = 1 << 34
"""What one part may compute of a program that computes more and has none within :data:`PART_FLOPS`: an image of several that a
network is given."""

PARTS = 3
"""Of an output; one alone where it reads more than the second of :data:`PART_ELEMENTS`."""

FULL_ELEMENTS, FULL_VALUES = 1 << 24, 1 << 26
"""Programs that cannot be cut and have no more elements are checked in full, if the values on the way have no more in all."""


@dataclass(frozen=True)
class Reference:
    """Computes all outputs on the arrays of a library, where these lie.

    Args:
        name: what computes them, in words.
        compute: inputs by name -> every output, as the library's array.
        put: an array of the host as the library's.
        back: the other way round.
        exact: the same in float64, or nothing where there is no room for it; ``None`` if float64 would be another computation.
        unrounded: the same in float64 without roundings on the way, or nothing; ``None`` if there are none.
        place: held while the arrays are in use, and gives their memory back.
    """

    name: str
    compute: Callable[[Mapping[str, np.ndarray]], Sequence[Any]]
    put: Callable[[np.ndarray], Any]
    back: Callable[[Any], np.ndarray]
    exact: Callable[[Mapping[str, np.ndarray]], Sequence[Any] | None] | None = None
    unrounded: Callable[[Mapping[str, np.ndarray]], Sequence[Any] | None] | None = None
    place: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


@dataclass(frozen=True)
class Sampled:
    """The verdict, in words what it rests on (nothing where that is the full check), and the share of the outputs that was
    computed where that was not all of them."""

    verdict: Verdict
    method: str
    part: float | None = None


def affordable(program: TensorProgram) -> bool:
    """Whether a program, whose dims are bound, is small enough to be checked in full."""
    flops = cost(program).flops
    few = elements(program) <= WHOLE_ELEMENTS and on_the_way(program) <= WHOLE_VALUES
    return few and isinstance(flops, int) and flops <= WHOLE_FLOPS


def check_sampled(
    executable: Executable,
    program: TensorProgram,
    sizes: Mapping[str, int] | None = None,
    *,
    families: Mapping[str, Family] | None = None,
    seed: int = 0,
    reference: Reference,
    cache: Cache | None = None,
) -> Sampled | None:
    """Whether ``executable`` computes ``program``; ``None`` where an output cannot be cut into parts that are affordable, and
    the program is small enough for the full check to end within minutes.

    Args:
        executable, program, sizes, families, seed: as for :func:`portakern.check.check_executable`.
        reference: computes all outputs, for the coarse comparison.
        cache: where expected values are kept.
    """
    open_dims = dict(sizes or {})
    bound = bind(program, {n: s for n, s in open_dims.items() if n in program.dims})
    parts: list[Restricted] = []
    for output in bound.outputs:
        found = parts_of(bound, output, seed) or _large_part(bound, output, seed)
        if found is None and elements(bound) <= FULL_ELEMENTS and on_the_way(bound) <= FULL_VALUES:
            return None
        parts += found or []
    inputs = make_inputs(bound, dict(families or {}), seed)
    check = Checking(executable, bound, open_dims, cache or Cache())
    check.outputs, _ = check.run("values", inputs, check.poison(0))
    check.stages.append("parts")
    for output, result in zip(bound.outputs, bound.results, strict=True):
        own = [p for p in parts if p.output == output]
        compare_parts(check, "", own, tensor_type(result).dtype, inputs, check.outputs[output])
    check.stages.append("whole")
    without = [o for o in bound.outputs if not any(p.output == o for p in parts)]
    with reference.place():
        theirs = reference.compute(inputs)
        worst, decided = _whole(check, bound, inputs, reference, theirs)
        exactly = _exactly(check, bound, without, inputs, reference, theirs)
    check.repeat(inputs)
    share = sum(_volume(p.box) for p in parts) / sum(math.prod(static(tensor_type(r).shape)) for r in bound.results)
    by_oracle = f"{len(parts)} parts ({share:.2g} of the outputs) within the bounds of the float64 oracle" if parts else (
        "nothing held against the float64 oracle, which no part is small enough for")  # fmt: skip
    method = (f"checked at this size: {by_oracle}, every element against {reference.name} "
              f"(differs by at most {worst:.2g} of a value){decided}{exactly}, guard bands, twice")  # fmt: skip
    return Sampled(check.verdict(), method)


def _whole(check: Checking, program: TensorProgram, inputs: Mapping[str, np.ndarray], reference: Reference,
           theirs: Sequence[Any]) -> tuple[float, str]:  # fmt: skip
    """Compares every element of the outputs with the reference's, where these lie; the largest difference as a share, and in
    words of which outputs the program without roundings had to decide."""
    dtypes = tuple(dict.fromkeys(tensor_type(v).dtype for v in (*program.results, *program.args)))
    worst, noise, decided = 0.0, None, []
    exact: Sequence[Any] | None = None
    for at, (output, other) in enumerate(zip(program.outputs, theirs, strict=True)):
        ours = reference.put(check.outputs[output])
        found = agreement(ours, other, dtypes)
        if found.message:
            noise = noise_of(reference, program, inputs, theirs) if noise is None else noise
            found = agreement(ours, other, dtypes, noise[output])
        worst = max(worst, found.worst)
        if not found.message:
            continue
        exact = exact or (reference.unrounded(inputs) if reference.unrounded is not None else None)
        farther = is_farther(ours, other, exact[at], dtypes) if exact is not None else found.message
        if farther:
            check.fail("whole", f"{output}, against {reference.name}: {found.message}{'' if exact is None else f'; {farther}'}")
        else:
            decided.append(output)
    return worst, f", {', '.join(decided)} as near as that to the program without roundings" if decided else ""


TIMES, ROUNDING = 16.0, 1e-4
"""How much farther than the library's own result one may be from float64; what share of a value is allowed in any case, or two
roundings to the output's dtype.  The order of a sum, and sums of thirds on matrix units, are a few times better or worse than
another."""


def _exactly(check: Checking, program: TensorProgram, outputs: Sequence[str], inputs: Mapping[str, np.ndarray],
             reference: Reference, theirs: Sequence[Any]) -> str:  # fmt: skip
    """Compares every element of ``outputs`` with the reference in float64; in words how far off they are at most."""
    floats = {o for o, r in zip(program.outputs, program.results, strict=True) if DTYPES[tensor_type(r).dtype].is_float}
    if not floats & set(outputs):
        return ""
    in_float64 = reference.exact or reference.unrounded
    exact = in_float64(inputs) if in_float64 is not None else None
    if exact is None:
        return ", not in float64"
    check.stages.append("float64")
    worst = usual = 0.0
    noise: dict[str, float] | None = None
    for output, result, other, wanted in zip(program.outputs, program.results, theirs, exact, strict=True):
        if output not in floats & set(outputs):
            continue
        off, own = (agreement(x, wanted, ("f64",)).worst for x in (reference.put(check.outputs[output]), other))
        most = max(ROUNDING, 2 * DTYPES[tensor_type(result).dtype].rounding, TIMES * own)
        if off > most:
            noise = noise_of(reference, program, inputs, theirs) if noise is None else noise
            off = agreement(reference.put(check.outputs[output]), wanted, ("f64",), noise[output]).worst
        if off > most:
            check.fail("float64", f"{output}: it is {off:.2g} of a value off, where {reference.name} is {own:.2g} off")
        worst, usual = max(worst, off), max(usual, own)
    return f", and in float64 (off by at most {worst:.2g}, that by {usual:.2g})"


NOISE = 32
"""Times the usual change by a rounding of inputs that a difference may be: another order of sums rounds more often."""


def noise_of(reference: Reference, program: TensorProgram, inputs: Mapping[str, np.ndarray], results: Sequence[Any]
             ) -> dict[str, float]:  # fmt: skip
    """What is noise in each output of ``program``, whose ``results`` the reference gave: :data:`NOISE` times the median of what
    changes where every second element of its inputs is the next number of its dtype; 0 for whole numbers."""
    rng = np.random.default_rng(0)
    floats = {arg.name for arg in program.args if DTYPES[tensor_type(arg).dtype].is_float}
    others = reference.compute({n: _moved(x, rng) if n in floats else x for n, x in inputs.items()})
    return {name: NOISE * _change(reference.back(a), reference.back(b)) if DTYPES[tensor_type(value).dtype].is_float else 0.0
            for name, value, a, b in zip(program.outputs, program.results, results, others, strict=True)}  # fmt: skip


def _moved(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(x.shape, dtype=np.float32) < 0.5, x, np.nextafter(x, np.asarray(np.inf, x.dtype)))


def _change(a: np.ndarray, b: np.ndarray) -> float:
    """The median, which what jumps (a comparison that turns out otherwise) leaves as it is."""
    with np.errstate(invalid="ignore"):
        change = np.abs(a.astype(np.float32) - b.astype(np.float32))
    change = change[np.isfinite(change)]
    return float(np.median(change)) if change.size else 0.0


def compare_parts(check: Checking, stage: str, parts: Sequence[Restricted], dtype: str, inputs: Mapping[str, np.ndarray],
                  actual: np.ndarray) -> None:  # fmt: skip
    """Parts of one output, which is ``actual``, against the oracle."""
    for part in parts:
        few = {n: np.ascontiguousarray(cut(x, part.inputs[n])) if x.ndim else x for n, x in inputs.items()}
        (wanted,) = expected(part.program, few, check.cache).values()
        place = ", ".join(f"{lo}:{hi}" for lo, hi in part.box)
        check.compare(f"{stage} part [{place}]".strip(), part.output, dtype, wanted, cut(actual, part.box))


def parts_of(program: TensorProgram, output: str, seed: int = 0, room: Sequence[int] | None = None,
             flops: int = PART_FLOPS) -> list[Restricted] | None:  # fmt: skip
    """Parts of an output that the oracle can afford: at its start, at its end, and one between.

    ``room`` is how many elements a part may read and write at best, and where it must be more; ``flops`` what it may compute.
    """
    shape = static(tensor_type(program.results[program.outputs.index(output)]).shape)
    if not shape or 0 in shape:
        return None
    rng = np.random.default_rng([seed, len(shape), *shape])
    found = (affordable_extents(program, output, shape, most, flops) for most in room or PART_ELEMENTS)
    extents = next((e for e in found if e is not None), None)
    if extents is None:
        return None
    last = restrict(program, output, [(n - e, n) for n, e in zip(shape, extents, strict=True)])
    if elements(last.program) > max((room or PART_ELEMENTS)[:2]) or on_the_way(last.program) > WHOLE_VALUES:
        return [last]
    starts = [tuple(0 for _ in shape), tuple(n - e for n, e in zip(shape, extents, strict=True))]
    starts += [tuple(int(rng.integers(0, n - e + 1)) for n, e in zip(shape, extents, strict=True)) for _ in range(PARTS - 2)]
    boxes: dict[Box, None] = {tuple((s, s + e) for s, e in zip(start, extents, strict=True)): None for start in starts}
    return [restrict(program, output, box) for box in boxes]


def _large_part(program: TensorProgram, output: str, seed: int) -> list[Restricted] | None:
    """One part of an output, where smaller ones are none of it and the oracle can afford it."""
    flops = cost(program).flops
    if not isinstance(flops, int) or flops <= LARGE_FLOPS:
        return None
    found = parts_of(program, output, seed, flops=LARGE_FLOPS)
    return found[-1:] if found else None


def affordable_extents(program: TensorProgram, output: str, shape: Sequence[int], most: int,
                       most_flops: int = PART_FLOPS) -> list[int] | None:  # fmt: skip
    """How much of each dim a part takes: dims are halved, the first ones first, until the part is affordable."""
    extents = list(shape)
    while True:
        part = restrict(program, output, [(0, e) for e in extents]).program
        flops = cost(part).flops
        if elements(part) <= most and isinstance(flops, int) and flops <= most_flops:
            return extents
        # Down to a few indices along one dim before the next is cut, so that parts are long runs of whole rows.
        dim = next((i for i, e in enumerate(extents) if e > 4), None)
        dim = dim if dim is not None else next((i for i, e in enumerate(extents) if e > 1), None)
        if dim is None:
            return None
        extents[dim] = -(-extents[dim] // 2)


def elements(program: TensorProgram) -> int:
    """Of inputs and outputs."""
    return sum(math.prod(static(tensor_type(v).shape)) for v in (*program.args, *program.results))


def on_the_way(program: TensorProgram) -> int:
    """Elements of all values that it computes."""
    return sum(math.prod(static(op.type.shape)) for op in program.body.walk() if isinstance(op.type, TensorType))


def _volume(box: Box) -> int:
    return math.prod(hi - lo for lo, hi in box)


def program_reference(program: TensorProgram, put: Callable[[np.ndarray], Any], back: Callable[[Any], np.ndarray], library: str,
                      name: str, place: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
                      ) -> Reference:  # fmt: skip
    """The program itself on arrays of a library; the rest as of :class:`Reference`."""
    def put_wide(x: np.ndarray) -> Any:
        held = put(x)
        if x.dtype.name.startswith(("int", "uint", "bool")):
            return held
        return held.double() if hasattr(held, "double") else held.astype(np.float64)

    def in_float64(wide: TensorProgram | None) -> Callable[[Mapping[str, np.ndarray]], Sequence[Any]] | None:
        return wide and _computed(wide, library, put_wide)

    return Reference(name, _computed(program, library, put), put, back, in_float64(widened(program)),
                     in_float64(unrounded(program)), place)  # fmt: skip


def _computed(program: TensorProgram, library: str, put: Callable[[np.ndarray], Any]
              ) -> Callable[[Mapping[str, np.ndarray]], Sequence[Any]]:  # fmt: skip
    function = array_function(program, library)

    def compute(inputs: Mapping[str, np.ndarray]) -> Sequence[Any]:
        found = function.call(*(put(x) if x.ndim else x.item() for x in inputs.values()))
        return found if isinstance(found, tuple) else (found,)

    return compute
