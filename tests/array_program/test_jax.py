"""The library's operators in jax.numpy, of which XLA's estimate is made, compute what numpy's forms do."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.array_program import array_function
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.spec.inputs import make_inputs
from portakern.spec.load import load_operator
from portakern.study.work import of_case, works

jax = pytest.importorskip("jax")

OPERATORS = ("add_relu", "attention", "cross_entropy", "cumsum", "embedding", "layer_norm", "linear_recurrence", "matmul",
             "matmul_bias_gelu", "rms_norm", "row_sum", "silu_mul", "softmax", "transpose")  # fmt: skip
CASES = {"cumsum": ("ragged", "both"), "cross_entropy": ("unaligned", "outside"), "embedding": ("ragged", "outside"),
         "linear_recurrence": ("ragged", "reverse")}


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_jax_form_computes_the_operator(operator: str):
    op = load_operator(operator)
    for name in CASES.get(operator, ("ragged",)):
        case = next(c for c in op.cases if c.name == name)
        (work,) = works(of_case(op, case), [registry().target("pallas:v5e")], ["f32"])
        program = bind(work.program, work.sizes)
        inputs = list(make_inputs(program, work.families, 0).values())
        expected = array_function(program, "numpy").call(*inputs)
        with jax.default_device(jax.devices("cpu")[0]):
            narrow = [x.astype(np.int32) if x.dtype == np.int64 else x for x in inputs]
            found = jax.jit(array_function(program, "jax").call)(*narrow)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=2e-4, atol=2e-4)
