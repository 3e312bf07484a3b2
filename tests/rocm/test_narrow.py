"""Products of 8-bit numbers and of shortened floats: the formats, the matrix instructions, and operators of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import portakern as pk
from portakern.backend import Source
from portakern.backends.rocm.emitter import HipEmitter
from portakern.backends.rocm.toolchain import HipToolchain
from portakern.dtypes import numpy_dtype
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study.study import Runner
from portakern.study.work import Problem, works
from tests.lowering import lowered_for
from tests.rocm.helpers import ISAS, kernel, needs_clang, run, target

FORMATS = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}


@pytest.mark.parametrize("name", FORMATS)
def test_conversions_of_8_bit_floats(name: str) -> None:
    """All 256 numbers, and floats around every rounding and overflow boundary, against ml_dtypes."""
    needs_clang()
    numbers = np.arange(256, dtype="u1").view(FORMATS[name]).astype("f4")
    finite = np.sort(np.abs(numbers[np.isfinite(numbers)]))
    middles = (finite[1:] + finite[:-1]) / 2
    edges = np.concatenate(
        [middles, np.nextafter(middles, 0), np.nextafter(middles, np.float32(1e9)), finite, [finite[-1] * 1.03]]
    )
    x = np.concatenate([edges, -edges, [np.inf, -np.inf, np.nan, 1e-9, 3e38, 0.0, -0.0]]).astype("f4")
    x = np.resize(x, (len(x) + 63) // 64 * 64)
    text = f"""#include "pk/pk.h"
