"""Whatever an emitter refuses, it names the operator's line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

import portakern as pk
from portakern import dtypes
from portakern.errors import PortakernError
from portakern.ir.program import Array
from portakern.registry import registry
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick

TARGETS = ["numba:cpu", "cpp:cpu", "opencl:cpu", "sycl:cpu", "sycl:pvc", "triton:sm_90", "triton:gfx942", "pallas:v5e",
           "hip:gfx942", "hip:gfx1201", "cuda:sm_80", "cuda:sm_90a"]  # fmt: skip
NUMBERS = tuple(d for d in dtypes.DTYPES if d != "bool")
DTYPES = ("f64", "f16", "f8e4m3", "f8e5m2fnuz", "i16", "u64", "i8")


def elementwise(dtype: str):
    @pk.operator
    def op(x: pk.Tensor["M", "N", getattr(pk, dtype)]):
        return x + x

    return op


def product(dtype: str):
    @pk.operator
    def op(x: pk.Tensor["M", "K", getattr(pk, dtype)], w: pk.Tensor["K", "N", getattr(pk, dtype)]):
        return pk.matmul(x, w)

    return op


def cast(dtype: str):
    @pk.operator
    def op(x: pk.Tensor["M", "N"]):
        return pk.cast(x, getattr(pk, dtype))

    return op


def between(dtype: str):
    @pk.operator
    def op(x: pk.Tensor["M", "N"]):
        return pk.cast(pk.cast(x, getattr(pk, dtype)), pk.f32)

    return op


def refusals(operator: pk.Operator, target: str) -> list[str]:
    """What is said of each thing in ``operator`` that ``target`` has not: by lowering, or by the emitter."""
    found = registry().target(target)
    emitter = registry().language(found.language).emitter
    try:
        lowered = lowered_for(found, operator.program(dict.fromkeys(operator.dims, 33)))
        return [m.where for m in emitter.missing(lowered, found)]
    except PortakernError as error:
        return [str(error)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [elementwise, product, cast])
def test_dtypes_that_a_target_lacks(make: Callable[[str], pk.Operator], target: str):
    lacks = [dtype for dtype in DTYPES if dtype not in registry().target(target).device.dtypes]
    assert lacks
    for dtype in DTYPES:
        said = refusals(make(dtype), target)
        assert said or dtype not in lacks, dtype
        assert all("test_where.py:" in where for where in said), (dtype, said)


@pytest.mark.parametrize("target", TARGETS)
def test_dtypes_that_occur_in_between_alone(target: str):
    """A language may convert in software what its arrays cannot hold; what it does not say has a line as well."""
    found = registry().target(target)
    refused = {dtype: refusals(between(dtype), target) for dtype in NUMBERS}
    assert all("test_where.py:" in where for said in refused.values() for where in said), refused
    assert refused["f8e5m2fnuz"] or "f8e5m2fnuz" in found.device.dtypes
    for dtype in (d for d, said in refused.items() if not said):
        program = lowered_for(found, between(dtype).program({"M": 33, "N": 17}))
        assert registry().language(found.language).emitter.emit(program, found).text


def test_triton_has_no_e4m3_before_sm_89():
    assert refusals(between("f8e4m3"), "triton:sm_80") and not refusals(between("f8e5m2"), "triton:sm_80")
    assert not refusals(between("f8e4m3"), "triton:gfx942")


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a", "sycl:pvc"])
def test_options_that_a_language_lacks(target: str):
    found = registry().target(target)
    program = lowered_for(found, elementwise("f32").program({"M": 33, "N": 17}))
    odd = dataclasses.replace(program.kernels[0].schedule, warps=3, options=(("mma", "x"), ("keep", "x"), ("copies", "x")))
    program = dataclasses.replace(program, kernels=(dataclasses.replace(program.kernels[0], schedule=odd),))
    said = registry().language(found.language).emitter.missing(program, found)
    assert said and all("test_where.py:" in missing.where for missing in said), said


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
