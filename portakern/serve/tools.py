"""What can be asked of a desk, whatever it is asked through: HTTP or the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from portakern.errors import PortakernError, UsageError
from portakern.jobs.described import Described
from portakern.jobs.spec import TaskSpec
from portakern.jobs.tracing import call_in_jail, traced
from portakern.referee.messages import Garbled
from portakern.registry import registry
from portakern.serve.desk import Desk
from portakern.serve.models import (
    ArrayAnswer,
    CompareAnswer,
    CompareRequest,
    InspectAnswer,
    InspectRequest,
    RowAnswer,
    TargetAnswer,
    TaskAnswer,
)
from portakern.spec.load import load_operator, operator_names
from portakern.study import steps
from portakern.study.row import Row, without_samples
from portakern.study.store import plain
from portakern.study.study import Runner
from portakern.study.table import text_table
from portakern.study.task import device_facts, task_of
from portakern.study.work import arg_rows

COMPARED = 8
"""The most targets of one comparison."""


def targets(desk: Desk, pattern: str = "all") -> list[TargetAnswer]:
    """Those of a pattern that jobs can be asked for here."""
    have = desk.bench.targets()
    asked = registry().match(pattern) if have is None else [registry().target(n) for n in sorted(have) if fits(n, pattern)]
    found = []
    for target in asked:
        d, language = target.device, registry().language(target.language)
        products = [n for n, x in registry().devices(target.language).items() if x.isa == d.isa and x.product]
        found.append(TargetAnswer(target=str(target), title=d.title, vendor=d.vendor, isa=d.isa, dtypes=list(d.dtypes),
                                  takes_kernels=language.adopt is not None, products=products))  # fmt: skip
    return found


def fits(name: str, pattern: str) -> bool:
    return pattern == "all" or any(fnmatchcase(name, p.strip()) for p in pattern.split(","))


def operators() -> dict[str, str]:
    """The library's operators, each with the first line of its text."""
    return {n: load_operator(n).doc.strip().partition("\n")[0] for n in operator_names()}


def task(desk: Desk, spec: TaskSpec) -> TaskAnswer:
    """Registers a task and tells of it.  Raises what is wrong with it."""
    id, made = desk.register(spec)
    return told(id, made)


def told(id: str, made: Described) -> TaskAnswer:
    try:
        return TaskAnswer(id=id, **task_of(made.work, made).to_dict())
    except PortakernError:  # nothing of ours computes it there; a candidate may
        return TaskAnswer(id=id, **_without_kernel(made))


def _without_kernel(made: Described) -> dict[str, Any]:
    work = made.work
    target = registry().target(work.target)
    language = registry().language(target.language)
    arrays = [ArrayAnswer(name=n, role=r, dtype=d, shape=list(s)) for n, r, d, s in arg_rows(steps.arrays_of(work.program))]
    return {"operator": made.name, "target": work.target, "dtype": work.row.dtype, "shape": work.row.shape or {},
            "params": work.row.params or {}, "doc": made.doc, "math": made.source, "tensor_program": str(work.program),
            "arrays": arrays, "convention": language.convention, "options": language.options,
            "device": device_facts(target.device), "starting_kernel": "", "entry": "", "schedule": "", "space": [],
            "suffix": ""}  # fmt: skip


def row_answer(row: Row) -> RowAnswer:
    return RowAnswer(**plain(without_samples(row).to_dict()))


def inspect(desk: Desk, asked: InspectRequest) -> InspectAnswer:
    """A kernel looked at in a jail.  Raises :class:`UsageError` for what is wrong in the question."""
    target = registry().target(asked.target)
    if registry().language(target.language).bare is None:
        able = ", ".join(n for n, x in registry().languages.items() if x.bare is not None)
        raise UsageError(f"{target.language} looks at no kernels without an operator", hint=f"these do: {able}")
    if len(asked.source) > desk.settings.source_characters:
        raise UsageError(f"a kernel of {len(asked.source)} characters", kind="too-large",
                         hint=f"{desk.settings.source_characters} are the most")
    args = (asked.source, str(target), asked.entry, asked.args, asked.grid, asked.block, asked.shared_bytes, asked.run)
    with desk.preparing():
        said = call_in_jail("portakern.jobs.inside:inspection", args, f"inspecting a kernel for {target}", desk.allowed,
                            steps.build_environment(registry().language(target.language)))  # fmt: skip
    try:
        return InspectAnswer(**{**said, "target": str(target)})
    except ValidationError as error:
        raise Garbled(f"{error.error_count()} wrong fields of an inspection") from error


def compare(desk: Desk, asked: CompareRequest) -> CompareAnswer:
    """An operator's own kernels, built and checked on each target; nothing is timed."""
    found = registry().match(",".join(asked.targets))
    if len(found) > COMPARED:
        raise UsageError(f"{len(found)} targets at once", hint=f"{COMPARED} are the most")
    with desk.preparing():
        rows = _compared(desk, asked, [str(t) for t in found])
    return CompareAnswer(rows=[row_answer(r) for r in rows], table=text_table(rows))


def _compared(desk: Desk, asked: CompareRequest, names: Sequence[str]) -> Sequence[Row]:
    form = asked.form or ("operator" if asked.text else "library")
    spec = TaskSpec(names[0], form, asked.operator, asked.text, asked.dtype, asked.values)
    work = traced(spec, desk.allowed).work
    works = [replace(work, target=n, row=work.row.but(target=n), key=None, chosen=None) for n in names]
    return Runner("checked", 1, full_check=False).run(works).rows
