"""Measuring what rows say once more: the same operator, sizes, parameters, schedule and way of timing, as the code is now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from portakern.errors import PortakernError, UsageError
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator, dynamic
from portakern.study.gate import FAILING, Case, GateVerdict, case_of, gate, newest
from portakern.study.row import Row
from portakern.study.study import Progress, Runner
from portakern.study.under_way import CHECK_LIMIT_S
from portakern.study.work import Problem, Work, of_case, schedule_asked, works
from portakern.timing.measure import Options


@dataclass(frozen=True)
class Gated:
    """Verdicts, and the rows that were measured for them."""

    verdicts: tuple[GateVerdict, ...]
    rows: tuple[Row, ...]


def gate_again(
    before: Sequence[Row],
    margin: float,
    operators: Mapping[str, Operator] | None = None,
    options: Mapping[str, Any] | None = None,
    tries: int = 2,
    sink: Callable[[Row], None] | None = None,
    progress: Progress | None = None,
) -> Gated:
    """Measures every case of ``before`` again and holds it against what it was.

    Args:
        operators: those that are not in the library, by name.
        options: of :class:`portakern.timing.measure.Options`, in place of those a row was timed with.
        tries: how often a case is measured that seems to have got worse; the time that lets it off counts.
        sink, progress: as for :class:`portakern.study.study.Runner`.
    """
    known = newest(before)
    asked: dict[Case, Work] = {}
    why: dict[Case, str] = {}
    for case, row in known.items():
        try:
            asked[case] = work_of(row, operators or {})
        except PortakernError as error:
            why[case] = str(error).replace("\n  hint: ", "; ")
    now: dict[Case, Row] = {}
    verdicts: dict[Case, GateVerdict] = {}
    left = list(known)
    for _ in range(max(1, tries)):
        found = measured([(asked[c], known[c]) for c in left if c in asked], options or {}, sink, progress)
        now |= dict(zip([c for c in left if c in asked], found, strict=True))
        again = gate([known[c] for c in left], [now[c] for c in left if c in now], margin, why)
        verdicts |= dict(zip(left, again, strict=True))
        left = [c for c in left if verdicts[c].verdict in FAILING]
        if not left:
            break
    return Gated(tuple(verdicts[c] for c in known), tuple(now.values()))


def measured(asked: Iterable[tuple[Work, Row]], options: Mapping[str, Any], sink: Callable[[Row], None] | None = None,
             progress: Progress | None = None) -> list[Row]:  # fmt: skip
    """A row for each work, timed as its earlier row was, or checked where that was not timed."""
    found = []
    for work, row in asked:
        timing = {"against": [], "options": {**options_of(row), **options}}
        goal = "timed" if row.time else "checked"
        limit = CHECK_LIMIT_S + 4 * timing["options"].get("budget_s", 2.0)
        runner = Runner(goal, 1, progress, timing=timing, full_check=not row.time, sink=sink, check_limit_s=limit)
        found += runner.run([work]).rows
    return found


def options_of(row: Row) -> dict[str, Any]:
    """How a row was timed, as far as it says so."""
    known = {f.name for f in fields(Options)}
    return {k: v for k, v in ((row.time or {}).get("options") or {}).items() if k in known}


def work_of(row: Row, operators: Mapping[str, Operator]) -> Work:
    """What a row was asked.  Raises :class:`UsageError` where it cannot be asked again."""
    if row.secret is not None:
        raise UsageError("a stranger's kernel, whose text is not in the row",
                         hint="evaluate it, and name its rows with --against")
    op = operators.get(row.operator) or _of_library(row.operator)
    dims = {name: _size(size) for name, size in (row.shape or {}).items()}
    params = dict(row.params or {})
    schedule = schedule_asked(row.schedule) if row.schedule_from == "given" else None
    (work,) = works(_problem(op, dims, params), [registry().target(row.target)], [row.dtype or ""], schedule)
    if case_of(work.row)[:5] != case_of(row)[:5]:
        raise UsageError(f"{op.name} has other dims or parameters now")
    return work


def _of_library(name: str) -> Operator:
    try:
        return load_operator(name)
    except UsageError as error:
        raise UsageError(f"no operator of the library is named {name!r}",
                         hint=f"name its file: --operator FILE.py:{name}") from error


def _size(size: Any) -> Any:
    return dynamic if size is None else tuple(map(_size, size)) if isinstance(size, list | tuple) else size


def _problem(op: Operator, dims: Mapping[str, Any], params: Mapping[str, Any]) -> Problem:
    """With the inputs of the operator's own case, where the sizes are those of one."""
    for case in (op.typical, *op.cases):
        if dict(case.dims) == dims and op.check_params({**case.params}) == op.check_params(params):
            return of_case(op, case, params)
    return Problem(op, dims, params)
