"""Arrays and dims may be called like what a language means something else by: its keywords, functions, macros and modules."""

from __future__ import annotations

import pytest

from portakern.fuzz.files import read
from portakern.fuzz.outcome import OK, REFUSED, UNUSED
from portakern.fuzz.workshop import Workshop

TARGETS = {"numba": "numba:cpu", "cpp": "cpp:cpu", "opencl": "opencl:cpu", "sycl": "sycl:cpu", "triton": "triton:sm_90",
           "pallas": "pallas:v5e", "hip": "hip:gfx942", "cuda": "cuda:sm_80"}  # fmt: skip
NAMES = (
    (("np", "numba", "range", "new", "this", "template"), ("M", "N", "K")),
    (("jnp", "jax", "functools", "torch", "triton", "tl"), ("np", "range", "math")),
    (("NAN", "INFINITY", "NULL", "std", "pk_", "__kernel"), ("exp", "tanh", "max")),
    (("exp", "main", "float4", "x_desc", "op_kernel", "blocks"), ("delete", "using", "int32_t")),
    (("a", "b", "c", "x", "y", "z"), ("NULL", "vload16", "float4")),
)  # fmt: skip
"""Of arrays, and of dims."""
MODULES = {"jnp", "jax", "functools"}
"""Pallas refuses these, with the line."""

OPERATOR = """import portakern as pk


@pk.operator
def op({0}: pk.Tensor["{6}", "{8}"], {1}: pk.Tensor["{8}", "{7}"], {2}: pk.Tensor["{7}"],
       {3}: pk.Tensor["{7}"], {4}: pk.Tensor["{6}", "{7}"], {5}: pk.Tensor["{7}"]):
    return pk.softmax({0} @ {1} + {2}) * {3} + {4} - {5}
"""


SLOW = ("triton", "pallas", "cuda", "sycl", "hip")
"""What takes long; numba and OpenCL, which are tried in the default run, write names as these do."""


@pytest.mark.parametrize("language", [pytest.param(x, marks=[pytest.mark.slow] * (x in SLOW)) for x in TARGETS])
def test_an_array_or_dim_may_have_any_name(language: str) -> None:
    programs = {}
    for arrays, (m, n, k) in NAMES:
        header = f'{{"dims": {{"{m}": 5, "{n}": 7, "{k}": 6}}, "open": ["{m}", "{n}"], "dtype": "f32", "stages": ["integers"]}}'
        program = read(OPERATOR.format(*arrays, m, n, k), header)
        programs[program.digest] = program, {*arrays, m, n, k}
    with Workshop(TARGETS[language]) as workshop:
        outcomes = workshop.run([p for p, _ in programs.values()])
    for digest, (program, names) in programs.items():
        allowed = {OK, REFUSED} if language == "pallas" and names & MODULES else {OK}
        (outcome,) = [o for o in outcomes[digest] if o.target == TARGETS[language]]
        if outcome.status == UNUSED and outcome.kind in ("tool-missing", "no-silicon"):
            pytest.skip(outcome.message)
        assert outcome.status in allowed, f"{sorted(names)}: {outcome.message}\n{program.case.text}"
