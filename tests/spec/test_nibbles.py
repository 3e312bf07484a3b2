"""Integers of four bits: which half of a byte is first, and that every way in and out agrees."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import portakern as pk
from portakern.errors import SpecError, UsageError
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import tensor_type
from tests.lower.test_lowering import compare

pytestmark = pytest.mark.quick

T = pk.Tensor
DTYPES = {"i4": range(-8, 8), "u4": range(16)}


@pk.operator(dtypes=("f32",))
def taken_out(w: T["M", "N", pk.i4], v: T["M", "N", pk.u4]):
    return pk.cast(w, pk.i32), pk.cast(v, pk.i32)


@pk.operator(dtypes=("f32",))
def put_in(x: T["M", "N", pk.i32]):
    return pk.pack(pk.cast(x, pk.i4), pk.i4), pk.pack(pk.cast(x, pk.u4), pk.u4)


@pk.operator(dtypes=("f32",))
def of_bytes(x: T["M", "2*N", pk.u8]):
    """What is declared as bytes, with a row of it in the order of columns."""
    return pk.cast(pk.transpose(pk.unpack(x, pk.i4)), pk.i32) + 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [0, 1, 2, 7, 16])
def test_every_number_comes_back(dtype: str, width: int) -> None:
    rng = np.random.default_rng(width)
    numbers = rng.choice(np.array(DTYPES[dtype]), (3, width))
    held = numbers.astype(getattr(ml_dtypes, {"i4": "int4", "u4": "uint4"}[dtype]))
    packed = pk.pack(held, dtype)
    assert packed.dtype == np.uint8 and packed.shape == (3, (width + 1) // 2)
    np.testing.assert_array_equal(pk.pack(numbers, dtype), packed)
    np.testing.assert_array_equal(pk.unpack(packed, dtype, width), numbers)


def test_the_first_is_in_the_lower_half() -> None:
    np.testing.assert_array_equal(pk.pack(np.array([[1, 2, 3]]), "u4"), [[0x21, 0x03]])
    np.testing.assert_array_equal(pk.unpack(np.array([0x8F], np.uint8), "i4"), [-1, -8])
    np.testing.assert_array_equal(pk.unpack(np.array([0x8F], np.uint8), "u4"), [15, 8])


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_has_the_same_bytes(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'portakern[torch]')")
    numbers = np.array([[*DTYPES[dtype], DTYPES[dtype][3]]])
    packed = pk.pack(torch.from_numpy(numbers), dtype)
    np.testing.assert_array_equal(packed.numpy(), pk.pack(numbers, dtype))
    np.testing.assert_array_equal(pk.unpack(packed, dtype, numbers.shape[1]).numpy(), numbers)


@pytest.mark.parametrize("width", [1, 2, 7, 16])
def test_operators_take_and_give_bytes(width: int) -> None:
    rng = np.random.default_rng(width)
    signed, plain = rng.integers(-8, 8, (3, width)), rng.integers(0, 16, (3, width))
    program = taken_out.program({"M": 3, "N": width})
    assert [str(tensor_type(a)) for a in program.args] == [f"tensor[3, {(width + 1) // 2}, u8]"] * 2
    got = evaluate(program, {"w": pk.pack(signed, "i4"), "v": pk.pack(plain, "u4")})
    np.testing.assert_array_equal(got["out0"], signed)
    np.testing.assert_array_equal(got["out1"], plain)
    wide = rng.integers(-40, 40, (3, width))
    made = evaluate(put_in.program({"M": 3, "N": width}), {"x": wide})
    np.testing.assert_array_equal(made["out0"], pk.pack(wide, "i4"))
    np.testing.assert_array_equal(pk.unpack(made["out0"].astype(np.uint8), "i4", width), (wide + 8) % 16 - 8)
    np.testing.assert_array_equal(pk.unpack(made["out1"].astype(np.uint8), "u4", width), wide % 16)


@pytest.mark.parametrize("width", [1, 2, 7, 16])
@pytest.mark.parametrize("op", [taken_out, put_in, of_bytes], ids=lambda op: op.name)
def test_kernels_agree(op: pk.Operator, width: int) -> None:
    compare(op, {"M": 3, "N": width}, {}, "f32")


def test_bytes_are_asked_for() -> None:
    @pk.operator
    def of_words(x: T["M", "N", pk.i32]):
        return pk.unpack(x, pk.i4)

    @pk.operator
    def of_one(x: T[pk.i4]):
        return x

    @pk.operator
    def of_eight_bits(x: T["M", pk.u8]):
        return pk.unpack(x, pk.i8)

    with pytest.raises(SpecError, match="rows of bytes"):
        of_words.trace()
    with pytest.raises(SpecError, match="a single i4"):
        of_one.trace()
    with pytest.raises(UsageError, match="i8 has not four bits"):
        of_eight_bits.trace()
