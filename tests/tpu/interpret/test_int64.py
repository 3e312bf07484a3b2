"""64-bit integers on TPUs against the oracle, with indices whose lower 32 bits would be others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.backend import HostBuffer
from portakern.ir.oracle import evaluate
from portakern.registry import registry
from portakern.spec.operator import operator
from portakern.study import steps
from portakern.study.work import Problem, works
from tests.lower import test_saturation as kinds
from tests.tpu.planning.test_int64_arrays import best_of, squares

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")
T = pk.Tensor


@operator
def ordered(x: T["M", "N"]):
    """Sorts and searches give places."""
    values, places = pk.topk(x, 3, axis=1)
    found = pk.searchsorted(pk.iota((9,), 0) * 0.25 - 1.0, x)
    return values, pk.cast(places, pk.i64), pk.cast(pk.argsort(x, axis=1), pk.i64), pk.cast(found, pk.i64)


@operator
def counted(i: T["M", pk.i64]):
    """A histogram, and one hot."""
    hot = i[:, None] == pk.cast(pk.iota((i.shape[0], 7), 1), pk.i64)
    return pk.cast(pk.bincount(i, 7), pk.i64), pk.cast(hot, pk.i64)


CASES = [
    *((op, {"V": 7, "D": 3, "M": len(kinds.FAR)}) for op in (kinds.from_the_end, kinds.added, kinds.clipped)),
    (best_of, {"V": 40, "N": 130, "M": len(kinds.FAR)}), (squares, {"M": len(kinds.FAR)}),
    (counted, {"M": len(kinds.FAR)}), pytest.param(ordered, {"M": 2, "N": 11}, marks=pytest.mark.slow),
]  # fmt: skip


Arrays = dict[str, np.ndarray]


def interpreted(op: Any, dims: Mapping[str, int], given: Arrays) -> tuple[Arrays, Arrays]:
    """What the kernels give, and the oracle."""
    target = registry().target("pallas:v5e")
    (work,) = works(Problem(op, dims, {}), [target], ["f32"])
    source, _ = steps.emitted(work, target, registry().language("pallas"))
    want = evaluate(work.program, given)
    found = {n: np.zeros(x.shape, np.int64 if x.dtype.kind == "i" else np.float32) for n, x in want.items()}
    buffers = {n: HostBuffer(n, x.reshape(-1).view(np.uint8), 0, x.shape, x.dtype) for n, x in {**given, **found}.items()}
    simulator = registry().language("pallas").simulator
    assert simulator is not None
    simulator.load(source, None).run(buffers, {})
    return found, want


@pytest.mark.parametrize(("op", "dims"), CASES, ids=lambda v: getattr(v, "name", "sizes"))
def test_int64(op: Any, dims: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    given: dict[str, np.ndarray] = {}
    for i in op.inputs:
        shape = tuple(dims[d] for d in i.spec.dims)
        given[i.name] = kinds.FAR if shape == kinds.FAR.shape else rng.standard_normal(shape).astype(np.float32)
    found, want = interpreted(op, dims, given)
    for name, x in want.items():
        assert x.dtype.kind != "i" or x.dtype == np.int64
        np.testing.assert_allclose(found[name], x, 1e-6, 1e-6, err_msg=name)
