"""Lowering for a target by its name in the registry."""

from __future__ import annotations

from collections.abc import Mapping

from portakern.backend import Target
from portakern.ir.program import Program
from portakern.ir.schedule import Value
from portakern.ir.tensor import TensorProgram
from portakern.lower import lower_for
from portakern.registry import registry


def lowered_for(target: Target, program: TensorProgram, overrides: Mapping[str, Value] | None = None) -> Program:
    """The kernels of ``program`` under the schedules of ``target``'s language, changed by ``overrides``."""
    return lower_for(program, target, registry().language(target.language), overrides)
