"""Products of a vector are sums of rows; those of matrices stay products."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.backend import Target
from portakern.ir.program import Program
from portakern.lower import lower_for
from portakern.registry import registry

pytestmark = pytest.mark.quick


@pk.operator
def of_matrix(a: pk.Tensor["M", "K"], x: pk.Tensor["K", "N"]):
    return pk.relu(a @ x)


@pk.operator
def of_batches(a: pk.Tensor["B", "K", "M"], x: pk.Tensor["B", "K"]):
    return pk.einsum("bkm,bk->bm", a, x)


def lowered(operator: pk.Operator, dims: dict[str, int], dtype: str, target: str = "cpp:cpu") -> Program:
    found: Target = registry().target(target)
    return lower_for(operator.program(dims, {}, dtype), found, registry().language(found.language))


@pytest.mark.parametrize(
    ("dims", "dtype", "family"),
    [
        ({"M": 40, "K": 300, "N": 1}, "f32", "rows"),
        ({"M": 1, "K": 300, "N": 40}, "f32", "rows"),
        ({"M": 40, "K": 300, "N": 2}, "f32", "contraction"),
        ({"M": 40, "K": 300, "N": 1}, "bf16", "rows"),
        ({"M": 40, "K": 300, "N": 1}, "f16", "contraction"),
        ({"M": 1, "K": 300, "N": 1}, "bf16", "rows"),
    ],
)
def test_a_product_of_a_vector_is_a_sum_of_rows(dims: dict[str, int], dtype: str, family: str) -> None:
    assert [k.family for k in lowered(of_matrix, dims, dtype).kernels] == [family]


@pk.operator
def of_windows(x: pk.Tensor["N", "H", "W", "C"], w: pk.Tensor[4, 3, "C", 1]):
    return pk.conv(x, w)


@pytest.mark.parametrize(("target", "channels", "family"), [
    ("pallas:v6e", 1, "rows"), ("hip:gfx942", 1, "rows"), ("pallas:v6e", 2, "rows"),
    ("pallas:v6e", 64, "contraction"), ("hip:gfx942", 64, "contraction"),
])  # fmt: skip
def test_windows_of_few_channels_are_no_matrix(target: str, channels: int, family: str) -> None:
    dims = {"N": 1, "H": 9, "W": 10, "C": channels}
    found = registry().target(target)
    program = lowered(of_windows, dims, "bf16", target)
    assert program.kernels[-1].family == family
    assert registry().language(found.language).emitter.emit(program, found).text


def test_open_sizes_stay_products() -> None:
    assert [k.family for k in lowered(of_matrix, {"K": 300}, "f32").kernels] == ["contraction"]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_batches_of_them_are_right(dtype: str) -> None:
    row = pk.check(of_batches, "cpp:cpu", B=3, K=37, M=65, dtype=dtype).rows[0]
    assert row.correct and row.error is None


@pk.operator
def causal(s: pk.Tensor["B", "B"], x: pk.Tensor["B", "N"]):
    rows, columns = pk.arange(s.shape[0])[:, None], pk.arange(s.shape[1])[None, :]
    return pk.where(rows >= columns, s, 0.0) @ x


@pk.operator
def of_itself_turned(x: pk.Tensor["B", "B"], y: pk.Tensor["B", "N"]):
    return (x + x.T) @ y


@pytest.mark.parametrize("operator", [causal, of_itself_turned], ids=lambda op: op.name)
def test_coordinates_and_arrays_along_two_axes_stay_apart(operator: pk.Operator) -> None:
    row = pk.check(operator, "cpp:cpu", B=33, N=1, dtype="f32").rows[0]
    assert row.correct and row.error is None


def test_long_rows_of_few_are_cut_where_a_device_would_idle() -> None:
    first = lowered(of_matrix, {"M": 16, "K": 1 << 20, "N": 1}, "f32", "cuda:sm_90a").kernels[0]
    assert int(first.schedule.option("split_k", 1)) > 1


def test_tiles_that_are_asked_for_leave_no_more_parts_than_there_are_tiles() -> None:
    dims, target = {"M": 64, "K": 8192, "N": 64}, registry().target("cuda:sm_90a")
    program, language = of_matrix.program(dims, {}, "f32"), registry().language("cuda")
    assert "split_k" in dict(lower_for(program, target, language).kernels[0].schedule.options)
    whole = lower_for(program, target, language, {"k": 4096}).kernels
    assert len(whole) == 1 and "split_k" not in dict(whole[0].schedule.options)
    assert len(lower_for(program, target, language, {"k": 4096, "split_k": 2}).kernels) == 2


@pk.operator
def weighted_by_itself(x: pk.Tensor["M", "N"]):
    return pk.softmax(pk.matmul(x, x.T, dtype=pk.f32)) @ x


@pk.operator
def scores_of_itself(x: pk.Tensor["M", "N"]):
    return pk.exp(pk.tanh(pk.matmul(x, x.T, dtype=pk.f32)) * 0.1) @ pk.cast(pk.cast(x, pk.f16), pk.f32)


@pytest.mark.parametrize("target", ["cpp:cpu", "numba:cpu", "cuda:sm_90a", "hip:gfx942", "triton:sm_90"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("operator", [weighted_by_itself, scores_of_itself])
def test_what_a_sum_meets_of_itself_keeps_its_two_dims(operator: pk.Operator, dtype: str, target: str):
    """The array is widened, for the sums and before them: once along rows, and once along what is summed."""
    program = lowered(operator, {"M": 28, "N": 1}, dtype, target)
    last = program.kernels[-1]
    assert [str(a.extent) for a in last.axes].count("28") == 2
