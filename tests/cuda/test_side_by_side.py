"""Products that make pieces of one array are one launch, whose blocks share their places in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import portakern as pk
from portakern.backend import Source
from portakern.backends.cuda.emitter import CudaEmitter
from portakern.backends.cuda.side_by_side import SideBySide
from portakern.registry import registry
from portakern.spec.operator import Operator
from portakern.study.steps import emission
from portakern.study.study import Runner
from portakern.study.work import Problem, Work, works

HOPPER = registry().target("cuda:sm_90a")
T = pk.Tensor


@pk.operator
def upsampled(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "O"], b: T["O"]):
    """Four phases of 4, 2, 2 and 1 taps, and their epilogue."""
    return pk.tanh(pk.conv(x, w, stride=2, padding=((1, 1), (1, 0)), transposed=True) + b)


@pk.operator
def volumes_upsampled(x: T["N", "C", "D", "H", "W"], w: T["C", "O", 3, 3, 3], b: T["O"]):
    """Eight phases over channels of volumes, whose pixels are found at words of the library inside the loops."""
    y = pk.conv(x, w, stride=2, padding=1, transposed=True, layout="NCHW")
    return pk.relu(y + pk.reshape(b, (1, -1, 1, 1, 1)))


@pk.operator
def one_after_the_other(x: T["M", "K"], v: T["K", "K"], w: T["K", "K"]):
    """The second piece is made of the first."""
    y = x @ v
    return pk.concat([y, pk.exp(y) @ w], axis=0)


def work(op: Operator, dims: Mapping[str, int], dtype: str = "f32") -> Work:
    (made,) = works(Problem(op, dims, {}), [HOPPER], [dtype])
    return replace(made, weights=("w",))


def emitted(made: Work) -> tuple[Source, list[SideBySide]]:
    found = emission(made)
    plan = CudaEmitter().plan(found.program, HOPPER)
    return found.source, [k for k in plan.kernels if isinstance(k, SideBySide)]


@pytest.mark.quick
def test_phases_are_parts_of_one_launch() -> None:
    source, (joined,) = emitted(work(upsampled, {"N": 2, "H": 9, "W": 7, "C": 5, "O": 6}))
    assert len(joined.parts) == 4 and len(source.launches) <= 2
    launch = next(x for x in source.launches if x.kernel == joined.name)
    blocks = [b for p in joined.parts if isinstance(b := p.blocks, int)]
    assert launch.grid[0] == sum(blocks), "channels lie last, so that each phase writes whole lines"
    assert 0 < launch.shared_bytes <= 2 * 2 * 4 * 16 * 20 * 2, "the parts' operands lie in the same place"
    assert f"blockIdx.x - {blocks[0]};" in source.text


@pytest.mark.quick
def test_phases_of_planes_are_parts_too() -> None:
    source, (*_, joined) = emitted(work(volumes_upsampled, {"N": 1, "C": 3, "D": 16, "H": 17, "W": 18, "O": 16}))
    assert len(joined.parts) == 8 and len(source.launches) <= 2
    assert "pk::kInside" in source.text
    blocks = [b for p in joined.parts if isinstance(b := p.blocks, int)]
    assert source.launches[-1].grid[0] == 8 * max(blocks), "they take turns, and some blocks of the smaller phases do nothing"
    assert "const uint32_t part = blockIdx.x % 8;" in source.text
    assert f"part == 7 && own_block < {blocks[7]}" in source.text


@pk.operator
def phases_with_functions(x: T["N", "C", "L"], w: T["C", "O", 3]):
    y = pk.conv(x, w, stride=2, padding=1, transposed=True, layout="NCHW")
    return y * pk.tanh(pk.log1p(pk.exp(y)))


@pytest.mark.quick
def test_long_phases_come_one_after_the_other() -> None:
    """Units would read the instructions of all of them."""
    source, (*_, joined) = emitted(work(phases_with_functions, {"N": 40, "C": 64, "L": 1000, "O": 64}))
    assert len(joined.parts) == 2 and not joined.turns
    assert "own_block" not in source.text


@pk.operator
def beside_a_long_one(x: T["M", "K"], y: T["P", "K"], w: T["K", "N"]):
    return pk.concat([x @ w, y @ w], axis=0)


@pytest.mark.quick
def test_parts_of_unlike_sizes_come_one_after_the_other() -> None:
    source, (joined,) = emitted(work(beside_a_long_one, {"M": 64, "P": 640, "K": 32, "N": 64}))
    first, second = (b for p in joined.parts if isinstance(b := p.blocks, int))
    assert source.launches[0].grid[0] == first + second and f"blockIdx.x < {first}" in source.text
    assert f"blockIdx.x - {first};" in source.text


@pytest.mark.quick
def test_a_piece_that_another_is_made_of_stays_apart() -> None:
    _, joined = emitted(work(one_after_the_other, {"M": 16, "K": 32}))
    assert not joined


@pytest.mark.parametrize(("op", "dims"), [
    (upsampled, {"N": 2, "H": 9, "W": 7, "C": 5, "O": 6}),
    (upsampled, {"N": 1, "H": 1, "W": 2, "C": 16, "O": 1}),
    (beside_a_long_one, {"M": 3, "P": 130, "K": 8, "N": 5}),
    (volumes_upsampled, {"N": 1, "C": 5, "D": 2, "H": 3, "W": 1, "O": 6}),
    (volumes_upsampled, {"N": 1, "C": 3, "D": 4, "H": 9, "W": 33, "O": 4}),  # which take turns
])  # fmt: skip
def test_they_compute_what_was_asked(op: Operator, dims: Mapping[str, int]) -> None:
    (row,) = Runner("checked", jobs=1).run([work(op, dims)]).rows
    assert row.correct and row.evidence == "interpreted", row.error
