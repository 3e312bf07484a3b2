"""The traced program as a function on arrays of numpy and of torch."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.array_program import array_function
from portakern.check.agreement import agreement
from portakern.errors import PortakernError
from portakern.ir import oracle
from portakern.registry import registry
from portakern.spec.inputs import make_inputs
from portakern.spec.load import library, load_operator
from portakern.study.work import of_case, works
from portakern.timing.inputs import from_numpy, to_numpy
from portakern.timing.peers import Subject, host_outputs

pytest.importorskip("torch")

TARGETS = [registry().target("numba:cpu")]
CASES = [(op, case, dtype) for op in library() for case in op.cases for dtype in ("f32", "bf16") if dtype in op.dtypes]
LONG, STEPWISE = ("typical", "long", "batched"), ("gru", "lstm")
"""The default tests have of large cases only those in f32, and of recurrent ones, which go step by step, none."""


def slow(op, case, dtype: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * (case.name in LONG and (dtype == "bf16" or op.name in STEPWISE))


@pytest.mark.parametrize(("op", "case", "dtype"), [
    pytest.param(o, c, d, id=f"{o.name}-{c.name}-{d}", marks=slow(o, c, d)) for o, c, d in CASES
])  # fmt: skip
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_traced_program_on_arrays_computes_the_operator(op, case, dtype: str, kind: str):
    (work,) = works(of_case(op, case), TARGETS, [dtype])
    inputs = make_inputs(work.program, work.families, 0)
    if op.name == "dropout" and kind == "torch":  # which draws other bits
        with pytest.raises(PortakernError, match="no counterpart to random_bits"):
            array_function(work.program, kind)
        return
    function = array_function(work.program, kind)
    given = inputs.values() if kind == "numpy" else [from_numpy(x) if x.ndim else x.item() for x in inputs.values()]
    found = function.call(*given)
    results = found if isinstance(found, tuple) else (found,)
    dtypes = Subject(work.program).dtypes
    for want, have in zip(oracle.evaluate(work.program, inputs).values(), results, strict=True):
        assert not agreement(want, host_outputs(have)[0], dtypes).message, function.text


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_inputs_may_have_the_names_that_the_text_uses(kind: str):
    @pk.operator
    def f(c0: pk.Tensor["M", "M"], v1: pk.Tensor["M", "M"], np: pk.Tensor["M", "M"], torch: pk.Tensor["M", "M"],
          oracle: pk.Tensor["M", "M"], step5: pk.Tensor["M", "M"]):  # fmt: skip
        last, _ = pk.scan(lambda h, x: (pk.tanh(h @ v1 + x),) * 2, c0, pk.stack([torch, oracle], 0))
        return last @ np + step5

    program = f.program({"M": 3}, {}, "f32")
    inputs = make_inputs(program, {}, 0)
    given = inputs.values() if kind == "numpy" else [from_numpy(x) for x in inputs.values()]
    (want,) = oracle.evaluate(program, inputs).values()
    assert not agreement(want, host_outputs(array_function(program, kind).call(*given))[0], Subject(program).dtypes).message


def test_views_are_copied_since_that_is_the_work():
    program = load_operator("transpose").program({"M": 3, "N": 4}, {}, "f32")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    by_torch = array_function(program, "torch").call(from_numpy(x))
    for have in (array_function(program, "numpy").call(x), to_numpy(by_torch)):
        assert have.flags.c_contiguous and not np.shares_memory(have, x) and (have == x.T).all()


def test_products_of_narrow_numbers_say_how_they_are_rounded():
    program = load_operator("matmul_bias_gelu").program({"M": 8, "N": 8, "K": 8}, {}, "bf16")
    assert "rounded to bf16" in array_function(program, "torch").notes[0]
    assert array_function(program, "numpy").notes == ()
