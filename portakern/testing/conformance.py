"""The suite that every backend passes, in this repository or out of it::

    import pytest
    from portakern.testing.conformance import conformance
    from my_backend import backend

    @pytest.mark.parametrize("check", conformance(backend), ids=str)
    def test_conformance(check):
        check.run()

The backend must be installed, so that worker processes find it through its entry point.  What needs a tool that is not
on the machine is skipped by name; nothing else is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice

from portakern.backend import Backend, CompiledBinary, Language, Machine, Source, Target, Toolchain
from portakern.device import Device, load_devices
from portakern.dtypes import DTYPES
from portakern.errors import CompileError, MissingRuleError, PortakernError, UnsupportedDtype
from portakern.ir.program import Program
from portakern.ir.schedule import LOWERED_OPTIONS, Nest, Schedule, Value
from portakern.lower import lower
from portakern.registry import check_machines, check_manifest, registry
from portakern.spec.load import library, load_operator
from portakern.spec.operator import dynamic
from portakern.study import steps
from portakern.study.row import Row
from portakern.study.study import Runner
from portakern.study.work import Problem, Work, of_case, works
from portakern.tools.workers import WorkerPool

DENIED = ("torch", "triton", "jax", "jaxlib", "libtpu", "numba", "llvmlite", "cupy", "cuda", "pyopencl", "ziglang")
"""What emitting must not import: law 2."""

TOOL_LIMIT_S = 300.0


class NotHere(Exception):
    """The check needs something that this machine lacks."""


@dataclass(frozen=True)
class Check:
    """One property of a backend, of one of its languages, or of a language on one target."""

    name: str
    subject: str
    body: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.subject}-{self.name}"

    def run(self) -> None:
        """Raises :class:`AssertionError` where the property does not hold; skips under pytest what cannot be seen here."""
        try:
            self.body()
        except NotHere as reason:
            if "pytest" in sys.modules:
                sys.modules["pytest"].skip(str(reason))
            raise


def conformance(backend: Backend, share: int = 1) -> list[Check]:
    """Every check of a backend; those that compile or run take one target of each language.

    With a ``share`` above 1 the checks in :data:`BY_SHARES` take one of so many samples, and are quicker for it.
    """
    found = [Check("manifest", backend.name, partial(manifest, backend)),
             Check("devices", backend.name, partial(devices, backend))]  # fmt: skip
    for language in backend.languages:
        for name, body in LANGUAGE_CHECKS.items():
            given = {"share": share} if name in BY_SHARES else {}
            found.append(Check(name, language.name, partial(body, backend, language, **given)))
    for machine in backend.machines:
        found.append(Check("machine", f"{backend.name}-{machine.format}", partial(machine_runs, backend, machine, share)))
    return found


# ---- the manifest and its devices --------------------------------------------------------------------------------------


def manifest(backend: Backend) -> None:
    """It contradicts neither itself nor portakern, and its entry point leads to it."""
    check_manifest(backend, set())
    names = {b.name for b in registry().backends}
    assert backend.name in names, f"{backend.name} is not found through its entry point; installed are {sorted(names)}"
    for language in backend.languages:
        assert language.name.isidentifier() and language.name.islower(), f"{language.name!r} cannot be typed as a target"
        assert language.title and language.targets
        assert all(language.options.values()), f"an option of {language.name} is not documented"
        assert all(isinstance(v, str) for v in language.environment.values())
        if language.adopt is not None:
            assert len(language.convention) > 40, f"{language.name} takes foreign kernels and does not say how they are called"
        assert language.runtime is None or language.toolchain is not None or language.simulator is None


def devices(backend: Backend) -> None:
    """Known dtypes, sourced figures, an alternative for every common dtype a device lacks."""
    found = load_devices(backend.devices)
    assert found, f"{backend.devices} describes no device"
    for device in found.values():
        unknown = [d for d in device.dtypes if d not in DTYPES]
        assert not unknown, f"{device.name} lists unknown dtypes {unknown}"
        for name, figure in device.figures.items():
            assert figure.unit and len(figure.source) > 5, f"{device.name}: the figure {name} names no real source"
        for shape in device.matrix:
            assert shape.source, f"{device.name}: the matrix shape {shape.name} names no source"
        for dtype, instead in device.alternatives.items():
            assert dtype not in device.dtypes, f"{device.name} has {dtype}, so it needs no alternative"
            assert instead in device.dtypes, f"{device.name}: the alternative {instead} for {dtype} is not there either"
        for dtype in ("f32", "f16", "bf16"):
            assert dtype in device.dtypes or dtype in device.alternatives, f"{device.name} names no alternative for {dtype}"


# ---- sample programs ----------------------------------------------------------------------------------------------------

TINY, EMPTY_OR_ONE = "tiny", ("zero", "one")


def first_target(language: Language) -> Target:
    return registry().target(f"{language.name}:{language.targets[0]}")


Sample = tuple[Problem, str, Mapping[str, int]]
"""What is made a work of where it is wanted: the problem, the dtype and the sizes of its open dims."""


@cache
def samples(target: str) -> tuple[Sample, ...]:
    """Each operator of the library small, and empty or of size one, by turns over operators and targets; some with ragged
    tiles, narrow dtypes and open dims."""
    found: list[Sample] = []
    for turn, op in enumerate(library(), sum(map(ord, target))):
        found += [(of_case(op, op.case(name)), "f32", {}) for name in (TINY, EMPTY_OR_ONE[turn % 2])]
    narrow = "bf16" if "bf16" in registry().target(target).device.dtypes else "f32"
    for name in ("softmax", "matmul", "add_relu", "attention"):
        op = load_operator(name)
        found.append((of_case(op, op.case("ragged")), narrow, {}))
    softmax, matmul = load_operator("softmax"), load_operator("matmul")
    found.append((Problem(softmax, {"M": dynamic, "N": 300}, {}), "f32", {"M": 7}))
    found.append((Problem(matmul, {"M": dynamic, "N": 40, "K": 24}, {}), "f32", {"M": 33}))
    return tuple(found)


@cache
def sample_work(target: str, place: int) -> Work:
    problem, dtype, open_sizes = samples(target)[place]
    (work,) = works(problem, [registry().target(target)], [dtype], open_sizes=open_sizes)
    return work


def share_of(target: str, share: int = 1) -> Iterator[Work]:
    """One of ``share`` samples, on every target others; an odd share has operators small and empty by turns."""
    return (sample_work(target, n) for n in range(sum(map(ord, target)) % share, len(samples(target)), share))


def a_few(target: str, count: int = 12) -> Iterator[Work]:
    return islice(share_of(target), count)


def emitted(work: Work, language: Language, target: Target) -> tuple[Source, Program] | None:
    """What is emitted, or nothing where :meth:`Emitter.missing` refuses; any other failure is one of the backend."""
    try:
        program = steps.lowered(work, target)
    except UnsupportedDtype:
        return None
    if language.emitter.missing(program, target):
        return None
    return language.emitter.emit(program, target), program


# ---- emitting ------------------------------------------------------------------------------------------------------------


def emits_the_library(backend: Backend, language: Language, share: int = 1) -> None:
    """On every target, what has no missing rule is emitted, and the sources hold together."""
    for name in language.targets:
        target = registry().target(f"{language.name}:{name}")
        count = 0
        for work in share_of(str(target), share):
            made = emitted(work, language, target)
            if made is None:
                continue
            source, program = made
            count += 1
            assert source.target == target and source.text.strip() and source.suffix.startswith(".")
            assert source.arrays == program.arrays, "the source names other arrays than the program"
            assert source.sizes == program.sizes, "the source takes other open dims than the program has"
            known = {a.name for a in program.arrays} | set(source.sizes) | {r.step for r in program.repeats}
            for launch in source.launches:
                maps = {m.name for m in launch.maps}
                assert set(launch.args) <= known | maps, f"the launch of {launch.kernel} names unknown arguments"
        assert count, f"{language.name} can emit nothing of the library for {name}"


def emits_without_tools(backend: Backend, language: Language) -> None:
    """Emitting imports no toolchain, driver or framework (law 2)."""
    with WorkerPool(1) as pool:
        loaded = pool.call(f"{__name__}:modules_after_emitting", language.name, timeout_s=TOOL_LIMIT_S)
    assert not loaded, f"emitting for {language.name} imported {', '.join(loaded)}"


def modules_after_emitting(language_name: str) -> list[str]:
    """Runs in a worker: what of :data:`DENIED` was imported by emitting samples for every target of a language."""
    language = registry().language(language_name)
    for n, name in enumerate(language.targets):
        target = registry().target(f"{language_name}:{name}")
        for work in a_few(str(target), 4 if n else 12):
            made = emitted(work, language, target)
            if made is not None:
                language.emitter.standalone(made[0])
                language.emitter.plan(made[1], target)
    return sorted({m.partition(".")[0] for m in sys.modules} & set(DENIED))


def emits_the_same_again(backend: Backend, language: Language, share: int = 1) -> None:
    """The text does not depend on the process, the order of sets or what was emitted before."""
    digests = []
    for seed in ("1", "2"):
        with WorkerPool(1, env={"PYTHONHASHSEED": seed}) as pool:
            digests.append(pool.call(f"{__name__}:digests_of", language.name, share, timeout_s=TOOL_LIMIT_S))
    assert digests[0] == digests[1], "the same program was emitted as different texts by two processes"


def digests_of(language_name: str, share: int) -> list[str]:
    """Runs in a worker: hashes of the sources of some samples."""
    language = registry().language(language_name)
    target = first_target(language)
    made = (emitted(w, language, target) for w in share_of(str(target), share))
    return [m[0].digest for m in made if m is not None]


def lists_what_is_missing(backend: Backend, language: Language, share: int = 1) -> None:
    """:meth:`missing` names every gap at once, and ``emit`` refuses exactly what has gaps."""
    target = first_target(language)
    odd = [d for d in ("f8e5m2", "f8e4m3", "f16", "f64") if d not in target.device.dtypes]
    for work in share_of(str(target), share):
        try:
            program = steps.lowered(work, target)
        except UnsupportedDtype:
            continue
        gaps = language.emitter.missing(program, target)
        assert all(g.what for g in gaps)
        if not gaps:
            continue
        try:
            language.emitter.emit(program, target)
        except (MissingRuleError, UnsupportedDtype):
            continue
        raise AssertionError(f"{program.name} was emitted although {[g.what for g in gaps]} are missing")
    for dtype in odd:
        try:
            steps.refuse_dtypes(load_operator("silu_mul").program({"M": 4, "N": 8}, {}, dtype), target)
        except UnsupportedDtype as error:
            assert error.hint
        else:
            raise AssertionError(f"{dtype} was not refused for {target}")


def stands_alone(backend: Backend, language: Language) -> None:
    """The standalone text is whole: it includes nothing that comes with the source."""
    target = first_target(language)
    for work in a_few(str(target)):
        made = emitted(work, language, target)
        if made is None:
            continue
        text = language.emitter.standalone(made[0])
        left = [name for name, _ in made[0].headers if f'#include "{name}"' in text]
        assert text.strip() and not left, f"the standalone text still includes {left}"


def describes_itself(backend: Backend, language: Language, share: int = 1) -> None:
    """An emitted text can be handed back as a foreign kernel."""
    if language.adopt is None:
        raise NotHere(f"{language.name} takes no foreign kernels")
    target = first_target(language)
    for work in share_of(str(target), share):
        made = emitted(work, language, target)
        if made is None or not made[1].kernels or made[1].by_role("temporary"):
            continue
        source, program = made
        again = language.adopt(source.text, source.entry, program, target)
        assert again.text == source.text and again.entry == source.entry and again.sizes == source.sizes
        assert [a.name for a in again.arrays] == [a.name for a in source.arrays if a.role != "temporary"]
        assert again.launches == source.launches, "the text does not say how its kernels are launched"
    try:
        language.adopt("this is no kernel at all", None, program_of_first(language, target), target)
    except PortakernError:
        return
    # A language whose text cannot be judged without its compiler leaves that to the compiler.


def program_of_first(language: Language, target: Target) -> Program:
    return next(m[1] for w in share_of(str(target)) if (m := emitted(w, language, target)) is not None)


def schedules_are_legal(backend: Backend, language: Language, share: int = 1) -> None:
    """Every schedule of every space gives each axis a tile, uses declared options, and can be emitted."""
    for name in language.targets:
        target = registry().target(f"{language.name}:{name}")
        for work in share_of(str(target), share):
            seen: list[tuple[Nest, Sequence[Schedule]]] = []

            def choose(nest: Nest, seen: list = seen, target: Target = target) -> Schedule:
                space = language.schedules(nest, target.device)
                seen.append((nest, space))
                assert space, f"{target} has no schedule for a {nest.family} kernel"
                return space[0]

            try:
                steps.refuse_dtypes(work.program, target)
            except UnsupportedDtype:
                continue
            lower(work.program, choose, dict(work.names))
            for nest, space in seen:
                assert len(set(space)) == len(space), f"{target}: a schedule appears twice"
                for schedule in space:
                    legal(schedule, nest, language, target.device)
                if language.choices is not None:
                    _choices_are_known(language.choices(nest, target.device), nest, language)


def _choices_are_known(choices: Mapping[str, Sequence[Value]], nest: Nest, language: Language) -> None:
    """What tuning is told to try belongs to the nest, and numbers are positive where they are tiles, warps or stages."""
    counts = {"warps", "stages", *(a.name for a in nest.axes), *(a.role for a in nest.axes)}
    for name, values in choices.items():
        assert name in counts or name in {**LOWERED_OPTIONS, **language.options}, f"choices of {language.name} name {name!r}"
        assert values, f"choices of {language.name} for {name} are empty"
        if name in counts:
            assert all(isinstance(v, int) and v >= 1 for v in values), f"choices of {language.name} for {name}: {values}"


def legal(schedule: Schedule, nest: Nest, language: Language, device: Device) -> None:
    assert {n for n, _ in schedule.tiles} == {a.name for a in nest.axes}, f"{schedule} is not over the axes of the nest"
    assert all(size >= 1 for _, size in schedule.tiles) and schedule.stages >= 1 and schedule.warps >= 1, str(schedule)
    undeclared = [n for n, _ in schedule.options if n not in {**LOWERED_OPTIONS, **language.options}]
    assert not undeclared, f"{schedule} uses options that {language.name} does not declare: {undeclared}"
    limit, lanes = device.figures.get("threads_per_block"), device.figures.get("subgroup")
    if limit is not None and lanes is not None:
        threads = schedule.warps * lanes.value
        assert threads <= limit.value, f"{schedule} asks for {threads:g} threads of {limit.value:g}"


# ---- compiling ------------------------------------------------------------------------------------------------------------


def compiles(backend: Backend, language: Language) -> None:
    """A binary with its tool named, and resources that say where they were read; the fingerprint does not move."""
    target = first_target(language)
    toolchain = needed(language, target)
    assert toolchain.fingerprint(target) == toolchain.fingerprint(target) != ""
    (work,) = works(Problem(load_operator("softmax"), {"M": 5, "N": 300}, {}), [target], ["f32"])
    source, _ = steps.emit(work)
    made = in_worker(language, "compiled_binary", work)
    assert isinstance(made, CompiledBinary) and made.data and made.tool and made.format
    assert made.resources, "the binary tells no resources"
    for used in made.resources:
        assert used.source, f"the resources of {used.kernel} do not say where they were read"
    assert source.digest == steps.emit(work)[0].digest


def rejects_garbage(backend: Backend, language: Language) -> None:
    """A text that does not compile raises a CompileError that carries the compiler's words."""
    target = first_target(language)
    needed(language, target)
    (work,) = works(Problem(load_operator("softmax"), {"M": 5, "N": 300}, {}), [target], ["f32"])
    try:
        in_worker(language, "compiled_garbage", work)
    except CompileError as error:
        assert error.message
        return
    raise AssertionError(f"{language.name} compiled a text that is not a program")


