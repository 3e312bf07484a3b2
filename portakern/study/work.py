"""What is asked: an operator at one shape and dtype on one target.  Made in the parent, where it is checked for sense."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portakern.backend import Target
from portakern.dtype_names import dtype_name
from portakern.dtypes import DTYPES
from portakern.errors import UsageError
from portakern.ir.core import Arg
from portakern.ir.program import Array, ArrayFacts
from portakern.ir.schedule import Value, literal
from portakern.ir.size import Sym, names_of
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.ir.tile import BufferType
from portakern.referee.secret import Secret
from portakern.spec.bind import bind
from portakern.spec.cost import cost
from portakern.spec.inputs import Family, at_sizes
from portakern.spec.operator import Case, DimValue, Operator
from portakern.study.row import Row
from portakern.timing.roofline import peak_name
from portakern.tuned.chosen import Chosen
from portakern.tuned.keys import Key, key_of
from portakern.tuned.resolve import tuned

DEFAULT = "default"

ScheduleRequest = Mapping[str, Value] | str | None
"""A schedule as a user asks for it: nothing (the tuned one, where there is one), ``"default"`` (the backend's), or
tiles by axis or role, ``stages``, ``warps`` and options that change the backend's, as a mapping or as ``"m=64,stages=3"``."""


def schedule_asked(request: ScheduleRequest) -> dict[str, Value]:
    """What a request changes of the backend's schedule.

    Raises :class:`UsageError` where a text is not of the form ``name=value,name=value``.
    """
    if request is None or request == DEFAULT:
        return {}
    if not isinstance(request, str):
        return dict(request)
    parts = [part.strip() for part in request.split(",") if part.strip()]
    if not parts or any("=" not in part for part in parts):
        raise UsageError(f"the schedule {request!r} is neither {DEFAULT!r} nor of the form name=value,name=value",
                         hint="as in schedule='m=128,n=128,stages=3', or a mapping")
    return {name.strip(): literal(value.strip()) for name, value in (part.split("=", 1) for part in parts)}


@dataclass(frozen=True)
class Work:
    """All that a worker process needs to make one row.

    It carries the traced program and never the operator's Python function, so that workers import no user's file.

    Args:
        program: the tensor program with its static dims bound.
        names: names of the dims of each input, for readable kernels.
        sizes: values for the dims left open, used when the kernel is checked or timed.
        families: what the inputs are filled with, at ``sizes``.
        declared: the same with expressions of the dims left open.
        target: ``language:device``.
        schedule: what the user asks of the schedule.
        key: what a tuned schedule of it is kept under.
        chosen: schedules for its kernels from elsewhere, in place of the backend's default.
        weights: inputs that stay as they are from call to call, where what hangs on them alone is to be done apart.
        avoided: schedules of the backend's that did not compile for want of room.
        row: the row so far: operator, target, shape, dtype, params.
        foreign: a kernel from elsewhere that takes the place of the one we would emit.
        facts: strides and alignment of inputs that are not contiguous and 16-byte aligned.
        torch: what the operator says its counterpart in PyTorch is.
        file: where the operator is written.
    """

    program: TensorProgram
    names: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]
    families: Mapping[str, Family]
    target: str
    schedule: Mapping[str, Value]
    row: Row
    foreign: Foreign | None = None
    facts: Mapping[str, ArrayFacts] = field(default_factory=dict)
    torch: str = ""
    file: str = ""
    key: Key | None = None
    chosen: Chosen | None = None
    declared: Mapping[str, Family] = field(default_factory=dict)
    weights: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()


@dataclass(frozen=True)
class Foreign:
    """The text of a kernel that was not emitted here, and the name of the function to call in it.

    ``jail`` is one of :data:`portakern.referee.process.MODES`, ``memory_bytes`` the limit on the data of its process.
    ``secret`` is what its judgement draws from, ``again`` whether it was given and not drawn; no process that holds the kernel
    has it.  ``quick`` is whether a few stages of the check are enough, ``seconds`` what each of its processes may take.
    """

    text: str
    entry: str | None = None
    jail: str = "auto"
    memory_bytes: int | None = None
    secret: Secret = field(default_factory=Secret.drawn)
    again: bool = False
    quick: bool = False
    seconds: float | None = None


@dataclass(frozen=True)
class Problem:
    """An operator at a size: the dims given, the parameters, and the input families."""

    operator: Operator
    dims: Mapping[str, DimValue]
    params: Mapping[str, Any]
    families: Mapping[str, Family] = field(default_factory=dict)


def of_case(operator: Operator, case: Case, params: Mapping[str, Any] | None = None) -> Problem:
    """A declared case, with ``params`` in place of its own where given."""
    return Problem(operator, case.dims, {**case.params, **(params or {})}, case.inputs)


