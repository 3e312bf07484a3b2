"""Several runs of a block at once give what each of them gives alone."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import portakern as pk
from portakern.check.bounds import together
from portakern.ir import oracle
from portakern.spec.inputs import make_inputs

pytestmark = pytest.mark.quick
T = pk.Tensor


@pk.operator
def layers(x: T["B", "M", "K"], v: T["B", "K", "N"], w: T["K", "K"], h: T["M", "K"], line: T[5, "M", "K"]):
    """Products in batches, of a vector, with the right side first, and in the steps of a loop."""
    def step(carry: Any, row: Any) -> Any:
        made = pk.tanh(carry @ w.T + row)
        return made, pk.sum(made, axis=-1)

    last, sums = pk.scan(step, h, line)
    return pk.einsum("bmk,bkn->nbm", x, v), x @ w, pk.einsum("k,kn->n", h[0], w), w @ h.T, last, sums


def test_runs_together_are_runs_alone() -> None:
    program = layers.program({"B": 2, "M": 3, "K": 4, "N": 5}, {}, "f32")
    first = [x.astype(np.float64) for x in make_inputs(program).values()]
    shared = {1, 2}  # v and w
    runs = [[x if i in shared else x + n for i, x in enumerate(first)] for n in range(3)]
    with patch.object(oracle, "contract", wraps=oracle.contract) as products:
        found = together.apply_block(program.body, runs)
        at_once = products.call_count
        alone = [oracle.apply_block(program.body, run) for run in runs]
    assert at_once < products.call_count - at_once
    for some, others in zip(found, alone, strict=True):
        for a, b in zip(some, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
            assert a.shape == b.shape