def compiled_binary(work: Work) -> CompiledBinary:
    """Runs in a worker."""
    source, _ = steps.emit(work)
    language = registry().language(source.target.language)
    assert language.toolchain is not None
    return language.toolchain.compile(source)


def compiled_garbage(work: Work) -> CompiledBinary:
    """Runs in a worker: compiles the source with a word added that no language takes for code."""
    source, _ = steps.emit(work)
    language = registry().language(source.target.language)
    assert language.toolchain is not None
    return language.toolchain.compile(replace(source, text=f"{source.text}\n@@ this is no code ) (\n"))


def needed(language: Language, target: Target) -> Toolchain:
    """The toolchain; skips where the language has none or its tools are not here."""
    if language.toolchain is None:
        raise NotHere(f"{language.name} has no compiler")
    if not (found := language.toolchain.available(target)):
        raise NotHere(f"{language.name} cannot be compiled here: {found.detail}")
    return language.toolchain


def in_worker(language: Language, function: str, work: Work) -> object:
    with WorkerPool(1, env=steps.build_environment(language)) as pool:
        return pool.call(f"{__name__}:{function}", work, timeout_s=TOOL_LIMIT_S)


# ---- running ----------------------------------------------------------------------------------------------------------------


def runs_correctly(backend: Backend, language: Language, share: int = 1) -> None:
    """Samples against the oracle: guard bands, inputs unchanged, empty arrays, arrays of one element, open dims."""
    target = runnable(language)
    rows = Runner("checked", 2).run(list(share_of(str(target), share))).rows
    wrong = [describe(r) for r in rows if r.correct is not True and not r.refused and kind(r) != "missing-rule"]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(rows)} samples are not correct on {target}:", *wrong])
    assert any(r.correct for r in rows)