def like_typical(operator: Operator, dims: Mapping[str, DimValue], params: Mapping[str, Any]) -> Problem:
    """The typical case, with ``params`` in place of its own; or ``dims`` where some are given, those left out as there, with
    ``params`` alone: its parameters and families belong to its sizes.  Dims that the parameters do away with are left out."""
    case = operator.typical
    if not dims:
        params = {**case.params, **params}
    known = operator.all_dims(params)
    sizes = {k: v for k, v in case.dims.items() if k in known}
    return Problem(operator, {**sizes, **dims}, params, {} if dims else case.inputs)


def works(
    problem: Problem,
    targets: Iterable[Target],
    dtypes: Sequence[str],
    schedule: ScheduleRequest = None,
    open_sizes: Mapping[str, int] | None = None,
    foreign: Foreign | None = None,
) -> list[Work]:
    """One :class:`Work` per target and dtype, with the tuned schedule where there is one and none is asked for.

    Raises:
        UsageError: a dim, size, parameter or dtype makes no sense.
        SpecError: the operator is not well formed.
    """
    op = problem.operator
    ranks, sizes = op.check_dims(problem.dims, problem.params)
    params = op.check_params(problem.params)
    families = problem.families or op.families
    found = []
    for dtype in map(dtype_name, dtypes):
        traced = op.trace(problem.params, dtype, ranks, sizes)
        names = dim_names(op.arguments(problem.params, dtype, ranks, sizes))
        program = bind(traced, {k: v for k, v in sizes.items() if k in traced.dims})
        _addressable(op, program)
        shape = _shape(op, ranks, sizes)
        needs = cost_of(program)
        opened = {n: (open_sizes or {}).get(n, _example(op, n)) for n in program.dims}
        for target in targets:
            row = Row(op.name, str(target), None, shape, dtype, params, cost=needs)
            key = key_of(traced, sizes, dtype, target)
            chosen = tuned(key, target) if not schedule and foreign is None else None
            found.append(Work(program, names, opened, at_sizes(families, {**sizes, **opened}), str(target),
                              schedule_asked(schedule), row, foreign, torch=op.torch,
                              file=op.file, key=key, chosen=chosen, declared=at_sizes(families, sizes)))  # fmt: skip
    return found


def _addressable(op: Operator, program: TensorProgram) -> None:
    """Raises :class:`UsageError` for arrays that no 64-bit address reaches the end of."""
    named = [*((a.name, tensor_type(a)) for a in program.args),
             *((n, tensor_type(r)) for n, r in zip(program.outputs, program.results, strict=True))]  # fmt: skip
    for name, t in named:
        size = math.prod(n for n in t.shape if isinstance(n, int)) * DTYPES[t.dtype].bytes
        if size >= 1 << 63 and 0 not in t.shape:
            shape = " x ".join(map(str, t.shape))
            raise UsageError(f"{op.name} is too large: {name} of {shape} {t.dtype} has {size:.3g} bytes, and addresses end at "
                             "9.2e18", hint="take smaller sizes", kind="too-large")  # fmt: skip


def cost_of(program: TensorProgram) -> dict[str, Any] | None:
    """The ``cost`` of a row; ``None`` while a dim is open."""
    found = cost(program)
    if not isinstance(found.bytes, int) or not isinstance(found.flops, int):
        return None
    return {"bytes": found.bytes, "flops": found.flops, "peak": peak_name(program)}


def dim_names(args: Iterable[Arg]) -> dict[str, tuple[str, ...]]:
    """The names of each input's dims as the operator writes them; dims that are no plain name get that of their place."""
    def name(size: Any, place: int) -> str:
        plain = isinstance(size, Sym) and len(names_of(size)) == 1 and str(size).isidentifier()
        return str(size) if plain else f"d{place}"

    def of(arg: Arg) -> tuple[str, ...]:
        return tuple(name(s, i) for i, s in enumerate(tensor_type(arg).shape))

    return {a.name: of(a) for a in args}


def arg_rows(arrays: Iterable[Array]) -> list[tuple[str, str, str, tuple[int | str, ...]]]:
    """(name, role, dtype, shape) of arrays, open dims by their text."""
    def shape(a: Array) -> tuple[int | str, ...]:
        dims = a.type.shape if isinstance(a.type, BufferType) else ()
        return tuple(s if isinstance(s, int) else str(s) for s in dims)

    return [(a.name, a.role, a.dtype, shape(a)) for a in arrays]


def _shape(op: Operator, ranks: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The row's ``shape``: an integer per dim, a list for a starred one, ``None`` for an open one."""
    shape: dict[str, Any] = {}
    for name in op.dims:
        if name in ranks:
            parts = [sizes.get(n) for n in star_parts(name, ranks[name])]
            if parts:
                shape[name] = parts
        else:
            shape[name] = sizes.get(name)
    return shape


def star_parts(name: str, rank: int) -> tuple[str, ...]:
    from portakern.spec.annotations import star_names

    return tuple(star_names(name, rank))


def _example(op: Operator, dim: str) -> int:
    """A size at which a kernel with an open dim is tried: that of the typical case."""
    size = op.typical.dims.get(dim)
    return size if isinstance(size, int) else 3
