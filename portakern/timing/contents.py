"""Inputs that a kernel has never seen, as many as it takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portakern.dtypes import DTYPES
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.referee.secret import Secret
from portakern.spec.inputs import Family, Normal, Uniform, make_inputs
from portakern.timing.inputs import DRAWN_BYTES


class Contents:
    """Inputs by number, drawn from a secret.  Scalars, which a prepared call holds, are the same in all of them.

    Large ones are the first with its floats moved on by a drawn number of elements: drawing them takes longer than timing.
    """

    def __init__(self, program: TensorProgram, families: Mapping[str, Family], secret: Secret) -> None:
        self.program, self.families, self.secret = program, families, secret
        self.first = make_inputs(program, families, secret.number(0))
        self.large = sum(x.nbytes for x in self.first.values()) > DRAWN_BYTES
        self.moving = {a.name for a in program.args if DTYPES[tensor_type(a).dtype].is_float
                       and isinstance(families.get(a.name, Normal()), Normal | Uniform)}  # fmt: skip

    def make(self, number: int) -> dict[str, np.ndarray]:
        if number == 0:
            return self.first
        if not self.large:
            made = make_inputs(self.program, self.families, self.secret.number(number))
            return {n: self.first[n] if n in self.program.scalars else x for n, x in made.items()}
        rng = self.secret.random(number)
        return {n: _rolled(x, int(rng.integers(max(x.size, 1)))) if n in self.moving else x for n, x in self.first.items()}


def _rolled(x: np.ndarray, shift: int) -> np.ndarray:
    bits = x.view(np.dtype(f"u{x.dtype.itemsize}")).reshape(-1)
    return np.roll(bits, shift).view(x.dtype).reshape(x.shape)
