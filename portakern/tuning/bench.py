"""Candidates on their device: what runs in the worker process that keeps it.

The worker keeps inputs, outputs and loaded candidates between jobs.  Every candidate writes the same output arrays, which are
filled with a pattern before its first run, and its results are held against those of the default schedule.  That is a coarse
test which finds kernels that are wrong at a glance, without the cost of expected values for each; the winner gets the whole
check of :mod:`portakern.check` before it is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from portakern import launch
from portakern.backend import Prepared, Source
from portakern.errors import PortakernError
from portakern.ir.oracle import static
from portakern.ir.schedule import Schedule
from portakern.ir.tensor import tensor_type
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study import steps
from portakern.study.row import Row
from portakern.study.steps import Build, load
from portakern.study.work import Work
from portakern.timing.inputs import InputSets, input_sets, place_of, same_bytes
from portakern.timing.measure import Contender, ContenderError, Options, measure

KEPT = 32
"""Loaded candidates that the worker keeps."""

POISON = 0xFF  # NaN as a float, -1 as an integer

COARSE = 0.02
"""Differences from the default's results that the coarse test allows, as a share of the value and of the results' scale."""

WARM_UP_S = 0.01
"""Per contender, before the samples of a rung; the first gets it while the others are sampled too."""

LOOKED_AT = 1 << 18
"""Elements of an output that differ in their bits and are compared as numbers."""

SAMPLE_LIMIT_S = 5.0

ROW_S = 1.0
"""Seconds of sampling for the row of a schedule that is kept."""


@dataclass(frozen=True)
class CompiledCandidate:
    """A compiled candidate, as it travels to the worker."""

    name: str
    source: Source
    binary_key: str


@dataclass(frozen=True)
class Raced:
    """Samples in microseconds by name, or which contender failed and how; how and on what they were taken."""

    samples: dict[str, list[float]]
    failed: str = ""
    error: PortakernError | None = None
    mode: str = ""
    suspicions: tuple[str, ...] = ()
    device: str = ""
    driver: str | None = None


@dataclass
class _Session:
    """One operator at one shape on one target, with all that its candidates share."""

    work: Work
    sets: InputSets
    device: Any
    ready: OrderedDict[str, list[Prepared]] = field(default_factory=OrderedDict)
    outputs: list[tuple[Any, ...]] = field(default_factory=list)
    reference: list[np.ndarray] = field(default_factory=list)


_sessions: dict[tuple[str, str, str], _Session] = {}


def admit(work: Work, default: CompiledCandidate, contender: CompiledCandidate) -> None:
    """Load a candidate and run it once; raises what keeps it from running, and ``incorrect`` for other results than the
    default's."""
    session = _session(work, default)
    if contender.name != default.name:
        _prepared(session, contender)
        _run_and_compare(session, contender)


def race(
    work: Work, default: CompiledCandidate, contenders: list[CompiledCandidate], samples: int,
    cache: Literal["cold", "warm"] = "cold", seed: int = 0,
) -> Raced:  # fmt: skip
    """Samples of each, taken in turns."""
    session = _session(work, default)
    timed = []
    for c in contenders:
        calls = _prepared(session, c)
        native = [p.call for p in calls if p.call is not None]
        timed.append(Contender(c.name, native if len(native) == len(calls) else _in_turns(calls), calls[0].stream))
    options = Options(min_samples=samples, max_samples=samples, budget_s=60.0, cache=cache, seed=seed,
                      deadline_s=SAMPLE_LIMIT_S, warm_up_s=WARM_UP_S)  # fmt: skip
    try:
        result = measure(session.device, timed, options)
    except ContenderError as error:
        return Raced({}, error.contender, PortakernError(error.kind, error.message, error.hint))
    suspicions = tuple(sorted({s for t in result.timings for s in t.suspicions}))
    return Raced({t.name: [float(x) for x in t.device_us] for t in result.timings}, mode=result.timings[0].mode,
                 suspicions=suspicions, device=result.facts.name, driver=result.facts.version)  # fmt: skip


def check(work: Work, made: Build) -> Row:
    """The row after the check: in full where the oracle can afford the size, else as ``bench`` checks it, and in full besides
    on the same schedule over a part of the output.  ``method`` says which, and why where there is no such part."""
    from portakern.check.sampled import affordable

    _sessions.clear()  # its memory is wanted
    row = steps.check(work, made, full=False)
    if not row.correct or work.chosen is None or affordable(bind(work.program, work.sizes)):
        return row
    part = _part(work)
    built = None if part is None else steps.build(part)
    if part is None or built is None or built.row.error is not None or not built.runner:
        why = "no part of it is" if built is None else (built.row.error or {}).get("message", "nothing runs it")
        return row.but(method=f"{row.method}; the stages for small sizes were not run ({why})")
    small = steps.check(part, built)
    shape = ", ".join(f"{a.name} {list(static(tensor_type(a).shape))}" for a in part.program.args)
    if not small.correct:
        message = (small.error or {}).get("message", "not checked")
        return row.but(correct=False).failed(PortakernError("incorrect", f"over a part ({shape}): {message}"))
    ratio = max(row.max_error_ratio or 0.0, small.max_error_ratio or 0.0)
    return row.but(method=f"{row.method}; every stage of the check with {shape}", max_error_ratio=ratio)


