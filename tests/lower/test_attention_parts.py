"""Attention of few queries: keys in parts, and the kernel that joins them."""

from __future__ import annotations

from typing import Any

import pytest

import portakern as pk
from portakern.errors import ScheduleError

pytestmark = pytest.mark.quick


@pk.operator
def with_sums(q: pk.Tensor["M", "D"], k: pk.Tensor["N", "D"], v: pk.Tensor["N", "E"]):
    """The weights' sum and maximum are asked for as well, as a backward does."""
    s = q @ k.T
    top = pk.max(s, axis=1)
    e = pk.exp(s - top[:, None])
    total = pk.sum(e, axis=1)
    return (e @ v) / total[:, None] + 1.0, top + pk.log(total)


@pk.operator
def normed(q: pk.Tensor["M", "D"], k: pk.Tensor["N", "D"], v: pk.Tensor["N", "E"]):
    """Its results are reduced along their features."""
    x = pk.softmax(q @ k.T) @ v
    return x / pk.sum(pk.abs(x), axis=1, keepdims=True)


def parts(built: pk.Built) -> list[int]:
    return [int(s.option("split_k", 1)) for s in built.schedule]


@pytest.mark.parametrize(("target", "count"), [("cpp:cpu", 2), ("hip:gfx1201", 5), ("opencl:cpu", 3)])
def test_ragged_parts_are_right(target: str, count: int) -> None:
    schedule = {"split_k": count, "n": 16}
    row = pk.check(with_sums, target, M=5, N=75, D=16, E=24, dtype="f32", schedule=schedule).rows[0]
    assert row.correct and row.error is None and f"split_k={count}" in (row.schedule or "")


@pytest.mark.parametrize("sizes", [{"SQ": 70, "SK": 90}, {"SQ": 3, "SK": 130}, {"SQ": 70, "SK": 40}])
def test_rows_that_see_no_key_of_a_part(sizes: dict[str, Any]) -> None:
    """A causal walk ends before the last parts begin; a row that sees no key at all is what PyTorch makes of it."""
    row = pk.check("attention", "cpp:cpu", B=1, H=2, G=2, D=16, **sizes, dtype="f32", causal=True,
                   schedule={"split_k": 2, "sk": 16}).rows[0]  # fmt: skip
    assert row.correct and row.error is None


def test_open_queries() -> None:
    built = pk.build(with_sums, target="cpp:cpu", dtype="f32", N=64, D=16, E=16, schedule={"split_k": 2, "n": 16})
    assert parts(built) == [2, 1] and len(built.program.kernels) == 2
    row = pk.check(with_sums, "cpp:cpu", M=pk.dynamic, N=64, D=16, E=16, dtype="f32", schedule={"split_k": 2, "n": 16}).rows[0]
    assert row.correct and row.error is None


@pytest.mark.parametrize("target", ["cuda:h100-sxm", "cuda:sm_80", "triton:h100-sxm", "hip:mi300x"])
def test_what_is_decoded_is_in_parts_where_a_device_would_idle(target: str) -> None:
    def of(**sizes: int) -> int:
        asked: dict[str, Any] = {"G": 4, "H": 8, "D": 128, **sizes}
        return parts(pk.build("attention", target=target, dtype="bf16", **asked))[0]

    assert of(B=1, SQ=1, SK=8192) >= 16, "8 blocks"
    assert of(B=1, SQ=1, SK=128) == 1, "over before a second kernel begins"
    assert of(B=16, SQ=2048, SK=2048) == 1, "thousands of blocks"


def test_features_that_are_reduced_keep_their_keys_together() -> None:
    sizes: dict[str, Any] = {"M": 4, "N": 8192, "D": 128, "E": 128}
    assert parts(pk.build(normed, target="cuda:h100-sxm", dtype="bf16", **sizes)) == [1]
    assert parts(pk.build(with_sums, target="cuda:h100-sxm", dtype="bf16", **sizes))[0] > 1
    with pytest.raises(ScheduleError, match="split_k=2: results are reduced along their features"):
        pk.build(normed, target="cpp:cpu", dtype="f32", **sizes, schedule={"split_k": 2, "n": 16}).source  # noqa: B018


def test_more_parts_than_tiles_of_keys() -> None:
    with pytest.raises(ScheduleError, match="has 5 tiles of 16, too few for split_k=6"):
        pk.build(with_sums, target="cpp:cpu", dtype="f32", M=4, N=75, D=16, E=16, schedule={"split_k": 6, "n": 16}).source  # noqa: B018
    tile = pk.build("attention", target="cuda:sm_80", dtype="bf16", B=1, H=8, G=4, SQ=1, SK=1024, D=128,
                    schedule={"sk": 256, "stages": 1})  # fmt: skip
    assert parts(tile) == [1], "a tile that is asked for leaves no parts"
