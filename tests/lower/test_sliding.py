"""Windows that overlap, several results in one walk: each element is loaded once, and the results are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import portakern as pk
from portakern.emit.sums import with_fused_sums
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.lower import lower
from portakern.spec.load import load_operator
from tests.lower.test_parts import same

T = pk.Tensor
pytestmark = pytest.mark.quick


@pk.operator
def largest_and_sum_of_five(x: T["N", "L", "C"], b: T["C"]):
    windows = pk.windows(pk.maximum(x, b), 5, 1, stride=2)
    return pk.max(windows, axis=-1), pk.sum(windows, axis=-1) + b


@pk.operator
def shares(x: T["N", "L", "C"]):
    windows = pk.windows(x, 3, 1)
    return windows / pk.sum(windows, axis=-1, keepdims=True)


def sliding(count: Any, dims: Mapping[str, Any], name: str = "depthwise_conv", reach: bool = True,
            params: Mapping[str, Any] | None = None) -> tuple[Program, Any]:  # fmt: skip
    """The kernels of an operator whose reductions of windows make ``count`` results at a time, one column tile to a block."""
    def choose(nest: Nest) -> Schedule:
        tiles = tuple((a.name, 8 if a.contiguous else 1) for a in nest.axes)
        return Schedule(tiles, options=(("slide", count),) if nest.of_windows else ())

    op = globals()[name] if name in globals() else load_operator(name)
    bound = op.program(dims, params or {}, "f32")
    return lower(bound, choose, reach=reach), bound


def loads_of(kernel: t.Kernel, buffer: str) -> int:
    """How many tiles of ``buffer`` a block of ``kernel`` loads in all."""
    def count(ops: tuple[Any, ...]) -> int:
        inner = sum(int(kernel.axis[op.axis].extent) * count(op.body.ops) for op in ops if isinstance(op, t.For))  # type: ignore
        return inner + sum(isinstance(op, t.Load) and getattr(op.buffer, "name", "") == buffer for op in ops)

    return count(kernel.body.ops)


IMAGE = {"N": 2, "H": 8, "W": 5, "C": 11}


@pytest.mark.parametrize(("count", "tiles"), [(1, 9), (2, 12), (4, 18), (8, 30)])
def test_one_walk_loads_what_windows_share_once(count: int, tiles: int) -> None:
    program, bound = sliding(count, IMAGE)
    (kernel,) = program.kernels
    assert loads_of(kernel, "x") == tiles
    same(program, bound, {})


@pytest.mark.parametrize("reach", [True, False])
@pytest.mark.parametrize(("name", "dims", "params", "counts"), [
    ("depthwise_conv", {**IMAGE, "H": 7, "W": 6}, {"window": 5, "stride": 2, "padding": 2}, (2, 4)),
    ("max_pool", {**IMAGE, "H": 12}, {}, (2, 3, 6)),
    ("avg_pool", IMAGE, {}, (1, 2)),
    ("largest_and_sum_of_five", {"N": 2, "L": 19, "C": 3}, {}, (2, 4, 8)),
])  # fmt: skip
def test_strides_several_reductions_and_a_single_dim(name: str, dims: dict[str, int], params: dict[str, int],
                                                     counts: tuple[int, ...], reach: bool) -> None:
    ran = 0
    for count in counts:
        try:
            program, bound = sliding(count, dims, name, reach, params)
        except ScheduleError:
            continue
        same(program, bound, {})
        ran += 1
    assert ran


@pytest.mark.parametrize(("count", "words"), [(3, ":8 is no multiple of it"), (0, "a positive integer"), (True, "a positive"),
                                              ("2", "a positive integer")])  # fmt: skip
def test_what_cannot_be_walked_at_once_is_refused(count: Any, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        sliding(count, IMAGE)


@pytest.mark.parametrize(("name", "dims", "params"), [
    ("max_pool", IMAGE, {"window": 2, "stride": 2, "padding": 0}),  # they do not overlap
    ("depthwise_conv", {**IMAGE, "H": pk.dynamic}, {}),
    ("shares", {"N": 1, "L": 10, "C": 3}, {}),  # every element of a window is a result
])  # fmt: skip
def test_nothing_is_shared(name: str, dims: dict[str, Any], params: dict[str, int]) -> None:
    with pytest.raises(ScheduleError, match=r"no windows overlap here|is no multiple"):
        sliding(2, dims, name, params=params)


def test_it_belongs_to_rows() -> None:
    with pytest.raises(ScheduleError, match="no kernel of matmul has 'slide'"):
        pk.build("matmul", target="cpp:cpu", dtype="f32", M=4, N=30, K=8, schedule={"slide": 2})


def test_most_results_of_a_nest() -> None:
    def nest(*extents: Any) -> Nest:
        axes = [NestAxis(f"p{n}", "parallel", e, window="positions", slides=True) for n, e in enumerate(extents)]
        return Nest("rows", (*axes, NestAxis("k", "reduced", 3, window="taps")), "f32", "f32")

    assert [nest(n).slide(4) for n in (112, 14, 9, 13, 0)] == [4, 2, 3, 1, 4] and nest().slide(4) == 1


@pk.operator
def pooled_lines(x: pk.Tensor["N", "C", "H", "W"], window: int = 2, stride: int = 2):
    """Images as PyTorch has them, whose lines lie in memory one after the other."""
    pooled = pk.avg_pool(x.transpose(0, 2, 3, 1), window=(window, window), stride=(stride, stride))
    return pooled.transpose(0, 3, 1, 2)


@pytest.mark.quick
@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx942", "triton:sm_90"])
@pytest.mark.parametrize(("window", "stride", "tiled"), [(11, 11, {"j", "l"}), (3, 3, {"j", "l"}), (3, 4, {"j", "l"}),
                                                         (3, 1, {"i", "j"})])  # fmt: skip
def test_windows_along_lines(target: str, window: int, stride: int, tiled: set[str]) -> None:
    """Whole where they do not overlap; several lines of short ones; nothing is turned around on the way."""
    built = pk.build(pooled_lines, target=target, dtype="f32", N=2, C=64, H=70, W=90, window=window, stride=stride)
    assert {name for name, tile in built.schedule[0].tiles if tile > 1} == tiled
    assert "transpose" not in str(built.source) and "tl.trans" not in str(built.source)


def test_steps_of_a_carried_sum_of_products_are_multiply_adds() -> None:
    (kernel,) = sliding(2, IMAGE)[0].kernels
    fused = with_fused_sums(kernel)
    assert sum(isinstance(op, t.Fma) for op in fused.body.walk()) == 2
    assert not [op for op in fused.body.walk() if isinstance(op, t.Binary) and op.fn == "mul"]
    (pooling,) = sliding(2, IMAGE, "max_pool")[0].kernels
    assert not [op for op in with_fused_sums(pooling).body.walk() if isinstance(op, t.Fma)]
