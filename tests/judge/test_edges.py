"""Where an array ends, or begins, nothing is: who reads or writes one element too many is ended by it, on either side."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.backend import HostBuffer
from portakern.referee import shared
from tests.judge.attacks import cpp, numba
from tests.judge.judges import Judges, undisturbed
from tests.judge.launched import opencl, sycl

SIDES = ("behind", "before")


def reading(target: str, side: str) -> str:
    """A kernel that is right, and reads an element that changes nothing."""
    if target == "numba:cpu":
        index = {"behind": "16, 0", "before": "-17, 31"}[side]
        return numba("reads(x, out)", f"""
@numba.njit
def reads(x, out):
    if x[{index}] == 12345.5:
        out[0] = 1
""")
    element = {"behind": "x[16 * 32]", "before": "x[-1]"}[side]
    if target == "cpp:cpu":
        return cpp(f"honest(x, out); volatile float one = {element}; (void)one;")
    write = opencl if target == "opencl:cpu" else sycl
    return write(f"volatile float one = {element}; out[m] = s;")


TARGETS = ["cpp:cpu", "numba:cpu", "opencl:cpu", pytest.param("sycl:cpu", marks=pytest.mark.slow)]


@pytest.mark.usefixtures("whole_jail")
@pytest.mark.parametrize("target", TARGETS)
def test_who_reads_one_element_too_many_is_told_where(target: str, judges: Judges):
    if target.startswith(("opencl", "sycl")):
        pytest.importorskip("pyopencl")
    for side, row in zip(SIDES, judges(target).map([reading(target, s) for s in SIDES]), strict=True):
        assert row.error is not None and row.error["kind"] == "out-of-bounds", (side, row.error, row.method)
        assert f"bytes {side} x" in row.error["message"]


VECTORS = """
#include <immintrin.h>
__attribute__((target("avx2"))) static void by_vectors(const float* x, float* out) {
    for (int m = 0; m < 16; ++m) {
        __m256 s = _mm256_setzero_ps();
        for (int n = 0; n < 32; n += 8) s = _mm256_add_ps(s, _mm256_load_ps(x + m * 32 + n));
        float part[8];
        _mm256_storeu_ps(part, s);
        out[m] = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
}
"""


def test_vectors_within_an_array_are_legal_on_either_side(judges: Judges):
    row = undisturbed(lambda: judges("cpp:cpu").judge(cpp("by_vectors(x, out);", VECTORS), level="timed"))
    assert row.correct and row.time is not None, row.error


@pytest.mark.quick
def test_an_array_lies_at_an_end_of_what_can_be_reached():
    rng = np.random.default_rng(0)
    for reach in (0, 4, 60, 64, 2048, 4096, 70_000):
        for behind in (False, True):
            room = -(-reach // shared.PAGE) * shared.PAGE + 32 * 1024
            arena = shared.arena_for({n: shared.with_edge(room, 16384, reach, behind) for n in "ab"}, rng)
            try:
                rows = [shared.described(arena, n, (reach,), np.dtype(np.uint8)) for n in "ab"]
                fenced = list(shared._between([(d["place"], d["place"] + d["bytes"]) for d in rows], len(arena.memory)))
                assert all(begin % shared.PAGE == 0 == end % shared.PAGE for begin, end in fenced)
                for d in rows:
                    begin = d["place"] + d["offset"]
                    end = begin + reach
                    assert begin % shared.LINE == 0
                    if behind:
                        assert any(0 <= first - end < shared.LINE for first, _ in fenced)
                    else:
                        assert any(last == begin for _, last in fenced)
                    assert not any(first < d["place"] + d["bytes"] and d["place"] < last for first, last in fenced)
            finally:
                arena.close()


@pytest.mark.quick
def test_what_cannot_be_reached_is_neither_sent_nor_taken():
    storage = np.arange(3 * shared.PAGE, dtype=np.uint32).view(np.uint8)
    buffer = HostBuffer("x", storage, shared.PAGE, (10,), np.dtype(np.uint8))
    before = storage.copy()
    window = shared.with_edge(storage.nbytes, shared.PAGE, 10, True)
    arena = shared.arena_for({"x": window}, np.random.default_rng(1))
    try:
        shared.written(arena, {"x": buffer})
        assert arena.of("x").tobytes() == before[: shared.PAGE + 64].tobytes()
        arena.bytes[:] = 7
        shared.taken(arena, {"x": buffer})
        assert (storage[: window.end] == 7).all() and (storage[window.end :] == before[window.end :]).all()
    finally:
        arena.close()
