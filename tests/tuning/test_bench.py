"""The coarse test that keeps wrong candidates out of the race, and a race on the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portakern.api import one
from portakern.ir.oracle import static
from portakern.ir.tensor import tensor_type
from portakern.registry import registry
from portakern.study import steps
from portakern.tuning.bench import LOOKED_AT, CompiledCandidate, _part, admit, differs, race
from portakern.tuning.space import space_of
from portakern.tuning.tuner import nests_of
from tests.tuning.bench import work_of


def values(n: int = 1000) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(n).astype(np.float32)


def test_rounding_passes_and_wrong_elements_do_not():
    x = values()
    assert differs(x.copy(), x) == ""
    assert differs(x + np.float32(1e-3), x) == ""
    y = x.copy()
    y[17] += 1
    assert differs(y, x).startswith("1 of 1 ")
    y[:] = np.nan
    assert differs(y, x)


def test_large_differences_everywhere_are_seen_from_a_part():
    x = values(4 * LOOKED_AT)
    assert differs(np.zeros_like(x), x)


def test_what_is_not_finite_must_agree():
    x = values()
    x[3], x[5] = np.inf, np.nan
    assert differs(x.copy(), x) == ""
    y = x.copy()
    y[3] = -np.inf
    assert differs(y, x)


@pytest.mark.parametrize(("name", "dims", "smaller"), [
    ("matmul", {"M": 8192, "N": 8192, "K": 4096}, "a"),
    ("softmax", {"M": 8192, "N": 8192}, "x"),
    ("transpose", {"M": 8192, "N": 8192}, "x"),
])  # fmt: skip
def test_a_part_of_a_large_output_has_the_same_schedule(name: str, dims: dict[str, int], smaller: str):
    work = work_of(name, "cuda:h200", **dims)  # pyright: ignore[reportArgumentType]
    space = space_of(nests_of(work), registry().language("cuda"), one("cuda:h200").device)
    for point in space.listed():
        part = _part(replace(work, chosen=space.chosen(point)))
        assert part is not None
        source, _ = steps.emit(part)
        assert source.schedule == point
        (shape,) = (static(tensor_type(a).shape) for a in part.program.args if a.name == smaller)
        assert shape[0] * shape[1] < 8192 * 4096


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_a_race_on_the_host(dtype: str):
    work = work_of("row_sum", "numba:cpu", dtype, M=16, N=200)
    made = steps.build(work)
    assert made.source is not None, made.row.error
    first = CompiledCandidate("0", made.source, made.binary_key)
    admit(work, first, first)
    raced = race(work, first, [first, CompiledCandidate("1", made.source, made.binary_key)], 6)
    assert raced.error is None and {n: len(x) for n, x in raced.samples.items()} == {"0": 6, "1": 6}
    assert raced.mode.startswith("cold")
