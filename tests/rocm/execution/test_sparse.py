"""Sparse products of the AMD machine: where elements and indices lie, and which of several sets of indices is taken.

The formulas are those that AMD's calculator prints (test_machine_layouts.py asks it where it is at hand); CDNA 4, which it does
not know, holds twice as many elements a lane in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.rocm.execution.lanes_bench import execute, lanes_of

ml_dtypes = pytest.importorskip("ml_dtypes")
Array = np.ndarray


@dataclass(frozen=True)
class Sparse:
    """D (m x m) += A (m x k, of which half is held) B (k x m)."""

    mnemonic: str
    isa: str
    m: int
    k: int
    bits: int
    dtype: type
    word: str = ""
    """The modifier that names the set of indices, and which one it is."""
    index_set: int = 0

    @property
    def waves(self) -> int:
        return lanes_of(self.isa)

    def place(self, depth: int, k: int) -> tuple[int, int]:
        """(group of m lanes, element within a lane's) of depth ``k`` of a matrix that is held ``depth`` deep."""
        if self.isa == "gfx1201" and self.bits == 16:
            run = depth // 4
            return k // run % 2, k % run + k // (2 * run) * run
        held = depth * self.m // self.waves
        return k // held, k % held


F16, BF16, I8 = np.float16, ml_dtypes.bfloat16, np.int8
FNUZ, OCP = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e4m3fn
PRODUCTS = [
    Sparse("v_smfmac_f32_16x16x32_f16", "gfx942", 16, 32, 16, F16),
    Sparse("v_smfmac_f32_32x32x16_bf16", "gfx942", 32, 16, 16, BF16, "abid:3", 3),
    Sparse("v_smfmac_f32_32x32x16_f16", "gfx942", 32, 16, 16, F16, "cbsz:1 abid:3", 0),
    Sparse("v_smfmac_i32_16x16x64_i8", "gfx942", 16, 64, 8, I8, "abid:1", 1),
    Sparse("v_smfmac_f32_32x32x32_fp8_fp8", "gfx942", 32, 32, 8, FNUZ),
    Sparse("v_smfmac_f32_16x16x64_f16", "gfx950", 16, 64, 16, F16, "abid:1", 1),
    Sparse("v_smfmac_f32_32x32x32_bf16", "gfx950", 32, 32, 16, BF16),
    Sparse("v_smfmac_f32_16x16x128_fp8_fp8", "gfx950", 16, 128, 8, OCP),
    Sparse("v_smfmac_i32_32x32x64_i8", "gfx950", 32, 64, 8, I8),
    Sparse("v_swmmac_f32_16x16x32_f16", "gfx1201", 16, 32, 16, F16),
    Sparse("v_swmmac_f32_16x16x32_bf16", "gfx1201", 16, 32, 16, BF16, "index_key:1", 1),
    Sparse("v_swmmac_f32_16x16x32_fp8_fp8", "gfx1201", 16, 32, 8, OCP, "index_key:1", 1),
    Sparse("v_swmmac_i32_16x16x32_iu8", "gfx1201", 16, 32, 8, I8, "neg_lo:[1,1,0]", 0),
]


def insert(rows: Array, element: int, bits: int, lane: int, value: int) -> None:
    register, low = element * bits // 32, element * bits % 32
    rows[register, lane] = int(rows[register, lane]) & ~(((1 << bits) - 1) << low) & 0xFFFFFFFF | value << low


@pytest.mark.parametrize("p", PRODUCTS, ids=lambda p: f"{p.mnemonic}-{p.isa}-{p.word}")
def test_two_of_four_depths_are_held_and_named(p: Sparse) -> None:
    """Every pair of depths; what the other sets of indices say, and infinities in rows that no index names, play no part."""
    rng = np.random.default_rng(3)
    lanes, m, k = p.waves, p.m, p.k
    kept = np.sort(np.argsort(rng.random((m, k // 4, 4)))[..., :2])
    if not p.mnemonic.endswith("8"):  # one row of B that nobody names
        kept[:, 0] = np.where(kept[:, 0] == 3, 2, kept[:, 0])
        kept[:, 0, 0] = np.minimum(kept[:, 0, 0], 1)
    held = rng.integers(-3, 4, (m, k // 2)).astype(p.dtype)
    b = rng.integers(-3, 4, (k, m)).astype(p.dtype)
    a = np.zeros((m, k))
    np.put_along_axis(a.reshape(m, k // 4, 4), kept, held.astype(np.float64).reshape(m, k // 4, 2), -1)
    expected = a @ b.astype(np.float64)
    if p.dtype in (F16, BF16):
        b[3] = np.inf
    registers = [depth * m * p.bits // lanes // 32 for depth in (k // 2, k)]
    rows = [rng.integers(0, 2**32, (r, lanes), dtype=np.uint64).astype(np.uint32) for r in (*registers, 1)]
    raw = {id(x): np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}") for x in (held, b)}
    for depth in range(k // 2):
        group, element = p.place(k // 2, depth)
        for i in range(m):
            insert(rows[0], element, p.bits, m * group + i, int(raw[id(held)][i, depth]))
            mark = 16 * p.index_set if 2 * (k // 2 * m // lanes) == 16 else 8 * p.index_set
            insert(rows[2], element + mark // 2, 2, m * group + i, int(kept[i, depth // 2, depth % 2]))
    for depth in range(k):
        group, element = p.place(k, depth)
        for j in range(m):
            insert(rows[1], element, p.bits, m * group + j, int(raw[id(b)][depth, j]))
    whole = "_i32_" in p.mnemonic
    c = rng.integers(-9, 10, (m * m // lanes, lanes)).astype(np.int32 if whole else np.float32)
    inputs = {2 + r: rows[0][r] for r in range(registers[0])} | {20 + r: rows[1][r] for r in range(registers[1])}
    inputs |= {40: rows[2][0]} | {60 + r: c[r].view(np.uint32) for r in range(len(c))}
    body = (f"{p.mnemonic} v[60:{59 + len(c)}], v[2:{1 + registers[0]}], v[20:{19 + registers[1]}], v40 {p.word}\n"
            + "s_nop 15\n" * 4)  # fmt: skip
    found = np.array(execute(p.isa, body, inputs, range(60, 60 + len(c)))).view(c.dtype)
    for i in range(m):
        register, lane = rows_of_result(p, i)
        now, before = found[register, lane : lane + m], c[register, lane : lane + m]
        np.testing.assert_array_equal(now.astype(np.float64) - before, expected[i], err_msg=str(p))


def rows_of_result(p: Sparse, i: int) -> tuple[int, int]:
    if p.isa == "gfx1201":
        return i % 8, 16 * (i // 8)
    across = 64 // p.m
    return i % 4 + 4 * (i // 4 // across), p.m * (i // 4 % across)
