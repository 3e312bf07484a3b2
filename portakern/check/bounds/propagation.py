"""From the bounds of a program's inputs to those of its outputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portakern.check import accuracy
from portakern.ir import oracle
from portakern.ir.core import Arg
from portakern.ir.tensor import TensorProgram, tensor_type

# Importing these fills RULES.
from . import contractions, elementwise, loops, moves, recurrences, reductions, segments  # noqa: F401
from .blocks import apply_block
from .free import of_program
from .probes import measured
from .value import Val


def propagate(program: TensorProgram, inputs: Mapping[str, np.ndarray]) -> dict[str, Val]:
    """Each output of ``program``, whose dims are bound, with its bound; evaluated in float64."""
    with np.errstate(all="ignore"), of_program(program):
        args = [_input(a, inputs) for a in program.args]
        made = measured(program.body, args, apply_block(program.body, args))
    return dict(zip(program.outputs, made, strict=True))


def _input(arg: Arg, inputs: Mapping[str, np.ndarray]) -> Val:
    x = oracle.read_input(arg, inputs)
    dtype = tensor_type(arg).dtype
    if x.dtype.kind != "f" or not x.size:
        return Val(x)
    size = np.abs(x)
    flushed = (size < accuracy.smallest_normal(dtype)) & (size > 0)
    return Val(x, np.where(flushed, size, 0.0)) if flushed.any() else Val(x)