def _part(work: Work) -> Work | None:
    """The same schedule over a part of the first output: two tiles each way of a product, else a few rows."""
    from portakern.check.restrict import restrict
    from portakern.check.sampled import PART_ELEMENTS, parts_of

    assert work.chosen is not None
    program = bind(work.program, work.sizes)
    output = program.outputs[0]
    shape = static(tensor_type(program.results[0]).shape)
    first = work.chosen.nests[0]
    if first.family == "contraction" and len(shape) >= 2:
        tiles = dict(first.schedule.tiles)
        m, n = (2 * tiles.get(name, 128) for name in _product_axes(first.schedule))
        sides = (*(1 for _ in shape[:-2]), min(m, shape[-2]), min(n, shape[-1]))
        few = restrict(program, output, [(0, side) for side in sides]).program
    else:
        parts = parts_of(program, output, room=PART_ELEMENTS[:2])
        if parts is None:
            return None
        few = parts[0].program
    return replace(work, program=few, sizes={}, chosen=replace(work.chosen, exact=False))


def _product_axes(schedule: Schedule) -> tuple[str, str]:
    """Names of the axes m and n of a product: the two before the last, which is contracted."""
    names = [name for name, _ in schedule.tiles]
    return (names[-3], names[-2]) if len(names) >= 3 else (names[0], names[-1])


def time(work: Work, made: Build) -> Row:
    """The row with its time, as ``bench`` takes it."""
    from portakern.study import timing

    _sessions.clear()
    return timing.time(work, made, options={"budget_s": ROW_S})


def _in_turns(calls: list[Prepared]) -> Any:
    return lambda i: calls[i % len(calls)]()


def _session(work: Work, default: CompiledCandidate) -> _Session:
    key = (work.program.digest, work.target, repr(sorted(work.sizes.items())))
    if key not in _sessions:
        _sessions.clear()  # memory is for one operator at a time
        _sessions[key] = _opened(work, default)
    return _sessions[key]


def _opened(work: Work, default: CompiledCandidate) -> _Session:
    from portakern.native import open_device

    target = registry().target(work.target)
    runtime = registry().language(target.language).runtime
    assert runtime is not None
    device = launch.device_of(runtime, target) or open_device("host")
    facts = device.facts
    program = bind(work.program, work.sizes)
    sets = input_sets(program, work.families, place_of(target, device, launch.arrays_of(runtime)), facts.cache_bytes,
                      facts.memory_bytes)  # fmt: skip
    session = _Session(work, sets, device)
    first = _load(session, default)
    session.ready[default.name] = first
    session.outputs = [tuple(p.outputs) for p in first]
    for p in first[:1]:
        p()
        _wait(session)
        session.reference = [sets.place.get(x).copy() for x in p.outputs]
    return session


def _load(session: _Session, contender: CompiledCandidate) -> list[Prepared]:
    executable = load(contender.source, contender.binary_key, "runtime")
    sizes = dict(session.work.sizes)
    return [launch.prepare(executable, arrays, sizes, session.outputs[i] if session.outputs else None)
            for i, arrays in enumerate(session.sets.arrays)]


def _prepared(session: _Session, contender: CompiledCandidate) -> list[Prepared]:
    if contender.name not in session.ready:
        session.ready[contender.name] = _load(session, contender)
        while len(session.ready) > KEPT:
            session.ready.popitem(last=False)
    session.ready.move_to_end(contender.name)
    return session.ready[contender.name]


def _run_and_compare(session: _Session, contender: CompiledCandidate) -> None:
    place, call = session.sets.place, session.ready[contender.name][0]
    for x in call.outputs:
        place.fill(x, POISON)
    call()
    _wait(session)
    for number, (x, want) in enumerate(zip(call.outputs, session.reference, strict=True)):
        if message := differs(place.get(x), want):
            raise PortakernError("incorrect", f"output {number} differs from that of the default schedule: {message}")


def _wait(session: _Session) -> None:
    session.device.synchronize(timeout_s=SAMPLE_LIMIT_S)


def differs(have: np.ndarray, want: np.ndarray) -> str:
    """What is wrong with ``have`` at a glance; empty where nothing is.  Only elements whose bits differ are looked at, and of
    many of them a part, since candidates are many and outputs may be large."""
    if same_bytes(have, want):
        return ""
    bits = np.dtype(f"u{want.dtype.itemsize}")
    places = np.flatnonzero(have.reshape(-1).view(bits) != want.reshape(-1).view(bits))
    places = places[:: -(-places.size // LOOKED_AT)]
    a, b = (x.reshape(-1)[places].astype(np.float64) for x in (have, want))
    with np.errstate(all="ignore"):
        near = np.isfinite(b) & (np.abs(a - b) <= COARSE * (np.abs(b) + _scale(want)))
        wrong = int(np.count_nonzero(~(near | (a == b) | (np.isnan(a) & np.isnan(b)))))
    return f"{wrong} of {places.size} elements that were looked at" if wrong else ""


def _scale(x: np.ndarray) -> float:
    """The root of the mean square of the finite elements, from a part of them."""
    flat = x.reshape(-1)
    part = flat[:: max(1, flat.size // LOOKED_AT)].astype(np.float64)
    part = part[np.isfinite(part)]
    return float(np.sqrt(np.mean(np.square(part)))) if part.size else 0.0