def prepares_what_it_calls(backend: Backend, language: Language) -> None:
    """A prepared call gives what a call gives, again and again and on changed inputs, and writes the arrays it is given."""
    target = on_silicon(language)
    softmax, matmul = load_operator("softmax"), load_operator("matmul")
    asked = works(Problem(softmax, {"M": dynamic, "N": 300}, {}), [target], ["f32"], open_sizes={"M": 7})
    asked += works(Problem(matmul, {"M": dynamic, "N": 40, "K": 24}, {}), [target], ["f32"], open_sizes={"M": 33})
    with WorkerPool(1, env=steps.run_environment(target, "runtime")) as pool:
        for work in asked:
            pool.call(f"{__name__}:prepared_as_called", work, timeout_s=TOOL_LIMIT_S)


def on_silicon(language: Language) -> Target:
    """A target whose runtime works here; skips where there is none."""
    if language.runtime is None:
        raise NotHere(f"{language.name} has no runtime")
    reasons = []
    for name in language.targets:
        target = registry().target(f"{language.name}:{name}")
        if found := language.runtime.available(target):
            return target
        reasons.append(found.detail)
    raise NotHere(f"no silicon here runs {language.name}: {'; '.join(dict.fromkeys(reasons))}")


def prepared_as_called(work: Work) -> None:
    """Runs in a worker.  Raises :class:`AssertionError` where a prepared call and a call differ."""
    import numpy as np

    from portakern.launch import arrays_of, device_of
    from portakern.native import open_device
    from portakern.spec.bind import bind
    from portakern.spec.inputs import make_inputs
    from portakern.study.built import Built
    from portakern.timing.inputs import place_of

    built = Built(work)
    runtime = registry().language(built.target.language).runtime
    assert runtime is not None
    place = place_of(built.target, device_of(runtime, built.target) or open_device("host"), arrays_of(runtime))
    program = bind(work.program, work.sizes)
    first, second = (list(make_inputs(program, work.families, seed).values()) for seed in (0, 1))
    inputs = [place.put(x) for x in first]
    what = f"{work.row.operator} for {work.target}"

    def called() -> list[np.ndarray]:
        outputs = built(*inputs)
        return [place.get(x) for x in (outputs if isinstance(outputs, tuple) else (outputs,))]

    def same(have: Sequence[np.ndarray], want: Sequence[np.ndarray], message: str) -> None:
        assert len(have) == len(want) and all(map(np.array_equal, have, want)), f"{what}: {message}"

    want = called()
    same(called(), want, "the second call on the same arrays gives something else")
    prepared = built.prepare(*inputs)
    given = [place.put(np.zeros_like(x)) for x in want]
    writing = built.prepare(*inputs, out=tuple(given))
    for x, values in zip(inputs, second, strict=True):
        place.write(x, values)
    changed = called()
    assert not all(map(np.array_equal, changed, want)), f"{what}: a call on other numbers gives the earlier results"
    for _ in range(2):
        for output in (*prepared.outputs, *given):
            place.fill(output, 0xFF)
        prepared()
        writing()
        same([place.get(x) for x in prepared.outputs], changed, "a prepared call gives something else than a call")
        same([place.get(x) for x in given], changed, "a prepared call does not write the arrays it is given")
    assert all(a is b for a, b in zip(writing.outputs, given, strict=True)), f"{what}: other outputs than those given"


