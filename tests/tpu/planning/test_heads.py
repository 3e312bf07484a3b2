"""Heads between rows and columns: blocks of columns are counted through both, so that no array is transposed first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import portakern as pk
from portakern.study import steps
from portakern.study.work import Problem, Work, works
from tests.tpu.helpers import target

T = pk.Tensor


@pk.operator
def attended(q: T["B", "S", "H", "D"], k: T["B", "S", "G", "H", "D"], v: T["B", "S", "G", "H", "D"], g: int = 1):
    """Queries of (B, S, H, D), as projections give them, beside the keys of one of G groups."""
    by_heads = [pk.transpose(x, (0, 2, 1, 3)) for x in (q, k[:, :, g], v[:, :, g])]
    weights = pk.softmax(pk.matmul(by_heads[0], pk.transpose(by_heads[1], (0, 1, 3, 2)), pk.f32), -1)
    return pk.transpose(pk.cast(pk.matmul(pk.cast(weights, v.dtype), by_heads[2], pk.f32), q.dtype), (0, 2, 1, 3))


def work(dims: Mapping[str, int], dtype: str = "bf16") -> Work:
    (made,) = works(Problem(attended, dims, {}), [target("v6e")], [dtype])
    return made


SIZES = {"B": 2, "S": 200, "H": 3, "D": 128, "G": 2}


@pytest.mark.quick
def test_whole_rows_of_lanes_are_counted_beside_each_other() -> None:
    text = steps.emit(work(SIZES))[0].text
    assert "transpose" not in text
    assert "lambda i_b, i_h: (i_b, 0, i_h)" in text  # queries and the result: the head is the number of the block
    assert "lambda i_b, i_h: (i_b, 0, i_h + 3)" in text  # keys of the second group
    assert "q.reshape(2, 200, 384)" in text and "k.reshape(2, 200, 768)" in text


@pytest.mark.quick
@pytest.mark.parametrize("change", [{"D": 64}, {"D": 100}])
def test_parts_of_rows_of_lanes_are_no_blocks(change: dict[str, int]) -> None:
    assert "transpose(0, 2, 1, 3)" in steps.emit(work({**SIZES, **change}))[0].text


def test_right() -> None:
    asked = work(SIZES)
    row = steps.check(asked, steps.build(asked), full=False)
    assert row.error is None and row.correct


@pk.operator
def of_two(y: T[100, 2, 128]):
    """Both heads of a block that has all rows, so that nothing is walked."""
    return pk.sum(y[:, 0] * y[:, 1], axis=1)


@pk.operator
def lower_half(x: T[256, 128]):
    return pk.sum(x[128:], axis=1)


@pytest.mark.parametrize("op", [of_two, lower_half])
def test_parts_of_arrays_in_kernels_without_a_grid(op: Any) -> None:
    """Pallas takes them from kernels with one only."""
    (asked,) = works(Problem(op, {}, {}), [target("v6e")], ["f32"])
    assert "grid=(1,)" in steps.emit(asked)[0].text
    row = steps.check(asked, steps.build(asked), full=False)
    assert row.error is None and row.correct


# ---- parts of lines -------------------------------------------------------------------------------------------------------


@pk.operator
def turned(x: T["B", "S", "H", "2*D"], c: T["S", "D", pk.f32], s: T["S", "D", pk.f32]):
    half = c.shape[-1]
    a, b = x[..., :half] * c[:, None], x[..., half:] * s[:, None]
    return pk.concat([a - b, a + b], -1)


@pk.operator
def in_three(x: T["M", "3*N"], y: T["M", "N"]):
    n = y.shape[1]
    return pk.softmax(x[:, n : 2 * n] * x[:, :n] + y, -1) * x[:, 2 * n :]


@pk.operator
def gated(x: T["M", "2*N"]):
    n = x.shape[1] // 2
    return pk.silu(x[:, :n]) * x[:, n:]


@pk.operator
def a_part(x: T["M", "3*N"], y: T["M", "N"]):
    n = y.shape[1]
    return pk.softmax(x[:, :n] + y, -1)


def emitted(op: Any, dims: Mapping[str, int], schedule: dict[str, int] | None = None) -> str:
    (made,) = works(Problem(op, dims, {}), [target("v6e")], ["bf16"], schedule)
    return steps.emit(made)[0].text


@pytest.mark.quick
def test_halves_of_lines_are_read_and_stored_in_one_block() -> None:
    text = emitted(turned, {"B": 2, "S": 64, "H": 4, "D": 192})
    assert "x_ref[:, :192]" in text and "x_ref[:, 192:]" in text and "out_ref[:, 192:] = " in text
    assert not any(word in text for word in ("x2_ref", "transpose", "concatenate", "x["))
    assert "concatenate" not in emitted(turned, {"B": 2, "S": 64, "H": 4, "D": 20})


@pk.operator
def in_quarters(x: T["M", "128"], y: T["N", "32"], b: T["32"], rows: T["M", pk.f32]):
    q = [x[:, 32 * n : 32 * n + 32] for n in range(4)]
    z = pk.cast(y[0] * b, pk.f32) * rows[:, None]
    made = [pk.cast(q[n], pk.f32) * z - pk.cast(q[(n + 1) % 4], pk.f32) for n in range(3)]
    return pk.concat([*(pk.cast(m, x.dtype) for m in made), pk.maximum(q[3], q[1] + q[0])], -1)


@pytest.mark.quick
def test_parts_of_a_line_of_lanes_are_computed_on_the_whole_line() -> None:
    text = emitted(turned, {"B": 2, "S": 64, "H": 4, "D": 64})
    assert "pltpu.roll(x, 64, 1)" in text and "jnp.where(cols < 64, " in text
    assert "c_lines = jnp.concatenate([c, c], axis=1)" in text and "x_ref[:, " not in text
    quarters = emitted(in_quarters, {"M": 37, "N": 2})
    assert all(f"pltpu.roll(x, {n}, 1)" in quarters for n in (64, 96)) and "concatenate([b, b, b, b], axis=0)" in quarters
    # Where each line has a part of its own, putting it beside itself costs what it saves.
    assert "x_ref[:, :64]" in emitted(turned, {"B": 1, "S": 64, "H": 1, "D": 64})


@pk.operator
def scaled(x: T["B", "S", "H", "D"], scale: T["S", "D"], shift: T["D", pk.f32]):
    """One input differs between positions, one between features alone."""
    return pk.cast(pk.cast(x * scale[:, None], pk.f32) + shift, x.dtype)


@pytest.mark.quick
def test_heads_that_fill_native_tiles_are_rows_of_their_positions() -> None:
    text = emitted(scaled, {"B": 2, "S": 4096, "H": 32, "D": 40})
    assert "x.reshape(2, 131072, 40)" in text and "transpose" not in text
    assert "pl.BlockSpec((BS, 40), lambda i_b, i_sh: (i_sh, 0))" in text and "(BS, 32, 40)).reshape(BSH, 40)" in text
    # Tiles of 8 rows of 32 bits hold half as many heads as those of 16 bits: these would be moved to be repeated.
    assert "jnp.broadcast_to" not in emitted(scaled, {"B": 2, "S": 4096, "H": 8, "D": 40})
    assert "jnp.broadcast_to" not in emitted(scaled, {"B": 2, "S": 4096, "H": 12, "D": 40})


@pytest.mark.parametrize("dims", [{"B": 2, "S": 300, "H": 16, "D": 20}, {"B": 1, "S": 17, "H": 16, "D": 128}])
def test_rows_of_positions_and_heads_are_right(dims: dict[str, int]) -> None:
    for op, more in ((scaled, {}), (turned, {"D": 64})):
        (asked,) = works(Problem(op, {**dims, **more}, {}), [target("v6e")], ["bf16"])
        assert "jnp.broadcast_to" in steps.emit(asked)[0].text
        row = steps.check(asked, steps.build(asked), full=False)
        assert row.error is None and row.correct


@pytest.mark.quick
def test_parts_that_make_up_lines_are_cut_in_the_kernel() -> None:
    text = emitted(in_three, {"M": 64, "N": 40})
    assert "x_ref[:, :40]" in text and "x_ref[:, 40:80]" in text and "x_ref[:, 80:]" in text and "x[" not in text
    assert "x[0:64, 0:40]" in emitted(a_part, {"M": 64, "N": 40}) or "x[:, 0:40]" in emitted(a_part, {"M": 64, "N": 40})


@pytest.mark.quick
def test_parts_of_whole_blocks_are_blocks() -> None:
    text = emitted(gated, {"M": 512, "N": 4096}, {"j": 1024})
    assert "(i_i, i_j + 4)" in text and "x[" not in text
    assert "x[" in emitted(gated, {"M": 512, "N": 1000}, {"j": 256})


@pytest.mark.parametrize(("op", "dims"), [
    (turned, {"B": 1, "S": 11, "H": 3, "D": 64}), (turned, {"B": 1, "S": 11, "H": 3, "D": 96}),
    (turned, {"B": 1, "S": 9, "H": 2, "D": 20}), (in_quarters, {"M": 37, "N": 2}), (in_three, {"M": 21, "N": 40}),
    (gated, {"M": 37, "N": 256}),
])  # fmt: skip
def test_parts_are_right(op: Any, dims: Mapping[str, int]) -> None:
    (asked,) = works(Problem(op, dims, {}), [target("v6e")], ["bf16"])
    row = steps.check(asked, steps.build(asked), full=False)
    assert row.error is None and row.correct


# ---- parts that the host copies --------------------------------------------------------------------------------------------


@pk.operator
def rolled(x: T["B", "H", "W", "C"]):
    """Windows of an image that is rolled by two dims, as Swin takes them."""
    y = pk.roll(pk.roll(x, -3, 1), -2, 2)
    b, h, w, c = x.shape
    y = pk.transpose(pk.reshape(y, (b, h // 2, 2, w // 2, 2, c)), (0, 1, 3, 2, 4, 5))
    return pk.softmax(pk.reshape(y, (-1, 4, c)), -1)


@pytest.mark.quick
def test_parts_of_an_input_are_copied_by_the_host() -> None:
    text = emitted(rolled, {"B": 2, "H": 8, "W": 6, "C": 40})
    assert text.count("pl.pallas_call(") == 1 and text.count("jnp.concatenate(") == 2
    assert "[:, 3:8, :, :]" in text and "[:, 0:3, :, :]" in text and "[:, :, 2:6, :]" in text


@pk.operator
def merged(x: T["B", "H", "W", "C"], y: T["B", "H", "W", "C"], w: T["4*C", "N"]):
    """Parts of what a kernel makes, side by side in the lines of another array, and all of it elsewhere."""
    z = x + y
    m = pk.concat([z[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
    return pk.matmul(m, w), pk.softmax(z, -1)


@pytest.mark.parametrize(("op", "more"), [(rolled, {}), (merged, {"N": 24})])
def test_copied_parts_are_right(op: Any, more: dict[str, int]) -> None:
    (asked,) = works(Problem(op, {"B": 1, "H": 4, "W": 4, "C": 40, **more}, {}), [target("v6e")], ["bf16"])
    row = steps.check(asked, steps.build(asked), full=False)
    assert row.error is None and row.correct


@pk.operator
def held_whole(x: pk.Tensor["M", 8, "B"], y: pk.Tensor["M", "B"]):
    """Elementwise, and reduced along the positions, which a block has as a whole."""
    return pk.exp(x + y[:, None]) / pk.sum(pk.exp(x), axis=0, keepdims=True)


@pytest.mark.parametrize("shape", [{"M": 96}, {"M": 300, "B": 130}], ids=str)
def test_positions_that_a_block_holds_whole_stay_apart(shape: dict[str, Any]) -> None:
    (row,) = pk.compare(held_whole, targets=["pallas:v5e"], dtype="f32", **shape).rows
    assert row.correct, row.error