extern "C" __global__ void kernel(const uint8_t* codes, const float* x, float* wide, uint8_t* narrow) {{
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < 256) wide[i] = float(__builtin_bit_cast(pk::{name}, codes[i]));
  narrow[i] = pk::{name}(x[i]).bits;
}}
"""
    inputs = {"codes": ((256,), "u8"), "x": (x.shape, "f32")}
    source = kernel("gfx942", text, inputs, {"wide": ((256,), "f32"), "narrow": (x.shape, "u8")}, len(x) // 64)
    wide, narrow = run(source, np.arange(256, dtype="u1"), x)
    np.testing.assert_array_equal(wide, numbers)
    np.testing.assert_array_equal(narrow.view(FORMATS[name]).astype("f4"), x.astype(FORMATS[name]).astype("f4"))
    zero = narrow[x == 0]
    assert (zero == x[x == 0].astype(FORMATS[name]).view("u1")).all()  # FNUZ has one zero


STEP = """#include "pk/pk.h"
extern "C" __global__ void kernel(const pk::i32x4* a, const pk::i32x4* b, {sum}* out) {{
  {sum} d = {{}};
  using Operand = pk::Fragment<{element}>::type;
  d = pk::matrix_step(d, __builtin_bit_cast(Operand, a[threadIdx.x]), __builtin_bit_cast(Operand, b[threadIdx.x]));
  out[threadIdx.x] = d;
}}
"""


@pytest.mark.parametrize(
    ("device", "element", "dtype"),
    [
        ("gfx942", "pk::f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
        ("gfx942", "pk::f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
        ("gfx950", "pk::f8e4m3", ml_dtypes.float8_e4m3fn),
        ("gfx950", "pk::f8e5m2", ml_dtypes.float8_e5m2),
        ("gfx90a", "int8_t", np.int8),
        ("gfx942", "int8_t", np.int8),
        ("gfx950", "int8_t", np.int8),
        ("gfx942", "pk::xf32", np.float32),
    ],
)
def test_a_step_on_the_matrix_cores(device: str, element: str, dtype: type) -> None:
    """Rows of a and columns of b by lanes, depths in fours of lanes (CDNA), against the product in float64."""
    needs_clang(device)
    rng = np.random.default_rng(5)
    size = np.dtype(dtype).itemsize
    deep = 64 // size
    a, b = (rng.integers(-7, 8, (16, deep)).astype(dtype) for _ in range(2))
    x, y = (np.stack([m[lane % 16, lane // 16 * (16 // size) :][: 16 // size] for lane in range(64)]) for m in (a, b))
    whole = dtype is np.int8
    text = STEP.format(sum="pk::i32x4" if whole else "pk::f32x4", element=element)
    kind = "i32" if whole else "f32"
    source = kernel(device, text, {"a": ((64, 4), "i32"), "b": ((64, 4), "i32")}, {"out": ((64, 4), kind)})
    got = run(source, x.view("i4"), y.view("i4"))
    want = a.astype("f8") @ b.astype("f8").T
    for lane in range(64):
        for r in range(4):
            assert got[lane, r] == want[lane // 16 * 4 + r, lane % 16]


@pk.operator(dtypes=("f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"), cases={"typical": dict(M=80, N=96, K=192)})
def product_f8(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
    return pk.matmul(a, b, pk.f32)


@pk.operator(dtypes=("i8",), cases={"typical": dict(M=80, N=96, K=192)})
def product_i8(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
    return pk.matmul(a, b, pk.i32)


def emitted(op: object, dtype: str, isa: str) -> Source:
    traced = op.trace({}, dtype, {})  # type: ignore[attr-defined]
    program = bind(traced, {"M": 80, "N": 96, "K": 192})
    return HipEmitter().emit(lowered_for(target(isa), program), target(isa))


OPERATORS = [
    *((product_i8, "i8", isa) for isa in ISAS),
    *((product_f8, dtype, isa) for isa in ("gfx950", "gfx1201") for dtype in ("f8e4m3", "f8e5m2")),
    *((product_f8, dtype, "gfx942") for dtype in ("f8e4m3fnuz", "f8e5m2fnuz")),
]


@pytest.mark.parametrize(("op", "dtype", "isa"), OPERATORS, ids=lambda x: x if isinstance(x, str) else "")
def test_operators_of_8_bit_numbers(op: object, dtype: str, isa: str) -> None:
    needs_clang(isa)
    source = emitted(op, dtype, isa)
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-16, 17, shape).astype(numpy_dtype(dtype)) for shape in ((80, 192), (192, 96)))
    got = run(source, a, b)
    np.testing.assert_array_equal(got.astype("f8"), a.astype("f8") @ b.astype("f8"))


@pytest.mark.parametrize(("op", "dtype", "isa"), OPERATORS, ids=lambda x: x if isinstance(x, str) else "")
def test_their_machine_code(op: object, dtype: str, isa: str) -> None:
    needs_clang(isa)
    binary = HipToolchain().compile(emitted(op, dtype, isa))
    assert [(r.spills, r.scratch_bytes) for r in binary.resources] == [(0, 0)]
    word = {"i8": "i32", "f8e4m3": "fp8_fp8", "f8e5m2": "bf8_bf8"}[dtype.removesuffix("fnuz")]
    word = "f8f6f4" if isa == "gfx950" and dtype != "i8" else word
    lines = [x for x in (binary.assembly or "").split("\n") if "v_mfma" in x or "v_wmma" in x]
    assert lines and all(word in x for x in lines)


def test_8_bit_floats_of_the_other_format_are_refused() -> None:
    """CDNA 3 multiplies FNUZ formats, CDNA 4 OCP's; what is refused is told what to use instead."""
    cdna3, cdna4, rdna3 = (target(isa).device for isa in ("gfx942", "gfx950", "gfx1100"))
    assert "f8e4m3" not in cdna3.dtypes and not cdna3.matrix_for("f8e4m3") and cdna3.matrix_for("f8e4m3fnuz")
    assert "f8e4m3fnuz" not in cdna4.dtypes and cdna4.alternatives["f8e4m3fnuz"] == "f8e4m3"
    assert rdna3.alternatives["f8e5m2fnuz"] == "bf16"


def test_a_product_of_fnuz_numbers_is_checked_by_its_machine_code() -> None:
    """The oracle, the bounds and the simulator know the formats; the kernel multiplies them as they are."""
    needs_clang("gfx942")
    ask = Problem(product_f8, {"M": 24, "N": 40, "K": 96}, {})
    for work in works(ask, [registry().target("hip:gfx942")], ["f8e4m3fnuz", "f8e5m2fnuz"]):
        row = Runner("checked", 1).run([work]).rows[0]
        assert (row.evidence, row.error) == ("simulated", None), row.error
    (work,) = works(ask, [registry().target("hip:gfx950")], ["f8e4m3fnuz"])
    row = Runner("checked", 1).run([work]).rows[0]
    assert row.error is not None and "f8e4m3fnuz" in str(row.error) and "f8e4m3" in str(row.error["hint"])
