"""MFMA and WMMA of the AMD machine: where each element lies, against formulas of AMD's documents, and the products.

The formulas here are written element by element, the machine's row by row.  test_machine_layouts.py asks AMD's own calculator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.rocm.execution.lanes_bench import execute, lanes_of

pytestmark = pytest.mark.quick

ml_dtypes = pytest.importorskip("ml_dtypes")
Array = np.ndarray
Place = tuple[int, int, int]  # register, lane, element within the register


@dataclass(frozen=True)
class Matrix:
    """One instruction: D (m x n) = A (m x k) B (k x n) + C in ``blocks`` blocks."""

    mnemonic: str
    isa: str
    m: int
    k: int
    blocks: int
    dtype: str
    other: str = ""  # dtype of B where it differs

    @property
    def bits(self) -> int:
        return {"f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "f64": 64}.get(self.dtype, 8)

    def per_register(self) -> int:
        return max(1, 32 // self.bits)

    def input_place(self, i: int, k: int, block: int) -> Place:
        """Of A[i][k]; B[k][j] lies alike (CDNA3 ISA 7.1.4)."""
        held = self.m * self.k * self.blocks // 64
        element = k % held
        register = element // self.per_register() if self.bits <= 32 else 2 * element
        return register, i + self.m * (block + self.blocks * (k // held)), element % self.per_register()

    def output_place(self, i: int, j: int, block: int) -> Place:
        """Of D[i][j] (CDNA3 ISA 7.1.4; AMD's calculator prints these terms for each shape)."""
        if self.dtype == "f64":
            if self.m == 16:
                return 2 * (i // 4), 16 * (i % 4) + j, 0
            return 0, 16 * i + 4 * block + j, 0
        if self.m == 32:
            return 16 * block + 4 * (i // 8) + i % 4, 32 * (i // 4 % 2) + j, 0
        if self.m == 16:
            return 4 * block + i % 4, 16 * (i // 4) + j, 0
        return i, 4 * block + j, 0


def _names(shape: str, blocks: int, dtype: str, isa: str) -> str:
    result = "i32" if dtype == "i8" else "f64" if dtype == "f64" else "f32"
    if isa == "gfx90a":
        return f"v_mfma_{result}_{shape}{dtype}" + "_1k" * (dtype == "bf16")
    return f"v_mfma_{result}_{shape}" + (f"_{blocks}b" if blocks > 1 else "") + f"_{dtype}"


def _all() -> list[Matrix]:
    found = []
    for isa in ("gfx90a", "gfx942"):
        for m, k, b in ((32, 1, 2), (16, 1, 4), (4, 1, 16), (32, 2, 1), (16, 4, 1)):
            found.append(Matrix(_names(f"{m}x{m}x{k}", b, "f32", isa), isa, m, k, b, "f32"))
        for dtype in ("f16", "bf16"):
            for m, k, b in ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1)):
                found.append(Matrix(_names(f"{m}x{m}x{k}", b, dtype, isa), isa, m, k, b, dtype))
        last = ((32, 8, 1), (16, 16, 1)) if isa == "gfx90a" else ((32, 16, 1), (16, 32, 1))
        for m, k, b in ((32, 4, 2), (16, 4, 4), (4, 4, 16), *last):
            found.append(Matrix(_names(f"{m}x{m}x{k}", b, "i8", isa), isa, m, k, b, "i8"))
        for m, b in ((16, 1), (4, 4)):
            found.append(Matrix(_names(f"{m}x{m}x4", b, "f64", isa), isa, m, 4, b, "f64"))
    for m, k, b in ((32, 2, 2), (16, 2, 4), (4, 2, 16), (32, 4, 1), (16, 8, 1)):
        found.append(Matrix(f"v_mfma_f32_{m}x{m}x{k}bf16", "gfx90a", m, k, b, "bf16"))
    for isa in ("gfx942", "gfx950"):
        for a in ("fp8", "bf8"):
            for b in ("fp8", "bf8"):
                found.append(Matrix(f"v_mfma_f32_16x16x32_{a}_{b}", isa, 16, 32, 1, a, b))
                found.append(Matrix(f"v_mfma_f32_32x32x16_{a}_{b}", isa, 32, 16, 1, a, b))
    found += [Matrix("v_mfma_f32_16x16x8_xf32", "gfx942", 16, 8, 1, "xf32"),
              Matrix("v_mfma_f32_32x32x4_xf32", "gfx942", 32, 4, 1, "xf32")]  # fmt: skip
    for dtype in ("f16", "bf16"):
        found += [Matrix(f"v_mfma_f32_16x16x32_{dtype}", "gfx950", 16, 32, 1, dtype),
                  Matrix(f"v_mfma_f32_32x32x16_{dtype}", "gfx950", 32, 16, 1, dtype)]  # fmt: skip
    found += [Matrix("v_mfma_i32_16x16x64_i8", "gfx950", 16, 64, 1, "i8"),
              Matrix("v_mfma_i32_32x32x32_i8", "gfx950", 32, 32, 1, "i8")]  # fmt: skip
    return found


MATRICES = _all()
_STORED = {
    "f32": np.float32,
    "xf32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "f64": np.float64,
}


def stored(dtype: str, isa: str) -> type:
    fnuz = isa == "gfx942"
    small = {
        "fp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz),
        "bf8": (ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz),
    }
    return small[dtype][fnuz] if dtype in small else _STORED[dtype]


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, isa: str) -> Array:
    """Small whole numbers, which every format holds and whose products every order of sums gives exactly."""
    return rng.integers(-4, 5, shape).astype(stored(dtype, isa))


def pack(values: Array, place: Callable[[int, int, int], Place], registers: int, bits: int, lanes: int) -> list[Array]:
    """``values[row, column, block]`` into registers."""
    unit = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    raw = values.view(unit)
    out = np.zeros((registers, lanes, max(1, 32 // bits)), np.uint32 if bits == 64 else unit)
    for (x, y, b), value in np.ndenumerate(raw):
        register, lane, element = place(x, y, b)
        if bits == 64:
            out[register, lane, 0], out[register + 1, lane, 0] = int(value) & 0xFFFFFFFF, int(value) >> 32
        else:
            out[register, lane, element] = value
    return [np.ascontiguousarray(r).view(np.uint32).reshape(-1) for r in out]


def groups(count: int, start: int) -> str:
    return f"v[{start}:{start + count - 1}]" if count > 1 else f"v{start}"


def run_mfma(x: Matrix, a: Array, b: Array, c: Array, modifiers: str = "") -> Array:
    """D[i, j, block] of A[i, k, block], B[j, k, block] and C."""
    wide = x.bits == 64
    held = 2 if wide else max(1, x.m * x.k * x.blocks // 64 * x.bits // 32)
    kept = x.m * x.m * x.blocks // 64 * (2 if wide else 1)
    inputs: dict[int, Array] = {}
    for start, matrix in ((2, a), (20, b)):
        inputs |= {start + n: r for n, r in enumerate(pack(matrix, x.input_place, held, x.bits, 64))}
    inputs |= {40 + n: r for n, r in enumerate(pack(c, x.output_place, kept, 64 if wide else 32, 64))}
    body = (
        f"{x.mnemonic} {groups(kept, 100)}, {groups(held, 2)}, {groups(held, 20)}, {groups(kept, 40)} {modifiers}\n"
        + "s_nop 15\n" * 4
    )
    found = np.array(execute(x.isa, body, inputs, range(100, 100 + kept)))
    d = np.empty(c.shape, c.dtype)
    for i, j, block in np.ndindex(*c.shape):
        register, lane, _ = x.output_place(i, j, block)
        word = (
            found[register, lane] if not wide else found[register, lane] | np.uint64(found[register + 1, lane]) << np.uint64(32)
        )
        d[i, j, block] = np.array([word], np.uint64 if wide else np.uint32).view(c.dtype)[0]
    return d


def operands(x: Matrix, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    a = draw(rng, (x.m, x.k, x.blocks), x.dtype, x.isa)
    b = draw(rng, (x.m, x.k, x.blocks), x.other or x.dtype, x.isa)
    kind = np.int32 if x.dtype == "i8" else np.float64 if x.dtype == "f64" else np.float32
    return a, b, rng.integers(-50, 50, (x.m, x.m, x.blocks)).astype(kind)


@pytest.mark.parametrize("x", MATRICES, ids=lambda x: f"{x.mnemonic}-{x.isa}")
def test_mfma(x: Matrix) -> None:
    a, b, c = operands(x, 1)
    expected = np.einsum("ikb,jkb->ijb", a.astype(np.float64), b.astype(np.float64)) + c
    np.testing.assert_array_equal(run_mfma(x, a, b, c), expected.astype(c.dtype))


def find(mnemonic: str, isa: str) -> Matrix:
    return next(x for x in MATRICES if x.mnemonic == mnemonic and x.isa == isa)


def test_broadcast_of_a() -> None:
    """cbsz and abid: groups of 2^cbsz blocks take the A of one of theirs (CDNA3 ISA 7.1.3)."""
    x = find("v_mfma_f32_4x4x4_16b_f16", "gfx942")
    a, b, c = operands(x, 2)
    for cbsz, abid in ((1, 0), (2, 3), (4, 9)):
        taken = [(n >> cbsz << cbsz) + abid for n in range(16)]
        expected = np.einsum("ikb,jkb->ijb", a[:, :, taken].astype(np.float64), b.astype(np.float64)) + c
        np.testing.assert_array_equal(run_mfma(x, a, b, c, f"cbsz:{cbsz} abid:{abid}"), expected.astype(np.float32))


def test_lane_patterns_of_b() -> None:
    """blgp: which lanes' B all lanes use (CDNA3 ISA 7.1.3)."""
    x = find("v_mfma_f32_16x16x1_4b_f32", "gfx942")  # one block of B in every 16 lanes
    a, b, c = operands(x, 3)
    for pattern, taken in ((1, [0, 1, 0, 1]), (2, [2, 3, 2, 3]), (3, [1, 2, 3, 0]), (4, [0] * 4), (5, [1] * 4), (6, [2] * 4),
                           (7, [3] * 4)):  # fmt: skip
        expected = np.einsum("ikb,jkb->ijb", a.astype(np.float64), b[:, :, taken].astype(np.float64)) + c
        np.testing.assert_array_equal(run_mfma(x, a, b, c, f"blgp:{pattern}"), expected.astype(np.float32))


@pytest.mark.parametrize(("name", "isa", "modifier"), [("v_mfma_f64_16x16x4f64", "gfx90a", "blgp:{0}"),
                                                       ("v_mfma_f64_16x16x4_f64", "gfx942", "neg:[{1},{2},{3}]")])  # fmt: skip
def test_negation_of_f64(name: str, isa: str, modifier: str) -> None:
    """The bits of blgp negate A, B and C (CDNA3 ISA 7.1.3), which gfx942 spells neg (LLVM, "Syntax of AMDGPU Instructions")."""
    x = find(name, isa)
    a, b, c = operands(x, 5)
    for bits in range(8):
        of_a, of_b, of_c = (-1.0 if bits >> n & 1 else 1.0 for n in range(3))
        expected = np.einsum("ikb,jkb->ijb", of_a * a, of_b * b) + of_c * c
        text = modifier.format(bits, bits & 1, bits >> 1 & 1, bits >> 2)
        np.testing.assert_array_equal(run_mfma(x, a, b, c, text), expected)


def test_denormals() -> None:
    """gfx90a flushes denormals of f16 and bf16 (AMD, MIOpen documentation, "MI200 MFMA behavior specifics"); not gfx942."""
    for mnemonic, isa, kept in (("v_mfma_f32_16x16x16f16", "gfx90a", False), ("v_mfma_f32_16x16x16_f16", "gfx942", True)):
        x = find(mnemonic, isa)
        a = np.zeros((16, 16, 1), np.float16)
        a[:, 0, 0] = 2.0**-20  # a denormal of f16
        b = np.ones((16, 16, 1), np.float16)
        d = run_mfma(x, a, b, np.zeros((16, 16, 1), np.float32))
        np.testing.assert_array_equal(d, np.float32(2.0**-20 if kept else 0))


@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x16_f16", "v_mfma_f32_32x32x8_bf16", "v_mfma_f32_16x16x4_f32"])
def test_rounding_stays_within_its_bound(name: str) -> None:
    """(k + 1) units of 2^-24 of |c| + sum |a b|: what docs/amd-arithmetic.md states, since AMD's guides state none."""
    x = find(name, "gfx942")
    rng = np.random.default_rng(4)
    a = rng.normal(0, 1, (x.m, x.k, 1)).astype(stored(x.dtype, x.isa))
    b = rng.normal(0, 1, (x.m, x.k, 1)).astype(stored(x.dtype, x.isa))
    c = rng.normal(0, 1, (x.m, x.m, 1)).astype(np.float32)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    exact = np.einsum("ikb,jkb->ijb", wide_a, wide_b) + c
    size = np.einsum("ikb,jkb->ijb", abs(wide_a), abs(wide_b)) + abs(c)
    assert np.all(abs(run_mfma(x, a, b, c) - exact) <= (x.k + 1) * 2.0**-24 * size)


# ---- WMMA ------------------------------------------------------------------------------------------------------------


def wmma_input(isa: str, bits: int, k_size: int, k: int) -> tuple[int, int]:
    """Half of the wave and element of depth ``k`` (RDNA3 ISA 7.9: all in both halves; RDNA4 ISA 7.12)."""
    if isa == "gfx1100":
        return 0, k
    if bits == 16:
        return k // 4 % 2, k % 4 + 4 * (k // 8)
    return k // (k_size // 2), k % (k_size // 2)


_WMMA = [(isa, *rest) for isa in ("gfx1100", "gfx1201") for rest in
         (("f32", "f16", 16, 16), ("f32", "bf16", 16, 16), ("f16", "f16", 16, 16), ("bf16", "bf16", 16, 16),
          ("i32", "iu8", 8, 16), ("i32", "iu4", 4, 16))]  # fmt: skip
_WMMA += [("gfx1201", "f32", f"{a}_{b}", 8, 16) for a in ("fp8", "bf8") for b in ("fp8", "bf8")]
_WMMA += [("gfx1201", "i32", "iu4", 4, 32)]


@pytest.mark.parametrize(("isa", "result", "name", "bits", "k_size"), _WMMA)
def test_wmma(isa: str, result: str, name: str, bits: int, k_size: int) -> None:
    rng = np.random.default_rng(6)
    kinds = name.split("_") * 2 if "_" in name else [{"iu8": "i8", "iu4": "i8"}.get(name, name)] * 2
    a, b = (draw(rng, (16, k_size), kind, isa) for kind in kinds[:2])
    held = k_size * bits // 32 // (1 if isa == "gfx1100" else 2)
    inputs: dict[int, Array] = {}
    for start, matrix in ((2, a), (12, b)):
        raw, out = matrix.view(np.uint16 if bits == 16 else np.uint8), np.zeros((held, 32), np.uint32)
        for row, k in np.ndindex(16, k_size):
            half, element = wmma_input(isa, bits, k_size, k)
            for lane in (row, row + 16) if isa == "gfx1100" else (row + 16 * half,):
                out[element * bits // 32, lane] |= np.uint32((int(raw[row, k]) & (1 << bits) - 1) << element * bits % 32)
        inputs |= {start + n: r for n, r in enumerate(out)}
    narrow = result in ("f16", "bf16")
    c = rng.integers(-20, 20, (16, 16))
    kind = {"f32": np.float32, "i32": np.int32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[result]
    packed = narrow and isa == "gfx1201"
    kept = 4 if packed else 8

    def place(i: int, j: int) -> Place:
        row = (i // 2, i % 2) if isa == "gfx1100" else (i % 8, i // 8)
        lane = j + 16 * row[1]
        return (row[0] // 2, lane, row[0] % 2) if packed else (row[0], lane, 0)

    raw_c = c.astype(kind).view(np.uint16 if narrow else np.uint32)
    start_c = np.zeros((kept, 32, 2 if narrow else 1), raw_c.dtype)
    for i, j in np.ndindex(16, 16):
        register, lane, element = place(i, j)
        start_c[register, lane, element] = raw_c[i, j]
    inputs |= {30 + n: np.ascontiguousarray(r).view(np.uint32).reshape(-1) for n, r in enumerate(start_c)}
    signs = " neg_lo:[1,1,0]" if name in ("iu8", "iu4") else ""
    operands = f"{groups(kept, 30)}, {groups(held, 2)}, {groups(held, 12)}, {groups(kept, 30)}"
    body = f"v_wmma_{result}_16x16x{k_size}_{name} {operands}{signs}"
    found = np.array(execute(isa, body, inputs, range(30, 30 + kept)))
    expected = a.astype(np.float64) @ b.astype(np.float64).T + c
    for i, j in np.ndindex(16, 16):
        register, lane, element = place(i, j)
        word = np.array([found[register, lane]], np.uint32)
        got = word.view(np.uint16)[element : element + 1].view(kind)[0] if narrow else word.view(kind)[0]
        assert got == kind(expected[i, j]), (i, j)


def test_wmma_operands_must_be_replicated_on_rdna3() -> None:
    """Row 5 of A differs between the halves of the wave: row 5 of D is undefined, and nothing else is (RDNA3 ISA 7.9)."""
    from portakern.backends.rocm.amdgcn.execution.program import native

    zero = np.zeros(lanes_of("gfx1100"), np.uint32)
    other = zero.copy()
    other[5 + 16] = 1
    inputs = dict.fromkeys(range(2, 40), zero) | {3: other}
    body = "v_wmma_f32_16x16x16_f16 v[30:37], v[2:9], v[12:19], v[30:37]"
    execute("gfx1100", body, inputs, [30, 31, 33, 37])
    with pytest.raises(native().Fault, match="never written"):
        execute("gfx1100", body, inputs, [32])  # rows 4 and 5


def test_wmma_needs_all_lanes() -> None:
    from portakern.backends.rocm.amdgcn.execution.program import native

    zero = np.zeros(32, np.uint32)
    body = "s_mov_b32 exec_lo, 0xffff\nv_wmma_f32_16x16x16_f16 v[30:37], v[2:9], v[12:19], v[30:37]"
    with pytest.raises(native().Fault, match="EXEC must be all ones"):
        execute("gfx1100", body, dict.fromkeys(range(2, 40), zero), [30])
