"""Whatever an emitter refuses, it names the operator's line."""

from __future__ import annotations

import dataclasses

import pytest

import portakern as pk
from portakern.errors import PortakernError
from portakern.ir.program import Array, Program
from portakern.registry import registry
from tests.lowering import lowered_for

TARGETS = ["numba:cpu", "cpp:cpu", "opencl:cpu", "sycl:cpu", "sycl:pvc", "triton:sm_90", "triton:gfx942", "pallas:v5e",
           "hip:gfx942", "hip:gfx1201", "cuda:sm_80", "cuda:sm_90a"]  # fmt: skip
DTYPES = ("f64", "f16", "f8e4m3", "f8e5m2fnuz", "i16", "u64", "i8")


def elementwise(dtype: str):
    @pk.operator
    def op(x: pk.Tensor["M", "N", dtype]):
        return x + x

    return op


def product(dtype: str):
    @pk.operator
    def op(x: pk.Tensor["M", "K", dtype], w: pk.Tensor["K", "N", dtype]):
        return pk.matmul(x, w)

    return op


def cast(dtype: str):
    @pk.operator
    def op(x: pk.Tensor["M", "N"]):
        return pk.cast(x, dtype)

    return op


def refusals(make, target: str, program: Program | None = None):
    found = registry().target(target)
    emitter = registry().language(found.language).emitter
    for dtype in DTYPES:
        try:
            lowered = lowered_for(found, make(dtype).program({"M": 33, "N": 17, "K": 20}))
        except PortakernError:
            continue  # lowering names its lines by itself
        yield from emitter.missing(lowered, found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [elementwise, product, cast])
def test_dtypes_that_a_target_lacks(make, target: str):
    for missing in refusals(make, target):
        assert "test_where.py:" in missing.where, missing


@pytest.mark.parametrize("target", TARGETS)
def test_options_that_a_language_lacks(target: str):
    found = registry().target(target)
    program = lowered_for(found, elementwise("f32").program({"M": 33, "N": 17}))
    odd = dataclasses.replace(program.kernels[0].schedule, warps=3, options=(("mma", "x"), ("keep", "x"), ("copies", "x")))
    program = dataclasses.replace(program, kernels=(dataclasses.replace(program.kernels[0], schedule=odd),))
    for missing in registry().language(found.language).emitter.missing(program, found):
        assert "test_where.py:" in missing.where, missing


@pytest.mark.parametrize("target", ["numba:cpu", "triton:sm_90", "pallas:v5e"])
def test_open_dims_that_no_shape_tells(target: str):
    @pk.operator
    def op(x: pk.Tensor["M*N"]):
        return x + x

    found = registry().target(target)
    (missing,) = [m for m in registry().language(found.language).emitter.missing(lowered_for(found, op.program({})), found)
                  if "M" in m.what][:1]  # fmt: skip
    assert "test_where.py:" in missing.where and "open dim" in missing.what and "M" in missing.alternative


def test_arrays_know_their_line_and_compare_without_it():
    found = registry().target("cpp:cpu")
    one, other = (lowered_for(found, elementwise("f32").program({"M": 3})) for _ in range(2))
    assert all(isinstance(a, Array) and a.loc is not None for a in one.arrays)
    bare = dataclasses.replace(one, arrays=tuple(dataclasses.replace(a, loc=None) for a in one.arrays))
    assert one.arrays == other.arrays == bare.arrays and one.digest == bare.digest
