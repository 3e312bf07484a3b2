"""A simulated kernel that takes too long as a whole is checked by some of its blocks, which are not believed more than all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.backend import HostBuffer, RunsBlocks
from portakern.check import blocks, sampled
from portakern.check.blocks import check_blocks
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.study import Runner
from portakern.study.table import evidence_text
from portakern.study.work import Problem, works

T = pk.Tensor
TILE = 16


@pk.operator
def product(a: T["M", "K"], b: T["K", "N"]):
    return pk.matmul(a, b), pk.argmax(a, axis=1)


Spoil = Callable[[np.ndarray, int], None]


class Tiles:
    """Blocks of a tile each, those of the first column with the rows' largest index; ``spoil`` is given the tile of each."""

    guards = True

    def __init__(self, spoil: Spoil | None = None) -> None:
        self.spoil, self.ran = spoil, list[int]()

    def blocks(self, sizes: Mapping[str, int]) -> int:
        return 35

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        self.run_blocks(range(35), buffers, sizes)

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any: ...

    def run_blocks(self, blocks: Sequence[int], buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int],
                   seconds: float = math.inf) -> int:  # fmt: skip
        a, b = (buffers[n].array for n in ("a", "b"))
        out, largest = (x.array for n, x in buffers.items() if n not in ("a", "b"))
        for place in blocks[:9]:
            self.ran.append(place)
            rows, columns = (slice(TILE * i, TILE * (i + 1)) for i in divmod(place, 5))
            out[rows, columns] = a[rows] @ b[:, columns]
            if place % 5 == 0:
                largest[rows] = a[rows].argmax(1)
            if self.spoil is not None:
                self.spoil(out[rows, columns], place)
        return min(9, len(blocks))


def checked(spoil: Spoil | None = None) -> tuple[sampled.Sampled, Tiles]:
    tiles = Tiles(spoil)
    assert isinstance(tiles, RunsBlocks)
    found = check_blocks(tiles, product.program({"M": 7 * TILE - 3, "K": 40, "N": 5 * TILE - 1}, {}, "f32"))
    assert found is not None
    return found, tiles


@pytest.mark.quick
def test_blocks_that_are_right_are_right_and_the_share_is_told():
    found, tiles = checked()
    assert found.verdict.correct and 0 < found.verdict.max_error_ratio <= 1
    assert found.part is not None and 0.2 < found.part < 0.3
    assert "9 of 35 blocks ran" in found.method and "nothing is said of the others" in found.method
    first, again = tiles.ran[:9], tiles.ran[9:]
    assert first == again and {0, 34} <= set(first)


def one_element(tile: np.ndarray, place: int) -> None:
    tile[3 % len(tile), 0] += 1e-3


def what_was_there(tile: np.ndarray, place: int, before: list[float] = []) -> None:  # noqa: B006
    before.append(0.0)
    tile[0, 0] = len(before)


def not_all(tile: np.ndarray, place: int) -> None:
    tile[:] = np.float32(np.nan)


@pytest.mark.quick
@pytest.mark.parametrize("spoil", [one_element, what_was_there, not_all])
def test_blocks_that_are_wrong_are_found(spoil: Spoil):
    found, _ = checked(spoil)
    assert not found.verdict.correct


@pytest.mark.quick
def test_what_writes_nothing_or_cannot_run_alone_is_not_checked_so(monkeypatch: pytest.MonkeyPatch):
    program = product.program({"M": 7 * TILE, "K": 40, "N": 5 * TILE}, {}, "f32")
    tiles = Tiles()
    monkeypatch.setattr(tiles, "run_blocks", lambda blocks, buffers, sizes, seconds=0.0: len(blocks))
    assert check_blocks(tiles, program) is None
    monkeypatch.setattr(tiles, "blocks", lambda sizes: 0)
    assert check_blocks(Tiles(), program) is not None and check_blocks(tiles, program) is None


@pytest.mark.parametrize(("target", "operator", "dims"), [
    ("hip:gfx942", "matmul", {"M": 300, "N": 520, "K": 64}), ("hip:gfx1201", "softmax", {"M": 700, "N": 33}),
    ("cuda:sm_80", "layer_norm", {"M": 70, "N": 130})])  # fmt: skip
def test_blocks_of_kernels_run_alone(target: str, operator: str, dims: dict[str, int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampled, "affordable", lambda program: False)
    monkeypatch.setattr(blocks, "BLOCKS", 2)
    (work,) = works(Problem(load_operator(operator), dims, {}), [registry().target(target)], ["f32"])
    made = steps.build(work)
    if made.row.error is not None:
        pytest.skip(f"needs what compiles for {target}: {made.row.error['message']}")
    row = steps.check(work, made, full=False)
    assert row.correct and row.part is not None and 0 < row.part < 1, row.error
    assert "2 of" in (row.method or "") and evidence_text(row).endswith("ed in part")
    assert steps.check(work, made).part is None


def test_several_launches_need_each_other():
    """A product in parts: the second kernel adds what the first one left."""
    (work,) = works(Problem(load_operator("matmul"), {"M": 64, "N": 64, "K": 512}, {}), [registry().target("hip:gfx942")],
                    ["f32"], schedule={"split_k": 4})  # fmt: skip
    made = steps.build(work)
    assert made.row.error is None and steps.loaded(work, made).blocks({}) == 0  # type: ignore[attr-defined]


def test_what_a_simulator_does_not_end_is_told_what_to_do():
    """2048^3 multiply-adds are minutes of any processor that simulates; half a second is not enough on a fast one either."""
    problem = Problem(load_operator("matmul"), {"M": 2048, "N": 2048, "K": 2048}, {})
    asked = works(problem, [registry().target("hip:gfx942")], ["f32"])
    (row,) = Runner("checked", 1, check_limit_s=0.5).run(asked).rows
    if row.error is not None and row.error["kind"] == "tool-missing":
        pytest.skip(f"needs what compiles for AMD: {row.error['message']}")
    assert row.error is not None and row.error["kind"] == "timeout" and "compare" in row.error["hint"], row.error
