"""From what is asked for, by a command or in Python, to works: operators, targets, dtypes, sizes and sweeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portakern.backend import Target
from portakern.dtype_names import dtype_name
from portakern.errors import UsageError
from portakern.gradients import grad
from portakern.registry import registry
from portakern.spec.load import library, load_operator
from portakern.spec.operator import Operator
from portakern.study.axes import points
from portakern.study.work import Problem, ScheduleRequest, Work, like_typical, of_case, works

OperatorsLike = Operator | str | Sequence[Operator | str]
"""An operator, a library name, ``file.py:function``, several of them (in one text with commas), or ``all``."""

TargetsLike = str | Target | Sequence[str | Target]
"""A target, a pattern such as ``hip:*``, or several of them."""


@dataclass(frozen=True)
class Selection:
    """Every row that is asked for."""

    works: tuple[Work, ...]
    targets: tuple[Target, ...]


def operators_of(what: OperatorsLike, wrt: str | Sequence[str] | None = None, save: str = "") -> tuple[Operator, ...]:
    """The operators; where ``wrt`` is given (or is empty, for all arrays of floats), their backwards in their place.

    Raises :class:`UsageError` for an unknown one, with what may be meant.
    """
    if what == "all":
        found = library()
    else:
        names = [n.strip() for n in what.split(",") if n.strip()] or [what] if isinstance(what, str) else what
        each = [names] if isinstance(names, Operator) else list(names)
        found = tuple(load_operator(n) for n in dict.fromkeys(each))
    if wrt is None:
        if save:
            raise UsageError(f"--save {save} says what a backward is given", hint="write --grad as well")
        return found
    return tuple(grad(op, wrt or None, save) for op in found)


def targets_of(targets: TargetsLike) -> tuple[Target, ...]:
    several = targets if isinstance(targets, list | tuple) else [targets]
    return registry().match(",".join(map(str, several)))


def dtypes_of(dtype: Any, operator: Operator, default: Sequence[str]) -> tuple[str, ...]:
    """Names of dtypes asked for: one, several (in one text with commas), ``all`` that the operator declares, or ``default``.

    Raises :class:`UsageError` for an unknown one.
    """
    if dtype is None:
        return tuple(default)
    if isinstance(dtype, str):
        if dtype == "all":
            return operator.dtypes
        dtype = [d for d in (d.strip() for d in dtype.split(",")) if d]
        if not dtype:
            raise UsageError("--dtype names no dtype", hint=f"{operator.name} declares {', '.join(operator.dtypes)}")
    return tuple(dict.fromkeys(map(dtype_name, dtype if isinstance(dtype, list | tuple) else [dtype])))


def default_dtype(operator: Operator) -> tuple[str, ...]:
    """bf16, the dtype in which accelerators are compared, else the first the operator declares."""
    return ("bf16",) if "bf16" in operator.dtypes else operator.dtypes[:1]


def asked(
    what: OperatorsLike,
    targets: TargetsLike,
    dtype: Any = None,
    schedule: ScheduleRequest = None,
    shape: Mapping[str, Any] | str | None = None,
    param: Mapping[str, Any] | str | None = None,
    every_case: bool = False,
    grad: str | Sequence[str] | None = None,
    save: str = "",
    values: Mapping[str, Any] | None = None,
) -> Selection:
    """The works of a question.

    Without sizes, ``every_case`` takes each of the operator's own cases in each dtype it declares (what ``check`` does), and
    otherwise the typical one in bf16.  With some, parameters that are not given have their defaults.  Of several operators, a
    dim or parameter must belong to some, and sets those that have it.

    Args:
        what, targets, dtype: as :func:`operators_of`, :func:`targets_of` and :func:`dtypes_of` take them.
        shape: sizes by dim, or the text of ``--shape``; sizes that are texts are read as its are.  A text such as
            ``8:64:*2``, a list or a range is a sweep.
        param: parameters as texts of ``--param``.
        grad, save: as for :func:`operators_of`.
        values: sizes and parameters together, as Python has them.
    """
    aims, ops = targets_of(targets), operators_of(what, grad, save)
    sizes, texts, plain = _told_apart(ops, _by_name(shape, "--shape"), _by_name(param, "--param"), dict(values or {}))
    many, found = len(ops) > 1, list[Work]()
    if many:
        _known_somewhere(ops, sizes, {**texts, **plain})
    for op in ops:
        mine = {k: _axis(op, k, v) for k, v in sizes.items() if not many or k in op.dims}
        params = {k: op.read_param(k, v) for k, v in texts.items() if not many or k in op.params}
        params |= {k: v for k, v in plain.items() if not many or k in op.params}
        dtypes = dtypes_of(dtype, op, op.dtypes if every_case else default_dtype(op))
        for point in points(mine):
            for problem in problems(op, point, params, every_case and not mine):
                found += works(problem, aims, dtypes, schedule)
    return Selection(tuple(found), aims)


def pairs(options: Sequence[str], flag: str) -> dict[str, str]:
    """``k=v,k=v`` of a flag that may be given several times."""
    found: dict[str, str] = {}
    for part in (p.strip() for option in options for p in option.split(",")):
        if not part:
            continue
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"{flag} {part}: not of the form name=value", hint=f"write {flag} name=value,name=value")
        if name.strip() in found:
            raise UsageError(f"{flag} gives {name.strip()} twice")
        found[name.strip()] = value.strip()
    return found


def _by_name(given: Mapping[str, Any] | str | None, flag: str) -> dict[str, Any]:
    """Values by name, as Python has them or as the text of a flag."""
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    if isinstance(given, str):
        return dict(pairs([given], flag))
    raise UsageError(f"{flag[2:]} is given as {type(given).__name__}", hint=f"give {flag[2:]}={{'M': 64}} or {flag[2:]}='M=64'")


def _told_apart(ops: Sequence[Operator], shape: dict[str, Any], param: dict[str, Any], values: Mapping[str, Any]
                ) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:  # fmt: skip
    """Sizes, parameters as texts, and parameters as Python has them."""
    texts = {k: v for k, v in param.items() if isinstance(v, str)}
    plain = {k: v for k, v in param.items() if k not in texts}
    for name, value in values.items():
        if any(name in op.params for op in ops):
            plain[name] = value
        else:
            shape[name] = value
    return shape, texts, plain


def _axis(op: Operator, name: str, value: Any) -> Any:
    """Sizes that a dim is to have one after the other; texts are read by :func:`portakern.study.axes.points`."""
    if isinstance(value, str):
        return value
    if isinstance(value, range) or (isinstance(value, list | tuple) and name not in op.stars):
        return list(value)
    if isinstance(value, list) and value and all(isinstance(v, list | tuple) for v in value):
        return value  # of a starred dim, whose sizes are tuples
    return [value]


def problems(op: Operator, shape: Mapping[str, Any], params: Mapping[str, Any], every_case: bool) -> list[Problem]:
    if every_case:
        return [of_case(op, case, params) for case in op.cases]
    dims = {k: op.read_dim(k, v) if isinstance(v, str) else v for k, v in shape.items()}
    return [like_typical(op, dims, params)]


def _known_somewhere(ops: Sequence[Operator], shape: Iterable[str], params: Iterable[str]) -> None:
    for name in shape:
        if not any(name in op.dims for op in ops):
            raise UsageError(f"no operator has a dim {name!r}",
                             hint=f"dims are {', '.join(dict.fromkeys(d for op in ops for d in op.dims))}")
    for name in params:
        if not any(name in op.params for op in ops):
            raise UsageError(f"no operator has a parameter {name!r}",
                             hint=f"parameters are {', '.join(dict.fromkeys(p for op in ops for p in op.params))}")
