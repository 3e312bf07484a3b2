"""The Python face: what the commands do, with the same names and options, and the door for generators of kernels."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portakern.backend import InspectedKernel, Target
from portakern.dtype_names import DTypeLike, dtype_name
from portakern.errors import UsageError
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from portakern.study import asking
from portakern.study.again import Gated, gate_again
from portakern.study.asking import OperatorsLike, TargetsLike
from portakern.study.baseline import baseline as rows_of
from portakern.study.built import Built
from portakern.study.emitting import check_form, piece
from portakern.study.gate import MARGIN
from portakern.study.gate import gate as hold
from portakern.study.judge import CANDIDATE_MEMORY, CANDIDATE_S
from portakern.study.judge import judge as judge_one
from portakern.study.judging import Judge, Limits
from portakern.study.keeping import StoreLike, keeper
from portakern.study.porting import porting_notes
from portakern.study.results import read_results
from portakern.study.resuming import joined, kept, time_limit
from portakern.study.row import Row
from portakern.study.store import ResultStore, Stored
from portakern.study.study import Progress, Runner, Study
from portakern.study.task import Task, task_of
from portakern.study.work import Problem, ScheduleRequest, like_typical, works

if TYPE_CHECKING:
    from portakern.study.inspecting import Inspection
    from portakern.tuning.tuner import Tuning

OperatorLike = Operator | str
DTypes = DTypeLike | Sequence[DTypeLike] | None
"""One, several, or ``"all"`` that the operator declares."""


def build(
    op: OperatorLike, target: str | Target, dtype: DTypeLike | None = None, schedule: ScheduleRequest = None, **values: Any
) -> Built:
    """An operator built for one target.

    Args:
        op: an operator, the name of one in the library, or ``file.py:function``.
        target: ``language:device``.
        dtype: of the inputs that declare none; by default bf16 if the operator declares it, else its first.
        schedule: tiles by axis or role, ``stages``, ``warps`` and options of the backend, which change its default; or
            ``"default"``.  By default the tuned schedule if there is one for this shape and device, else the default.
        values: sizes of dims and values of parameters.  Dims that are left out or ``pk.dynamic`` stay open.

    Raises:
        UsageError: the operator, target, dtype, a dim or a parameter does not exist or cannot have the value.
        PortakernError: it cannot be lowered, emitted or compiled.  If its compiler is not here, it is only emitted, and what
            needs a binary says which extra brings one.
    """
    op = load_operator(op)
    dims, params = split(op, values)
    (work,) = works(Problem(op, dims, params), [one(target)], [dtype_of(op, dtype)], schedule)
    return Built(replace(work, weights=op.weights), op.bound)


def check(
    op: OperatorsLike,
    targets: TargetsLike,
    dtype: DTypes = None,
    schedule: ScheduleRequest = None,
    jobs: int = 2,
    shape: Mapping[str, Any] | str | None = None,
    param: Mapping[str, Any] | str | None = None,
    grad: str | Sequence[str] | None = None,
    save: str = "",
    progress: Progress | None = None,
    **values: Any,
) -> Study:
    """Run what can run here and compare it with the float64 oracle, as ``portakern check``.  Faults are in the rows.

    Without sizes the operator's own cases are tried, in each dtype it declares.

    Args:
        op: one, or several, or ``"all"``; each an operator, a library name or ``file.py:function``.
        targets: names or patterns, as a list or separated by commas.
        dtype: one, or several, or ``"all"``.
        schedule: as for :func:`build`.
        jobs: number of worker processes.
        shape, param: sizes and parameters by name, or as the command takes them (``"M=64,N=100"``); also for names that
            Python or this function uses itself.
        grad, save: inputs whose gradients are meant in the operator's place (``""``: all), and what a backward is given.
        progress: called with (rows finished, rows in all, the row that has just been finished).
        values: sizes of dims and values of parameters.  A list, a range or a text such as ``"64:1024:*2"`` is a sweep.

    Raises:
        UsageError: the operator, a target, a dtype, a size or a parameter makes no sense.  What is wrong with a kernel is
            in its row.
    """
    asked = asking.asked(op, targets, dtype, schedule, shape, param, True, grad, save, values)
    return Runner("checked", jobs, progress, keep_sources=True).run(asked.works)


def bench(
    op: OperatorsLike,
    targets: TargetsLike,
    dtype: DTypes = None,
    schedule: ScheduleRequest = None,
    against: str | Sequence[str] = (),
    budget: float = 2.0,
    cache: str = "cold",
    mode: str = "auto",
    margin: float = 0.01,
    width: float = 0.01,
    seed: int = 0,
    check: str = "auto",
    resume: bool = False,
    store: StoreLike = None,
    shape: Mapping[str, Any] | str | None = None,
    param: Mapping[str, Any] | str | None = None,
    grad: str | Sequence[str] | None = None,
    save: str = "",
    progress: Progress | None = None,
    **values: Any,
) -> Study:
    """Time kernels on their silicon, in turns with peers, as ``portakern bench``.  Faults are in the rows.

    Args:
        op, targets, dtype, schedule, shape, param, grad, save, progress, values: as for :func:`check`; without sizes the
            operator's typical case is timed.
        against: peers, as ``numpy`` or ``torch.compile``.
        budget: seconds of timing per contender.
        cache, mode, margin, width, seed: as for the command.
        check: ``full`` lets the oracle judge all outputs before timing, however long that takes.
        resume: take rows of the same text on this machine from the store, and time the rest.
        store: where timed rows are kept: a file, or ``True`` for the user's store; by default nowhere.

    Raises:
        UsageError: the operator, a target, a dtype, a size or an option makes no sense.  What is wrong with a kernel is
            in its row.
    """
    if check not in ("auto", "full"):
        raise UsageError(f"check={check!r}: neither auto nor full")
    timing = timing_of(against, budget, cache, mode, margin, width, seed)
    keep = keeper(store)
    if resume and keep is None:
        raise UsageError("--resume takes rows from the store", hint="leave out --no-store; in Python give store=True or a file")
    works = asking.asked(op, targets, dtype, schedule, shape, param, False, grad, save, values).works
    past = kept(works, keep.store, timing) if resume and keep is not None else {}
    # One worker: what runs beside a kernel takes its cache and its cores.
    runner = Runner("timed", 1, progress, check_limit_s=time_limit(timing), timing=timing, full_check=check == "full",
                    sink=keep, keep_sources=True)  # fmt: skip
    return joined(runner.run([w for n, w in enumerate(works) if n not in past]), past, works)


def sweep(op: OperatorsLike, targets: TargetsLike, dtype: DTypes = None, **options: Any) -> Study:
    """:func:`bench` over sizes: ``pk.sweep("row_sum", "cpp:cpu", M="256:8192:*2", N=[512, 1024])``, a row for each point.

    Args:
        op, targets, dtype, options: as for :func:`bench`.

    Raises:
        UsageError: as for :func:`bench`.
    """
    return bench(op, targets, dtype, **options)


def compare(
    op: OperatorsLike,
    targets: TargetsLike,
    dtype: DTypes = None,
    schedule: ScheduleRequest = None,
    jobs: int = 2,
    against: str | Sequence[str] = (),
    store: StoreLike = None,
    budget: float = 2.0,
    cache: str = "cold",
    mode: str = "auto",
    margin: float = 0.01,
    width: float = 0.01,
    seed: int = 0,
    shape: Mapping[str, Any] | str | None = None,
    param: Mapping[str, Any] | str | None = None,
    grad: str | Sequence[str] | None = None,
    save: str = "",
    progress: Progress | None = None,
    **values: Any,
) -> Study:
    """One row per target: built everywhere, checked and timed if this machine can, as ``portakern compare``.  Faults are
    in the rows.

    Args:
        op, targets, dtype, schedule, jobs, shape, param, grad, save, progress, values: as for :func:`check`; with no sizes,
            those of the operator's typical case.
        against, budget, cache, mode, margin, width, seed, store: as for :func:`bench`; timing has the machine to itself.

    Raises:
        UsageError: the operator, a target, a dtype, a size or an option makes no sense.  What is wrong with a kernel is
            in its row.
    """
    timing = timing_of(against, budget, cache, mode, margin, width, seed)
    asked = asking.asked(op, targets, dtype, schedule, shape, param, False, grad, save, values)
    runner = Runner("compared", jobs, progress, keep_sources=True, timing=timing, full_check=False, sink=keeper(store),
                    check_limit_s=time_limit(timing))  # fmt: skip
    study = runner.run(asked.works)
    return replace(study, porting=porting_notes(study.rows))


def emit(
    op: OperatorLike,
    target: str | Target,
    dtype: DTypeLike | None = None,
    schedule: ScheduleRequest = None,
    ir: str | None = None,
    form: str = "source",
    standalone: bool = False,
    **values: Any,
) -> str | bytes:
    """The text of a kernel, as ``portakern emit``.

    Args:
        op, dtype, values: as for :func:`build`; without sizes, those of the typical case.
        target: ``language:device``.
        ir: ``tensor``, ``tile`` or ``plan``: that level of the IR instead.
        form: ``source``, ``asm``, or ``binary`` (bytes).
        schedule: as for :func:`build`.
        standalone: with the headers in the text.

    Raises:
        UsageError: as for :func:`build`; or the form does not go with the level.
        PortakernError: it cannot be lowered, emitted or, for ``asm`` and ``binary``, compiled.
    """
    check_form(ir, form, standalone)
    op = load_operator(op)
    (work,) = works(typical(op, values), [one(target)], [dtype_of(op, dtype)], schedule)
    return piece(work, ir, form, standalone)[1]


def tune(
    op: OperatorsLike,
    targets: TargetsLike,
    dtype: DTypes = None,
    budget: float = 60.0,
    jobs: int = 2,
    resume: bool = False,
    proposer: str = "auto",
    seed: int = 0,
    most: int | None = None,
    write: str | Path | None = None,
    store: StoreLike = None,
    say: Callable[[str], None] = lambda line: None,
    shape: Mapping[str, Any] | str | None = None,
    param: Mapping[str, Any] | str | None = None,
    **values: Any,
) -> tuple[Tuning, ...]:
    """Search schedules by timing them, and keep the best one for :func:`build`, as ``portakern tune``; one result for each
    operator, target, dtype and size.

    Args:
        op, targets, dtype, shape, param, values: as for :func:`check`, with the typical case where there are no sizes.
        budget: seconds of each search.
        jobs, resume, proposer, seed, most, write: as for the command.
        store: where the winners' times are kept, as for :func:`bench`.
        say: called with each line of progress.

    Raises:
        PortakernError: no schedule can be searched, with the reason.
    """
    from portakern.tuning.tune import tune_work
    from portakern.tuning.tuner import Settings

    works = asking.asked(op, targets, dtype, None, shape, param, values=values).works
    settings = Settings(budget, jobs, seed, resume=resume, proposer=proposer, most=most)
    return tuple(tune_work(work, settings, say, keeper(store), write) for work in works)


def results(
    operator: str | None = None,
    target: str | None = None,
    device: str | None = None,
    dtype: DTypeLike | None = None,
    since: str | None = None,
    last: int | None = None,
    store: str | Path | None = None,
    samples: bool = False,
) -> tuple[Stored, ...]:
    """What was timed before, in the order in which it was taken, as ``portakern results``: each with its row.

    Args:
        operator, target, device, dtype, since, last, samples: as for :meth:`portakern.study.store.ResultStore.select`.
        store: a file; by default the user's store.

    Raises:
        UsageError: the store cannot be read, or ``since`` is no date.
    """
    name = None if dtype is None else dtype_name(dtype)
    return ResultStore(store).select(operator, target, device, name, since, last, samples)


def gate(
    baseline: str | Path | Sequence[Row],
    against: str | Path | Sequence[Row] | None = None,
    margin: float = MARGIN,
    budget: float | None = None,
    tries: int = 2,
    operators: Sequence[Operator] = (),
    store: str | Path | None = None,
    progress: Progress | None = None,
) -> Gated:
    """Compare the cases of an earlier run with rows of now, measured or given, as ``portakern results --gate``.

    Args:
        baseline: rows, or what names them: a store, a JSON file, a run by its name, a date.
        against: the rows of now, or a file of them; by default they are measured here.
        margin: a slowdown up to this is no regression.
        budget: seconds per case; by default as in the earlier run.
        tries: how often a case that seems worse is measured.
        operators: those that are not in the library.
        store: where names and dates are looked up; by default the user's store.
        progress: told of each case, as for :func:`check`.

    Raises:
        UsageError: there is no such run, file or date, or it holds no timed rows.
    """
    before = rows_of(str(baseline), ResultStore(store)) if isinstance(baseline, str | Path) else tuple(baseline)
    if against is not None:
        rows = read_results(against) if isinstance(against, str | Path) else tuple(against)
        return Gated(hold(before, rows, margin), rows)
    changed = {} if budget is None else {"budget_s": budget}
    return gate_again(before, margin, {op.name: op for op in operators}, changed, tries, progress=progress)


def evaluate(
    op: OperatorLike,
    source: str,
    target: str | Target,
    entry: str | None = None,
    dtype: DTypeLike | None = None,
    timeout_s: float = CANDIDATE_S,
    memory_bytes: int | None = CANDIDATE_MEMORY,
    store: StoreLike = None,
    jail: str = "auto",
    secret: str | None = None,
    against: str | Sequence[str] = (),
    budget: float = 2.0,
    cache: str = "cold",
    mode: str = "auto",
    margin: float = 0.01,
    width: float = 0.01,
    seed: int = 0,
    **values: Any,
) -> Row:
    """Judge a kernel from elsewhere: compile it, check it, and time it if its silicon is here.

    It runs in a child process; whatever it does there, the answer is a row.  ``task(op, target).convention`` says how a
    kernel of the target's language is called.

    Args:
        op: what the kernel should compute.
        source: its text.
        target: ``language:device``.
        entry: the function to call or launch; by default the one of the language's convention.
        dtype, values: the size at which it is tried; by default the operator's typical case.
        timeout_s: wall time for compiling, and again for checking and for timing.
        memory_bytes: limit on the memory of its process; ``None`` for none.
        store: as for :func:`compare`.
        jail: ``require`` refuses to run it if a part of the jail is missing on this machine; ``off`` makes no jail.
        secret: that of an earlier row, to judge again with the same inputs, sizes and places; by default a new one.
        against, budget, cache, mode, margin, width, seed: how it is timed and against what, as for :func:`bench`.

    Raises:
        UsageError: the operator, target, dtype, dim or parameter makes no sense, or ``source`` is a path.  Nothing is raised
            for a bad candidate.
    """
    op = load_operator(op)
    (work,) = works(typical(op, values), [one(target)], [dtype_of(op, dtype)])
    timing = timing_of(against, budget, cache, mode, margin, width, seed)
    return judge_one(work, kernel_text(source), entry, timeout_s, memory_bytes, timing, keeper(store), jail, secret)


def judge(
    what: Task | OperatorLike,
    target: str | Target | None = None,
    workers: int = 2,
    level: str = "full",
    dtype: DTypeLike | None = None,
    timeout_s: float = CANDIDATE_S,
    memory_bytes: int | None = CANDIDATE_MEMORY,
    jail: str = "auto",
    timing: Mapping[str, Any] | None = None,
    store: StoreLike = None,
    **values: Any,
) -> Judge:
    """A judge of many kernels for one task, whose processes stay warm: ``with pk.judge(task) as judge: judge.map(texts)``.

    Args:
        what: a task, or what :func:`task` takes, with ``target``, ``dtype`` and ``values`` as there.
        workers: how many candidates are judged at once.
        level: how far: ``compile``, ``quick``, ``full`` or ``timed`` (:data:`portakern.study.candidate.LEVELS`).
        timeout_s: wall time of a candidate for compiling and being checked, and again for being timed.
        memory_bytes, jail, store: as for :func:`evaluate`.
        timing: ``{"against": peers, "options": {...}}`` for the level ``timed``.

    Raises:
        UsageError: the operator, target, dtype, dim, parameter, level or number of workers makes no sense.
    """
    if isinstance(what, Task):
        if target is not None or dtype is not None or values:
            raise UsageError("a task has its target, dtype and sizes", hint="leave them out, or give the operator")
        work = what.work
    else:
        if target is None:
            raise UsageError("no target is given", hint='pk.judge("softmax", "cpp:cpu"), or a task')
        op = load_operator(what)
        (work,) = works(typical(op, values), [one(target)], [dtype_of(op, dtype)])
    return Judge(work, workers, level, Limits(timeout_s, memory_bytes), jail, timing, keeper(store))


def inspect(
    source: str | Path,
    targets: str | Sequence[str | Target],
    entry: str = "",
    args: str = "",
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    shared_bytes: int = 0,
    run: bool = True,
    origin: str = "",
) -> list[Inspection]:
    """Look at a kernel that belongs to no operator: what it uses on each target, what would limit it, and what a
    simulator finds wrong in it.

    Args:
        source: a file (:class:`pathlib.Path`), or the kernel's text.
        targets: names or patterns, as a list or separated by commas.
        entry: the kernel, or a host function that launches some; needed if the text has several.
        args: what it is called with, in order: ``"x=bf16[64,128],n=4096,s:f32=0.5"``.  Without it only the code is analysed.
        grid, block, shared_bytes: how it is launched, if the text does not say it.
        run: whether to execute it in a simulator, on arrays of random numbers.
        origin: its language, if that is not the target's: ``"cuda"`` for ``hip``.

    Raises:
        UsageError: the question makes no sense.  What is wrong with the kernel is in the inspections.
    """
    from portakern.study.inspecting import arguments_of, inspect_all

    text = file_text(source) if isinstance(source, Path) else kernel_text(source)
    patterns = targets if isinstance(targets, str) else ",".join(map(str, targets))
    file = str(source) if isinstance(source, Path) else ""
    kernel = InspectedKernel(text, entry, arguments_of(args), triple(grid), triple(block), shared_bytes, file, origin)
    return inspect_all(kernel, registry().match(patterns), run=run)


def task(op: OperatorLike, target: str | Target, dtype: DTypeLike | None = None, **values: Any) -> Task:
    """All that a generator must know to write ``op`` for ``target``, with a correct kernel to start from.

    Args:
        op, dtype, values: as for :func:`evaluate`.

    Raises:
        UsageError: the operator, target, dtype or a size makes no sense.
        MissingRuleError: the target cannot express the operator.
    """
    op = load_operator(op)
    (work,) = works(typical(op, values), [one(target)], [dtype_of(op, dtype)])
    return task_of(work, op)


# ---- reading the arguments ---------------------------------------------------------------------------------------------


def one(target: str | Target) -> Target:
    return target if isinstance(target, Target) else registry().target(target)


def dtype_of(op: Operator, dtype: DTypeLike | None) -> str:
    """The dtype's name; for none, bf16 where the operator declares it, else the first it declares."""
    return asking.default_dtype(op)[0] if dtype is None else dtype_name(dtype)


