"""64-bit integers on TPUs: what is emitted for them, and what is refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

import portakern as pk
from portakern.errors import PortakernError
from portakern.spec.operator import operator

pytestmark = pytest.mark.quick
T = pk.Tensor


@operator
def best_of(table: T["V", "N"], ids: T["M", pk.i64]):
    """Of rows that are looked up, as PyTorch does, where the largest is, and how many are positive up to every place."""
    rows = pk.take(table, pk.where(ids < 0, ids + table.shape[0], ids), axis=0)
    return pk.cast(pk.argmax(rows, axis=1), pk.i64), pk.cumsum(pk.cast(rows > 0, pk.i64), axis=1)


@operator
def squares(i: T["M", pk.i64]):
    """Limited by the operator itself."""
    near = pk.clip(i, 0, 1000)
    return near * near


@operator
def masked(i: T["M", pk.i64], mask: T["M", pk.i64]):
    return i & mask & 255


@operator
def products(i: T["M", pk.i64]):
    return i * 3


@operator
def running(i: T["M", pk.i32]):
    """Sums of any i32."""
    return pk.cumsum(pk.cast(i, pk.i64), axis=0)


@operator
def as_floats(i: T["M", pk.i64]):
    return pk.cast(i, pk.f32)


@operator
def shown_seed(x: T["M"], seed: pk.Scalar[pk.i64]):
    return pk.dropout(x, seed, 0.5), x + pk.cast(seed, pk.f32)


@operator
def loud(jax: T["M"], pl: T["M"], max: T["M"], words: T["M"], seed: pk.Scalar[pk.i64]):
    """Arrays that are called as what the text says."""
    return pk.dropout(jax + pl, seed, 0.5) * max + words


def emitted(op: Any, **dims: Any) -> str:
    return str(pk.emit(op, "pallas:v5e", dtype="f32", **dims))


def test_golden(golden: Any) -> None:
    golden("best_of.py", emitted(best_of, V=40, N=130, M=9))


@pytest.mark.parametrize(("op", "dims", "limits"), [
    (best_of, {"V": 40, "N": 130, "M": 9}, "-(2**30), 2**30"), (squares, {"M": 300}, "-(2**31), 2**31 - 1"),
])  # fmt: skip
def test_kernels_have_32_bits_and_the_host_limits_and_widens(op: Any, dims: dict[str, int], limits: str) -> None:
    text = emitted(op, **dims)
    name = op.inputs[-1].name
    assert f"    {name} = jnp.clip({name}, {limits}).astype(jnp.int32)" in text
    assert ".astype(int)" in text.splitlines()[-1] and "int64)" not in text
    assert text.count("jnp.clip(i,") + text.count("jnp.clip(ids,") == 1


@pytest.mark.parametrize("op", [products, running])
def test_results_that_may_not_fit_are_refused(op: Any) -> None:
    with pytest.raises(PortakernError, match="are not known to fit into 32 bits") as caught:
        emitted(op, M=300)
    assert caught.value.kind == "unsupported-dtype" and "pk.clip" in caught.value.hint


def test_inputs_whose_numbers_matter_are_refused() -> None:
    with pytest.raises(PortakernError, match="the dtype i64 of i: v5e has none") as caught:
        emitted(as_floats, M=300)
    assert caught.value.kind == "missing-rule" and "limited first" in caught.value.hint


def test_bits_are_computed_by_words() -> None:
    text = emitted(masked, M=300)
    assert "i_low, i_high = words(i)" in text and "return out" in text and "out = of_words(out_low, out_high)" in text
    assert "out_low_ref[...] = (i_low_ref[...][None, :] & mask_low_ref[...][None, :] & 255)[0]" in text


def test_a_seed_is_two_words_unless_it_is_used_otherwise() -> None:
    text = emitted(loud, M=300)
    assert "seed_low, seed_high = words(seed)" in text and "def words(x):" in text
    with pytest.raises(PortakernError, match="the dtype i64 of seed: v5e has none"):
        emitted(shown_seed, M=300)


def test_arrays_have_names_of_their_own() -> None:
    assert "def loud(jax_, pl_, max_, words_, seed):" in emitted(loud, M=300)