def runnable(language: Language) -> Target:
    reasons = []
    for name in language.targets:
        target = registry().target(f"{language.name}:{name}")
        runner, why = steps.runner_for(language, target)
        if runner:
            needed(language, target) if language.toolchain is not None else None
            return target
        reasons.append(why)
    raise NotHere(f"nothing here runs {language.name}: {'; '.join(dict.fromkeys(reasons))}")


def kind(row: Row) -> str:
    return row.error["kind"] if row.error else ""


def describe(row: Row) -> str:
    what = f"{row.error['kind']}: {row.error['message']}" if row.error else row.method
    return f"  {row.operator} {row.shape} {row.dtype}: {what}"


# ---- machines -----------------------------------------------------------------------------------------------------------


def machine_runs(backend: Backend, machine: Machine, share: int = 1) -> None:
    """It says of itself what it is, serves some language here, runs what that compiles correctly, and estimates it."""
    check_machines(backend, set())
    served = [t for t in registry().default_targets() if registry().machine(t) is machine]
    assert served, f"no language here makes {machine.format} for {', '.join(machine.targets)}"
    if machine.simulator is not None:
        assert machine.simulator.evidence == "simulated", "a machine executes what was compiled"
    if machine.estimator is not None:
        assert machine.estimator.version, "estimates are kept by the version of the model"
    target, why = _served_here(machine, served)
    if target is None:
        raise NotHere(f"the machine for {machine.format} serves nothing that is compiled here: {why}")
    asked = list(share_of(str(target), share))
    rows = Runner("compared", 2).run(asked).rows
    if machine.simulator is not None and machine.simulator.available(target):
        wrong = [describe(r) for r in rows if r.error is None and r.evidence not in ("simulated", "executed", "timed")]
        wrong += [describe(r) for r in rows if r.correct is False]
        assert not wrong, "\n".join([f"samples that did not run on the machine for {target}:", *wrong])
        assert any(r.correct for r in rows)
    if machine.estimator is not None and machine.estimator.available(target):
        silent = [describe(r) for r in rows if r.reached("compiled") and r.estimate is None]
        assert not silent, "\n".join([f"samples without an estimate on {target}:", *silent])


def _served_here(machine: Machine, served: Sequence[Target]) -> tuple[Target | None, str]:
    """The first target whose language compiles here, or why there is none."""
    reasons: list[str] = []
    for target in served:
        toolchain = registry().language(target.language).toolchain
        found = toolchain.available(target) if toolchain is not None else None
        if found:
            return target, ""
        reasons.append(found.detail if found is not None else f"{target.language} has no compiler")
    return None, "; ".join(dict.fromkeys(reasons))


LANGUAGE_CHECKS: dict[str, Callable[..., None]] = {
    "emits the library": emits_the_library,
    "emits without tools": emits_without_tools,
    "emits the same again": emits_the_same_again,
    "lists what is missing": lists_what_is_missing,
    "stands alone": stands_alone,
    "describes itself": describes_itself,
    "schedules are legal": schedules_are_legal,
    "compiles": compiles,
    "rejects garbage": rejects_garbage,
    "runs correctly": runs_correctly,
    "prepares what it calls": prepares_what_it_calls,
}

BY_SHARES = frozenset({"emits the library", "emits the same again", "lists what is missing", "describes itself",
                       "schedules are legal", "runs correctly"})  # fmt: skip
"""Those of :data:`LANGUAGE_CHECKS` that go through all samples."""