def timing_of(against: str | Sequence[str], budget: float, cache: str, mode: str, margin: float, width: float, seed: int
              ) -> dict[str, Any]:  # fmt: skip
    """What :func:`portakern.study.timing.time` is given.  Raises :class:`UsageError` for what is no choice."""
    from portakern.timing.peers import check_names

    peers = [p.strip() for p in against.split(",") if p.strip()] if isinstance(against, str) else list(against)
    check_names(peers)
    for name, value, known in (("cache", cache, ("cold", "warm")), ("mode", mode, ("auto", "single", "graph", "batch"))):
        if value not in known:
            raise UsageError(f"{name}={value!r}", hint=f"there are {', '.join(known)}")
    if not budget > 0:
        raise UsageError(f"budget={budget}: seconds are positive")
    return {"against": peers, "options": {"budget_s": budget, "cache": cache, "mode": mode, "margin": margin, "width": width,
                                          "seed": seed}}  # fmt: skip


def kernel_text(source: Any) -> str:
    """A kernel's text.  Raises :class:`UsageError` for a path, or a text that is the name of a file."""
    if isinstance(source, Path):
        raise UsageError(f"{source} is a path, and a kernel's text is meant", hint="pass path.read_text()")
    if isinstance(source, str) and "\n" not in source and len(source) < 4096 and looks_like_file(source):
        raise UsageError(f"{source!r} is the name of a file, and a kernel's text is meant",
                         hint=f"pass pathlib.Path({source!r}).read_text()")  # fmt: skip
    return source


