"""What a generator of kernels is told: the math, the arrays, the calling convention, the device, a kernel to start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from portakern.backend import Language
from portakern.device import Device
from portakern.ir.schedule import LOWERED_OPTIONS, Nest, Schedule, Value
from portakern.lower import lower
from portakern.lower.choosing import default_schedule
from portakern.registry import registry
from portakern.spec.operator import Operator
from portakern.study import steps
from portakern.study.judge import judge
from portakern.study.row import Row
from portakern.study.work import Work, arg_rows, schedule_asked


@dataclass(frozen=True)
class ArraySpec:
    """An input, run-time scalar or output: its dims' sizes, ``None`` where open."""

    name: str
    role: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Task:
    """An operator on a target, as a generator needs to see it.

    Attributes:
        math: the operator's Python function.
        tensor_program: the same as IR text, with the dims bound.
        arrays: inputs, scalars and outputs in the order of the calling convention.
        convention: how a kernel of this language is called.
        options: what a schedule of this language may say beside tiles, stages and warps.
        device: instruction set or product: units, limits, matrix shapes, every figure with its source.
        starting_kernel: a correct kernel to improve on, in the form that :meth:`evaluate` takes.
        entry: the name of its function.
        space: the schedules that the backend allows, as text, default first; of operators with several kernels, those
            of the last.
    """

    operator: str
    target: str
    dtype: str
    shape: Mapping[str, Any]
    params: Mapping[str, Any]
    doc: str
    math: str
    tensor_program: str
    arrays: tuple[ArraySpec, ...]
    convention: str
    options: Mapping[str, str]
    device: Mapping[str, Any]
    starting_kernel: str
    entry: str
    schedule: str
    space: tuple[str, ...]
    suffix: str
    _work: Work

    @property
    def work(self) -> Work:
        """What is asked, as the steps of a row take it."""
        return self._work

    def evaluate(self, source: str, entry: str | None = None, **limits: Any) -> Row:
        """:func:`portakern.evaluate` at this task's shape, dtype and parameters."""
        return judge(self._work, source, entry, **limits)

    def kernel(self, schedule: str | Mapping[str, Value]) -> str:
        """The kernel emitted under a schedule, in the form that :meth:`evaluate` takes.

        Raises :class:`ScheduleError` where the schedule does not fit the operator.
        """
        return steps.emit(replace(self._work, schedule=schedule_asked(schedule), chosen=None))[0].text

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON, for a generator in another process."""
        fields = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        return {**fields, "arrays": [asdict(a) for a in self.arrays]}

    def __str__(self) -> str:
        arrays = "\n".join(f"  {a.role} {a.name}: {a.dtype}[{', '.join(map(str, a.shape))}]" for a in self.arrays)
        figures = "\n".join(f"  {n}: {f['value']:g} {f['unit']}" for n, f in self.device["figures"].items())
        return (f"# {self.operator} for {self.target}, {self.dtype}\n\n{self.doc}\n\n{self.math}\n\n# arrays\n{arrays}\n\n"
                f"# how a kernel is called\n{self.convention}\n\n# device: {self.device['title']}\n{figures}\n\n"
                f"# a correct kernel to start from\n{self.starting_kernel}")


class Known(Protocol):
    """What a task tells of an operator that another process told of."""

    @property
    def name(self) -> str: ...
    @property
    def doc(self) -> str: ...
    @property
    def source(self) -> str: ...


def task_of(work: Work, operator: Operator | Known) -> Task:
    """Raises what emitting the starting kernel raises."""
    target = registry().target(work.target)
    language = registry().language(target.language)
    source = steps.emission(work).source
    return Task(
        operator.name, work.target, work.row.dtype or "", work.row.shape or {}, work.row.params or {}, operator.doc,
        operator.source, str(work.program), tuple(ArraySpec(*a) for a in arg_rows(steps.arrays_of(work.program))),
        language.convention, {**LOWERED_OPTIONS, **language.options}, device_facts(target.device), source.text, source.entry,
        "; ".join(map(str, source.schedule)), space_of(work, language), source.suffix, work,
    )  # fmt: skip


def space_of(work: Work, language: Language) -> tuple[str, ...]:
    """The schedules of the last kernel's nest."""
    target = registry().target(work.target)
    found: list[Schedule] = []

    def choose(nest: Nest) -> Schedule:
        found[:] = language.schedules(nest, target.device)
        return found[0]

    lower(work.program, choose, dict(work.names), default=lambda nest: default_schedule(language, nest, target))
    return tuple(dict.fromkeys(map(str, found)))


def device_facts(device: Device) -> dict[str, Any]:
    return {
        "name": device.name, "isa": device.isa, "vendor": device.vendor, "kind": device.kind, "title": device.title,
        "dtypes": list(device.dtypes), "alternatives": dict(device.alternatives), "features": list(device.features),
        "figures": {n: asdict(f) for n, f in device.figures.items()}, "matrix": [asdict(m) for m in device.matrix],
    }  # fmt: skip
