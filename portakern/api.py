"""The Python face: build an operator, compare targets, and the door for generators of kernels."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portakern.backend import InspectedKernel, Target
from portakern.dtypes import DTYPES, DType
from portakern.errors import UsageError
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from portakern.study.built import Built
from portakern.study.judge import CANDIDATE_MEMORY, CANDIDATE_S
from portakern.study.judge import judge as judge_one
from portakern.study.judging import Judge, Limits
from portakern.study.keeping import keeper
from portakern.study.porting import porting_notes
from portakern.study.row import Row
from portakern.study.study import Runner, Study
from portakern.study.task import Task, task_of
from portakern.study.work import Problem, ScheduleRequest, like_typical, works

if TYPE_CHECKING:
    from portakern.study.inspecting import Inspection

OperatorLike = Operator | str
DTypeLike = str | DType | None


def build(
    op: OperatorLike, target: str | Target, dtype: DTypeLike = None, schedule: ScheduleRequest = None, **values: Any
) -> Built:
    """An operator built for one target.

    Args:
        op: an operator, the name of one in the library, or ``file.py:function``.
        target: ``language:device``.
        dtype: of the inputs that declare none; bf16 where the operator declares it, else its first.
        schedule: tiles by axis or role, ``stages``, ``warps`` and options of the backend, which change its default; or
            ``"default"``.  Where ``None``, the tuned schedule if there is one for this shape and device, else the default.
        values: sizes of dims and values of parameters.  Dims left out, or ``pk.dynamic``, stay open.

    Raises:
        UsageError: the operator, target, dtype, a dim or a parameter does not exist or cannot have the value.
        PortakernError: it cannot be lowered, emitted or compiled.
    """
    op = load_operator(op)
    dims, params = split(op, values)
    (work,) = works(Problem(op, dims, params), [one(target)], [dtype_of(op, dtype)], schedule)
    return Built(replace(work, weights=op.weights), op.bound)


def compare(
    op: OperatorLike,
    targets: str | Sequence[str | Target],
    dtype: DTypeLike | Sequence[str] = None,
    schedule: ScheduleRequest = None,
    jobs: int = 2,
    against: Sequence[str] = (),
    store: str | Path | bool | None = None,
    **values: Any,
) -> Study:
    """One row per target: built everywhere, checked and timed where this machine can.  Faults are in the rows.

    Args:
        op, schedule, values: as for :func:`build`; with no sizes, those of the operator's typical case.
        targets: names or patterns, as a list or separated by commas.
        dtype: one, or several.
        jobs: worker processes at once; timing has the machine to itself.
        against: peers to time against, as ``portakern bench`` takes them.
        store: where timed rows are kept: a file, ``True`` for the user's store; nowhere where not given.
    """
    from portakern.timing.peers import check_names

    check_names(against)
    op = load_operator(op)
    patterns = targets if isinstance(targets, str) else ",".join(map(str, targets))
    dtypes = [dtype_of(op, d) for d in dtype] if isinstance(dtype, list | tuple) else [dtype_of(op, dtype)]  # type: ignore[arg-type]
    asked = works(typical(op, values), registry().match(patterns), dtypes, schedule)
    runner = Runner("compared", jobs, keep_sources=True, timing={"against": list(against)}, full_check=False,
                    sink=keeper(store))  # fmt: skip
    study = runner.run(asked)
    return replace(study, porting=porting_notes(study.rows))


def evaluate(
    op: OperatorLike,
    source: str,
    target: str | Target,
    entry: str | None = None,
    dtype: DTypeLike = None,
    timeout_s: float = CANDIDATE_S,
    memory_bytes: int | None = CANDIDATE_MEMORY,
    store: str | Path | bool | None = None,
    jail: str = "auto",
    secret: str | None = None,
    **values: Any,
) -> Row:
    """Judge a kernel from elsewhere: compile it, check it, and time it where its silicon is here.

    It runs in a child process; whatever it does there, the answer is a row.  ``task(op, target).convention`` says how a
    kernel of the target's language is called.

    Args:
        op: what the kernel should compute.
        source: its text.
        target: ``language:device``.
        entry: the function to call or launch; the language's convention says what it is where not given.
        dtype, values: at which size it is tried; the operator's typical case where not given.
        timeout_s: wall time for compiling, and again for checking and for timing.
        memory_bytes: limit on the memory of its process; ``None`` for none.
        store: as for :func:`compare`.
        jail: ``require`` refuses to run it where a part of the jail is missing on this machine, ``off`` makes none.
        secret: that of an earlier row, to judge with the same inputs, sizes and places again; a new one where not given.

    Raises:
        UsageError: the operator, target, dtype, dim or parameter makes no sense.  Nothing is raised for a bad candidate.
    """
    op = load_operator(op)
    (work,) = works(typical(op, values), [one(target)], [dtype_of(op, dtype)])
    return judge_one(work, source, entry, timeout_s, memory_bytes, sink=keeper(store), jail=jail, secret=secret)


def judge(
    what: Task | OperatorLike,
    target: str | Target | None = None,
    workers: int = 2,
    level: str = "full",
    dtype: DTypeLike = None,
    timeout_s: float = CANDIDATE_S,
    memory_bytes: int | None = CANDIDATE_MEMORY,
    jail: str = "auto",
    timing: Mapping[str, Any] | None = None,
    store: str | Path | bool | None = None,
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
    """A kernel from elsewhere that belongs to no operator: what it uses on each target, what would limit it, and what a
    simulator sees wrong in it.

    Args:
        source: a file (:class:`pathlib.Path`), or the kernel's text.
        targets: names or patterns, as a list or separated by commas.
        entry: the kernel, or a host function that launches some; needed where the text holds several.
        args: what it is called with, in order: ``"x=bf16[64,128],n=4096,s:f32=0.5"``.  Without it only the code is looked at.
        grid, block, shared_bytes: how it is launched, where the text does not say.
        run: whether to execute it in a simulator, on arrays of random numbers.
        origin: the language it is written in where that is not the target's: ``"cuda"``, for ``hip``.

    Raises:
        UsageError: the question makes no sense.  What is wrong with the kernel is in the inspections.
    """
    from portakern.study.inspecting import arguments_of, inspect_all

    text = source.read_text() if isinstance(source, Path) else source
    patterns = targets if isinstance(targets, str) else ",".join(map(str, targets))
    file = str(source) if isinstance(source, Path) else ""
    kernel = InspectedKernel(text, entry, arguments_of(args), triple(grid), triple(block), shared_bytes, file, origin)
    return inspect_all(kernel, registry().match(patterns), run=run)


def task(op: OperatorLike, target: str | Target, dtype: DTypeLike = None, **values: Any) -> Task:
    """What a generator must know to write ``op`` for ``target``, with a correct kernel to start from.

    Args:
        op, dtype, values: as for :func:`evaluate`.
    """
    op = load_operator(op)
    (work,) = works(typical(op, values), [one(target)], [dtype_of(op, dtype)])
    return task_of(work, op)


# ---- reading the arguments ---------------------------------------------------------------------------------------------


def one(target: str | Target) -> Target:
    return target if isinstance(target, Target) else registry().target(target)


def dtype_of(op: Operator, dtype: DTypeLike) -> str:
    """The dtype's name; for none, bf16 where the operator declares it, else the first it declares."""
    if dtype is None:
        return "bf16" if "bf16" in op.dtypes else op.dtypes[0]
    name = dtype.name if isinstance(dtype, DType) else dtype
    if name not in DTYPES:
        raise UsageError(f"unknown dtype {name!r}", hint=f"dtypes are {', '.join(DTYPES)}")
    return name


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
