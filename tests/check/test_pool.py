"""Inputs that are kept for more kernels than one: what that saves, and what it does not give away."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.check.expected import expected
from portakern.check.hidden import check_hidden
from portakern.check.pool import SETS, USES, Pool
from portakern.referee.secret import Secret
from portakern.spec.load import load_operator

pytestmark = pytest.mark.quick

PROGRAM = load_operator("softmax").program({"M": 8, "N": 64}, {}, "f32")


class Kernel:
    """A softmax, right or without its maximum; with ``known`` it answers what was seen before as a right one would."""

    guards = True

    def __init__(self, right: bool, known: dict[bytes, np.ndarray] | None = None) -> None:
        self.right, self.known = right, known
        self.runs = 0

    def run(self, buffers, sizes) -> None:
        self.runs += 1
        x = buffers["x"].array.astype(np.float64)
        with np.errstate(all="ignore"):
            e = np.exp(x - x.max(-1, keepdims=True)) if self.right else np.exp(x.astype(np.float32))
            found = (e / e.sum(-1, keepdims=True)).astype(np.float32)
        key = buffers["x"].array.tobytes()
        if self.known is not None and self.right:
            self.known[key] = found
        elif self.known is not None:
            found = self.known.get(key, found)
        buffers["out"].array[...] = found

    def call(self, inputs, sizes):
        raise NotImplementedError


def judged(kernel: Kernel, pool: Pool | None):
    return check_hidden(kernel, PROGRAM, secret=Secret.drawn(), pool=pool)


def test_what_is_expected_is_computed_once_for_some_kernels():
    pool = Pool(worth_s=0.0)
    for _ in range(SETS + 4):
        assert judged(Kernel(True), pool).correct
    stages = pool.made // SETS
    assert stages > 5 and pool.made == SETS * stages and pool.lent == 4 * stages
    assert not judged(Kernel(False), pool).correct


def test_a_set_is_given_up_after_a_few_uses():
    pool, seen = Pool(worth_s=0.0), {}
    for _ in range(4 * SETS * USES):
        found = pool.take("stage", lambda seed: {"x": np.array([seed % 1000003])}, lambda inputs: {})
        assert found is not None
        seen[id(found)] = found
    assert max(k.uses for k in seen.values()) == USES and len(seen) >= 4 * SETS


def test_who_remembers_what_others_found_is_caught_by_what_is_new():
    """The others told it everything; most of what it finds it knows by heart."""
    known: dict[bytes, np.ndarray] = {}
    caught = 0
    for _ in range(20):
        pool = Pool(worth_s=0.0)
        for _ in range(SETS):
            judged(Kernel(True, known), pool)
        verdict = judged(Kernel(False, known), pool)
        assert all("in parts" in s or "part [" in s for f in verdict.failures for s in [f.stage]), verdict.failures
        caught += not verdict.correct
    assert caught > 0


def test_small_programs_share_nothing():
    pool = Pool()
    for _ in range(3):
        judged(Kernel(True), pool)
    assert pool.made == pool.lent == 0


def test_memory_is_bounded():
    x = np.zeros(1 << 10)
    program = load_operator("add_relu").program({"M": 8, "N": 64}, {}, "f32")
    inputs = {"a": np.zeros((8, 64), np.float32), "b": np.zeros((8, 64), np.float32)}
    pool = Pool(worth_s=0.0, most_bytes=4 * x.nbytes)
    for key in range(50):
        pool.take(key, lambda seed: inputs, lambda given: expected(program, given))
    assert sum(k.bytes for sets in pool._kept.values() for k in sets) <= 4 * x.nbytes
