"""Scans by functions of the operator's own in CUDA C++, interpreted: rows in lanes, across warps, in several tiles."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.dtypes import numpy_dtype
from portakern.ir.oracle import evaluate
from portakern.registry import registry
from portakern.spec.inputs import make_inputs
from portakern.spec.load import load_operator
from tests.lowering import lowered_for
from tests.sycl.running import guarded, intact

CUDA, HOPPER = registry().language("cuda"), registry().target("cuda:sm_90a")
assert CUDA.simulator is not None
pytestmark = pytest.mark.skipif(not CUDA.simulator.available(HOPPER), reason="needs a C++ compiler on x86-64 Linux")


@pytest.mark.parametrize(("rows", "length", "dtype", "reverse"), [
    (33, 40, "f32", False), (3, 1001, "bf16", True), (2, 9001, "f32", False),
])
def test_rows(rows: int, length: int, dtype: str, reverse: bool) -> None:
    operator = load_operator("linear_recurrence")
    bound = operator.program({"B": rows, "T": length, "D": 1}, {"reverse": reverse}, dtype)
    source = CUDA.emitter.emit(lowered_for(HOPPER, bound), HOPPER)
    assert "pk::scan_by<Part" in source.text
    inputs = make_inputs(bound, operator.families)
    shape = (rows, length, 1)
    buffers = {n: guarded(n, shape, numpy_dtype(dtype), x) for n, x in inputs.items()}
    buffers["out"] = guarded("out", shape, numpy_dtype(dtype), None)
    assert CUDA.simulator is not None
    CUDA.simulator.load(source, None).run(buffers, {})
    assert all(map(intact, buffers.values()))
    want = evaluate(bound, inputs)["out"]
    rtol = 1e-2 if dtype == "bf16" else 1e-5
    np.testing.assert_allclose(np.asarray(buffers["out"].array, np.float64), want, rtol=rtol, atol=1e-5)
