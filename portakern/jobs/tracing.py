"""From what is asked to a work: operators of the library in this process, a stranger's text in a jail."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError, UsageError
from portakern.ir.core import Op
from portakern.ir.size import evaluate
from portakern.ir.tensor import TensorType, tensor_type
from portakern.jobs import described, inside
from portakern.jobs.described import Described
from portakern.jobs.spec import TaskSpec
from portakern.referee.process import Allowance, Fresh, KernelProcess
from portakern.registry import registry
from portakern.spec.load import load_operator, operator_names
from portakern.study.work import Work
from portakern.tools.process import merged_environment

ROOM = "portakern.jobs.inside"


@dataclass(frozen=True)
class Allowed:
    """``jail`` as :data:`portakern.referee.process.MODES`, ``limit_s`` and ``memory_bytes`` of the text's process,
    ``task_bytes``: the most that a task's inputs and outputs may have together."""

    jail: str = "auto"
    limit_s: float = 120.0
    memory_bytes: int | None = 16 << 30
    task_bytes: int = 2 << 30


def traced(spec: TaskSpec, allowed: Allowed | None = None) -> Described:
    """Raises :class:`PortakernError`: what the text or the question has wrong, and of kind ``too-large``."""
    allowed = allowed or Allowed()
    registry().target(spec.target)
    found = _library(spec) if spec.form == "library" else described.read(_said(spec, allowed), spec.target)
    if (size := bytes_of(found.work)) > allowed.task_bytes:
        raise UsageError(f"the arrays of {found.name} have {size} bytes together", kind="too-large",
                         hint=f"{allowed.task_bytes} are the most here: ask for a smaller size")
    return found


def _library(spec: TaskSpec) -> Described:
    if spec.operator not in operator_names():  # a file's name would be a text that is run here
        raise UsageError(f"no operator of the library is called {spec.operator!r}",
                         hint=f"there are {', '.join(operator_names())}; or send the text of one")
    op = load_operator(spec.operator)
    return Described(op.name, op.doc, op.source, inside.work_of(op, spec.target, spec.dtype, spec.values))


def _said(spec: TaskSpec, allowed: Allowed) -> Mapping[str, Any]:
    if spec.form == "module":
        function, args = "module", (spec.text, spec.operator or "Model")
    else:
        function, args = "operator", (spec.text, spec.operator, spec.dtype, json.dumps(dict(spec.values)))
    try:
        return call_in_jail(f"{ROOM}:{function}", args, f"the text of {spec.operator or 'an operator'}", allowed)
    except PortakernError as error:
        place = re.match(rf"({re.escape(inside.FILE)}:\d+): ", error.message)
        if place is None:
            raise
        raise PortakernError(error.kind, error.message[place.end() :], error.hint, place[1]) from None


def call_in_jail(function: str, args: tuple[Any, ...], doing: str, allowed: Allowed,
                 environment: Mapping[str, str | None] | None = None) -> Mapping[str, Any]:  # fmt: skip
    """The JSON object that a function gives in a process of its own; nothing in it can be relied on."""
    variables = merged_environment(environment)
    with KernelProcess(allowed.jail, allowed.memory_bytes, doing, lambda theirs: Fresh(theirs, variables)) as process:
        process.allowance = Allowance(allowed.limit_s)
        return process.call(function, args)


def bytes_of(work: Work) -> int:
    """Of all inputs and outputs, or of the largest value between them if that has more than four times as many."""
    program = work.program
    outside = sum(_bytes(op, work) for op in (*program.args, *program.results))
    between = max((_bytes(op, work) for op in program.body.ops if isinstance(op.type, TensorType)), default=0)
    return max(outside, between // 4)


def _bytes(op: Op, work: Work) -> int:
    """At the sizes at which a kernel is tried."""
    of = tensor_type(op)
    return math.prod(evaluate(size, work.sizes) for size in of.shape) * DTYPES[of.dtype].bytes
