"""64-bit integers on TPUs against the oracle, with indices whose lower 32 bits would be others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
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


@operator
def bits(i: T["M", pk.i64], j: T["N", pk.i64]):
    """All bits of pairs of numbers: logic, shifts, sums with a carry, comparisons; turned, joined and looked up."""
    a, b = i[:, None], j
    shifted = [pk.shift_right(a ^ b, n) for n in (0, 1, 31, 32, 33, 63)] + [pk.shift_left(a, n) | b for n in (0, 7, 32, 60)]
    ordered = (a < b, a <= b, a > b, a >= b, a == b, a != b)
    smaller = pk.cast(a & b, pk.i32), pk.cast(a & b != 0, pk.i8)
    moved = pk.transpose(pk.where(a < b, a, b), (1, 0)), pk.concat([i & 0xF0F0F0F0F0, j], 0), a - pk.iota((1, 1), 0)
    return (a & b, a | 7, ~a ^ b, a + b, a - b, -a + 1, pk.maximum(a, b), pk.minimum(a, b), *shifted, *ordered, *smaller,
            *moved)  # fmt: skip


@operator
def bits_by_scalar(i: T["M", pk.i64], mask: pk.Scalar[pk.i64]):
    return i & mask, i < mask


CASES = [
    *((op, {"V": 7, "D": 3, "M": len(kinds.FAR)}) for op in (kinds.from_the_end, kinds.added, kinds.clipped)),
    (best_of, {"V": 40, "N": 130, "M": len(kinds.FAR)}), (squares, {"M": len(kinds.FAR)}),
    (counted, {"M": len(kinds.FAR)}), pytest.param(ordered, {"M": 2, "N": 11}, marks=pytest.mark.slow),
]  # fmt: skip


Arrays = dict[str, np.ndarray]


def interpreted(op: Any, dims: Mapping[str, int], *many: Arrays) -> Iterator[tuple[Arrays, Arrays]]:
    """What the kernels give, and the oracle, for each of several inputs."""
    target = registry().target("pallas:v5e")
    (work,) = works(Problem(op, dims, {}), [target], ["f32"])
    source, _ = steps.emitted(work, target, registry().language("pallas"))
    simulator = registry().language("pallas").simulator
    assert simulator is not None
    executable = simulator.load(source, None)
    for given in many:
        yield _ran(executable, given, evaluate(work.program, given))


def _ran(executable: Any, given: Arrays, want: Arrays) -> tuple[Arrays, Arrays]:
    found = {n: np.zeros(x.shape, np.float32 if x.dtype.kind == "f" else x.dtype) for n, x in want.items()}
    buffers = {n: HostBuffer(n, x.reshape(-1).view(np.uint8), 0, x.shape, x.dtype) for n, x in {**given, **found}.items()}
    executable.run(buffers, {})
    return found, want


@pytest.mark.parametrize(("op", "dims"), CASES, ids=lambda v: getattr(v, "name", "sizes"))
def test_int64(op: Any, dims: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    given: dict[str, np.ndarray] = {}
    for i in op.inputs:
        shape = tuple(dims[d] for d in i.spec.dims)
        given[i.name] = kinds.FAR if shape == kinds.FAR.shape else rng.standard_normal(shape).astype(np.float32)
    ((found, want),) = interpreted(op, dims, given)
    for name, x in want.items():
        assert x.dtype.kind != "i" or x.dtype == np.int64
        np.testing.assert_allclose(found[name], x, 1e-6, 1e-6, err_msg=name)


@operator
def drawn(x: T["M", "N"], seed: pk.Scalar[pk.i64]):
    """The upper bits as numbers, of the seed and of others that follow from it."""
    seeds = (seed, seed + (3 << 32), seed + 12345678901)
    return tuple(x * 0 + pk.uniform(s, x.shape, 0, 2**24) for s in seeds)


def test_bits_are_those_of_all_64_bits_of_a_seed() -> None:
    seeds = (7, -1, 2**32 - 1, 2**40 + 123, -(2**63), 2**63 - 12345678902)
    x = np.zeros((3, 45), np.float32)
    for found, want in interpreted(drawn, {"M": 3, "N": 45}, *({"x": x, "seed": np.array(seed)} for seed in seeds)):
        assert len({line.tobytes() for line in want.values()}) == 3
        for name, line in want.items():
            assert (found[name] == line).all(), name


def test_all_64_bits() -> None:
    ends = (0, 1, -1, 2**31, 2**31 - 1, -(2**31), 2**32, 2**32 - 1, -(2**32), 2**63 - 1, -(2**63), 1 << 40, -(1 << 40) - 5)
    far = np.concatenate([np.array(ends), np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 20)])
    ((found, want),) = interpreted(bits, {"M": len(far), "N": 30}, {"i": far, "j": np.roll(far[:30], 4)})
    for name, x in want.items():
        np.testing.assert_array_equal(found[name], x, err_msg=name)
    ((found, want),) = interpreted(bits_by_scalar, {"M": len(far)}, {"i": far, "mask": np.array(-(1 << 35) + 77)})
    for name, x in want.items():
        np.testing.assert_array_equal(found[name], x, err_msg=name)
