"""Products of quantised numbers: scales of groups are applied inside of the product's kernel, and nothing is stored before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program
from portakern.lower.choosing import lower_for
from portakern.registry import registry
from portakern.spec.inputs import make_inputs
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from tests.lower.test_lowering import compare

pytestmark = pytest.mark.quick

T = pk.Tensor


def weights_by_repeat(group: int, dtype: Any) -> Operator:
    @pk.operator(shapes=lambda: {"x": ("M", f"{group}*G"), "w": ("N", f"{group}*G")})
    def product(x: T["M", "K"], w: T["N", "K", dtype], zero: T["N", "G", dtype], scale: T["N", "G"]):
        zeros, scales = (pk.cast(pk.repeat(y, group, axis=1), pk.f32) for y in (zero, scale))
        weights = pk.cast((pk.cast(w, pk.f32) - zeros) * scales, x.dtype)
        return pk.cast(pk.matmul(x, pk.transpose(weights), pk.f32), x.dtype)

    return product


def weights_by_reshape(group: int, dtype: Any) -> Operator:
    """As rows of k, with the groups below each other."""

    @pk.operator(shapes=lambda: {"x": ("M", f"{group}*G"), "w": (f"{group}*G", "N")})
    def product(x: T["M", "K"], w: T["K", "N", dtype], zero: T["G", "N", dtype], scale: T["G", "N"]):
        (g, n), k = scale.shape, x.shape[1]
        apart = pk.cast(pk.reshape(w, (g, group, n)), pk.f32) - pk.cast(zero, pk.f32)[:, None]
        weights = pk.reshape(apart * pk.cast(scale, pk.f32)[:, None], (k, n))
        return pk.cast(pk.matmul(x, pk.cast(weights, x.dtype), pk.f32), x.dtype)

    return product


@pk.operator
def scaled_blocks(a: T["M", "16*G", pk.i8], b: T["N", "16*G", pk.i8], sa: T["M", "G"], sb: T["N", "G"]):
    m, g = sa.shape
    n = sb.shape[0]
    sums = pk.einsum("mgk,ngk->gmn", pk.reshape(a, (m, g, 16)), pk.reshape(b, (n, g, 16)), dtype=pk.i32)
    return pk.sum(pk.cast(sums, sa.dtype) * pk.transpose(sa)[:, :, None] * pk.transpose(sb)[:, None, :], axis=0)


@pk.operator
def batches_in_the_middle(a: T["M", "16*G"], b: T["16*G", "N", pk.i8], scale: T["G", "N"]):
    """As written by who thinks of [rows, groups, columns]."""
    m, (g, n) = a.shape[0], scale.shape
    apart = pk.cast(pk.reshape(b, (g, 16, n)), a.dtype)
    sums = pk.einsum("mgk,gkn->mgn", pk.reshape(a, (m, g, 16)), apart, dtype=pk.f32)
    return pk.sum(sums * scale, axis=1)


@pk.operator
def blocks_of_columns(a: T["M", "16*G"], b: T["128*P", "16*G", pk.i8], scale: T["P", "G"], bias: T["128*P"]):
    p, g = scale.shape
    apart = pk.cast(pk.reshape(b, (p, 128, g, 16)), pk.f32) * pk.cast(scale, pk.f32)[:, None, :, None]
    weights = pk.reshape(apart, (128 * p, 16 * g))
    return pk.relu(pk.matmul(a, pk.transpose(pk.cast(weights, a.dtype)), pk.f32) + bias)


@pk.operator
def sums_that_are_read_elsewhere(a: T["M", "16*G"], b: T["N", "16*G"]):
    """The product of each batch is an output too: it is stored, and summed by another kernel."""
    m, n, g = a.shape[0], b.shape[0], a.shape[1] // 16
    sums = pk.einsum("mgk,ngk->gmn", pk.reshape(a, (m, g, 16)), pk.reshape(b, (n, g, 16)), dtype=pk.f32)
    return sums, pk.sum(pk.tanh(sums), axis=0)


@pk.operator
def sums_of_positive_products(a: T["G", "M", "K"], b: T["G", "N", "K"]):
    """What is made of a product is not what is made of its parts."""
    return pk.sum(pk.relu(pk.einsum("gmk,gnk->gmn", a, b, dtype=pk.f32)), axis=0)


@pk.operator
def sums_of_positive_taps(x: T["M", "K"], w: T[3, "K", "N"]):
    return pk.sum(pk.relu(pk.einsum("pkt,tkn->tpn", pk.windows(x, 3, axes=0), w, dtype=pk.f32)), axis=0)


MAKERS = (weights_by_repeat, weights_by_reshape)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("dtype", [pk.i8, pk.u4], ids=str)
@pytest.mark.parametrize("group", [16, 32, 48])
def test_weights_are_dequantised_inside_of_their_product(make: Callable[..., Operator], dtype: Any, group: int) -> None:
    made = compare(make(group, dtype), {"M": 5, "N": 6, "G": 3}, {}, "bf16")
    assert len(made.kernels) == 1 and not made.by_role("temporary")


@pytest.mark.parametrize("dims", [{"M": 1, "N": 1, "G": 1}, {"M": 0, "N": 3, "G": 2}, {"M": 7, "N": 1, "G": 2}])
@pytest.mark.parametrize("make", MAKERS)
def test_groups_of_few_and_none(make: Callable[..., Operator], dims: Mapping[str, int]) -> None:
    compare(make(32, pk.u4), dims, {}, "f32")


def test_small_groups_are_dequantised_first() -> None:
    made = compare(weights_by_repeat(4, pk.i8), {"M": 5, "N": 6, "G": 3}, {}, "f32")
    assert made.by_role("temporary")


@pytest.mark.parametrize("dims", [{"M": 5, "N": 6, "G": 3}, {"M": 1, "N": 1, "G": 1}, {"M": 0, "N": 2, "G": 1},
                                  {"M": 1, "N": 6, "G": 3}, {"M": 7, "N": 1, "G": 2}])  # fmt: skip
@pytest.mark.parametrize("op", [scaled_blocks, batches_in_the_middle], ids=lambda op: op.name)
def test_sums_of_scaled_products_are_one_walk(op: Operator, dims: Mapping[str, int]) -> None:
    made = compare(op, dims, {}, "f32")
    assert len(made.kernels) == min(dims["M"], 1) and not made.by_role("temporary")


def test_many_batches_of_little_are_multiplied_by_blocks_of_their_own() -> None:
    assert len(compare(scaled_blocks, {"M": 3, "N": 2, "G": 70}, {}, "f32").kernels) == 2


def test_scales_of_columns() -> None:
    made = compare(blocks_of_columns, {"M": 5, "P": 2, "G": 3}, {}, "bf16")
    assert len(made.kernels) == 1 and not made.by_role("temporary")


def test_products_that_others_read_are_stored() -> None:
    made = compare(sums_that_are_read_elsewhere, {"M": 5, "N": 6, "G": 3}, {}, "f32")
    assert len(made.kernels) == 2


# ---- on targets ------------------------------------------------------------------------------------------------------------


def program(operator: Operator, target: str, dtype: str, **dims: int) -> Program:
    found = registry().target(target)
    return lower_for(operator.program(dims, {}, dtype), found, registry().language(found.language))


TARGETS = ("cuda:sm_90a", "cuda:sm_80", "triton:sm_90", "hip:gfx942", "sycl:pvc", "cpp:cpu", "opencl:cpu", "numba:cpu")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("group", [32, 64, 96, 128])
def test_no_step_reaches_past_its_group(target: str, group: int) -> None:
    """Else it would multiply zeros."""
    made = program(weights_by_repeat(group, pk.i8), target, "bf16", M=384, N=512, G=16)
    kernel, *joins = made.kernels
    assert all(k.family == "elementwise" for k in joins)
    (dot,) = (op for op in kernel.body.walk() if isinstance(op, t.Dot))
    assert not kernel.axis[dot.axis].ragged
    assert t.tile_type(dot.lhs).dtype == "bf16"


@pytest.mark.parametrize("target", TARGETS)
def test_for_many_rows_weights_are_dequantised_once(target: str) -> None:
    """Else each block of rows would do it again, and none could have them brought as they lie."""
    made = program(weights_by_repeat(128, pk.i8), target, "bf16", M=512, N=256, G=4)
    first, product, *_ = made.kernels
    assert first.family in ("elementwise", "transpose") and [a.dtype for a in made.by_role("temporary")][:1] == ["bf16"]
    assert product.family == "contraction" and not any(t.buffer_type(a).dtype == "i8" for a in product.args)


@pytest.mark.parametrize("make", [lambda: scaled_blocks, lambda: weights_by_repeat(16, pk.i8)], ids=["sums", "weights"])
@pytest.mark.parametrize("parts", [2, 3])
def test_groups_are_shared_out(make: Callable[[], Operator], parts: int) -> None:
    """A part is some of the groups, each of which is one step: the last has fewer."""
    found = registry().target("numba:cpu")
    bound = make().program({"M": 5, "N": 6, "G": 5}, {}, "f32")
    made = lower_for(bound, found, registry().language("numba"), {"split_k": parts})
    first, second = made.kernels
    assert first.axes[0].extent == parts and second.family == "elementwise"
    inputs = make_inputs(bound)
    np.testing.assert_allclose(run(made, inputs)["out"], evaluate(bound, inputs)["out"], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("op", [sums_of_positive_products, sums_of_positive_taps], ids=lambda op: op.name)
def test_a_product_that_is_computed_on_is_never_in_parts(op: Operator) -> None:
    """Parts are of the groups, though a product is summed in several steps itself."""
    found = registry().target("numba:cpu")
    sizes = {"M": 7, "N": 6, "K": 40, "G": 3}
    bound = op.program({d: sizes[d] for d in op.dims}, {}, "f32")
    language = registry().language("numba")
    (dot,) = (op for op in lower_for(bound, found, language).kernels[0].body.walk() if isinstance(op, t.Dot))
    made = lower_for(bound, found, language, {dot.axis: 16, "split_k": 2})
    first, _ = made.kernels
    assert first.axes[0].extent == 2 and first.axis[dot.axis].steps == 3
    inputs = make_inputs(bound)
    np.testing.assert_allclose(run(made, inputs)["out"], evaluate(bound, inputs)["out"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cuda:h200", "cuda:sm_100a", "triton:h200", "hip:gfx942"])
@pytest.mark.parametrize("dims", [{"M": 64, "N": 64, "K": 512, "G": 9}, {"M": 16, "N": 128, "K": 2048, "G": 64}], ids=str)
def test_by_default_it_is_in_none_either(target: str, dims: dict[str, int]) -> None:
    """Few tiles of long sums are cut by default, where something else can be cut, too."""
    kernel, *_ = program(sums_of_positive_products, target, "bf16", **dims).kernels
    (dot,) = (op for op in kernel.body.walk() if isinstance(op, t.Dot))
    walks = [op for op in kernel.body.walk() if isinstance(op, t.For) and op.axis == dot.axis]
    assert walks and all(walk.lo is None for walk in walks)


def test_few_rows_share_groups_out_by_default() -> None:
    made = program(weights_by_repeat(128, pk.i8), "cuda:h200", "bf16", M=4, N=1024, G=16)
    assert len(made.kernels) == 2 and made.kernels[0].axes[0].name == "part"