def looks_like_file(text: str) -> bool:
    """Whether a line is a path rather than code."""
    return bool(re.fullmatch(r"[\w./~+-]+\.[A-Za-z]\w{0,5}", text.strip())) or (bool(text.strip()) and _exists(text.strip()))


def _exists(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def file_text(file: Path) -> str:
    """Raises :class:`UsageError` where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the kernel {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read the kernel {file}: it is not text ({error.reason})") from error


def triple(sizes: int | Sequence[int] | None) -> tuple[int, int, int] | None:
    """Sizes along x, y and z, those not given 1."""
    if sizes is None:
        return None
    x, y, z = (*([sizes] if isinstance(sizes, int) else sizes), 1, 1)[:3]
    return x, y, z


def split(op: Operator, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(dims, parameters) among keyword arguments; raises :class:`UsageError` for what is neither."""
    params = {k: v for k, v in values.items() if k in op.params}
    dims = {k: v for k, v in values.items() if k not in params}
    known = op.all_dims(params)
    for name in dims:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *op.params], 1)
            has = f"its dims are {', '.join(known)}" + (f", its parameters {', '.join(op.params)}" if op.params else "")
            raise UsageError(f"{op.name} has no dim or parameter {name!r}",
                             hint=f"did you mean {near[0]}? {has}" if near else has)
    return dims, params


def typical(op: Operator, values: Mapping[str, Any]) -> Problem:
    """What was given, completed from the typical case."""
    dims, params = split(op, values)
    return like_typical(op, dims, params)
