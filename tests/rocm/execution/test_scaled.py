"""Block-scaled products of CDNA 4: Triton's tl.dot_scaled, whose layouts AMD maintains, on the AMD machine, against numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from portakern.backends.rocm.amdgcn.execution.program import native
from tests.rocm.execution.hip_code import Module

triton = pytest.importorskip("triton")
tl: Any = pytest.importorskip("triton.language")

M, N, K = 64, 64, 256
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


@triton.jit
def scaled_kernel(
    a_ptr, as_ptr, b_ptr, bs_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
    PER_A: tl.constexpr, PER_B: tl.constexpr,
):  # fmt: skip
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    block = tl.arange(0, K // 32)
    a = tl.load(a_ptr + m[:, None] * (K // PER_A) + tl.arange(0, K // PER_A)[None, :])
    b = tl.load(b_ptr + tl.arange(0, K // PER_B)[:, None] * N + n[None, :])
    a_scale = tl.load(as_ptr + m[:, None] * (K // 32) + block[None, :])
    b_scale = tl.load(bs_ptr + n[:, None] * (K // 32) + block[None, :])
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot_scaled(a, a_scale, A, b, b_scale, B))


def assembly(isa: str, a: str, b: str, edge: int) -> tuple[str, int]:
    """The kernel compiled, and its shared memory."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    numbers = {"M": M, "N": N, "K": K, "A": a, "B": b, "PER_A": per(a), "PER_B": per(b)}
    pointers = {"a_ptr": "*u8", "as_ptr": "*u8", "b_ptr": "*u8", "bs_ptr": "*u8", "c_ptr": "*fp32"}
    types = {**pointers, **dict.fromkeys(numbers, "constexpr")}
    source = ASTSource(scaled_kernel, types, numbers, {(n,): [["tt.divisibility", 16]] for n in range(5)})
    options = {"num_warps": 4, "matrix_instr_nonkdim": edge}
    made = triton.compile(source, target=GPUTarget("hip", isa, 64), options=options)
    return made.asm["amdgcn"], made.metadata.shared


def per(kind: str) -> int:
    return 2 if kind == "e2m1" else 1


def values(raw: np.ndarray, kind: str, packed_axis: int) -> np.ndarray:
    """What bytes stand for; two numbers of 4 bits a byte, the lower one first."""
    if kind != "e2m1":
        return raw.view({"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind]).astype(np.float64)
    both = np.stack([FP4[raw & 15], FP4[raw >> 4]], axis=packed_axis + 1)
    return both.reshape([n * (1 + (axis == packed_axis)) for axis, n in enumerate(raw.shape)])


@pytest.mark.parametrize(
    ("isa", "a", "b", "edge", "instruction"),
    [
        ("gfx950", "e4m3", "e2m1", 32, "v_mfma_scale_f32_32x32x64_f8f6f4"),
        ("gfx950", "e5m2", "e4m3", 16, "v_mfma_scale_f32_16x16x128_f8f6f4"),
        pytest.param("gfx950", "e2m1", "e2m1", 32, "v_mfma_scale_f32_32x32x64_f8f6f4", marks=pytest.mark.slow),
        pytest.param("gfx950", "e2m1", "e5m2", 16, "v_mfma_scale_f32_16x16x128_f8f6f4", marks=pytest.mark.slow),
        pytest.param("gfx942", "e4m3", "e2m1", 0, "v_mfma_f32", marks=pytest.mark.slow),
    ],
)
def test_dot_scaled(isa: str, a: str, b: str, edge: int, instruction: str) -> None:
    native()
    text, shared = assembly(isa, a, b, edge)
    assert instruction in text
    rng = np.random.default_rng(0)

    def some(shape: tuple[int, int], kind: str) -> np.ndarray:
        raw = rng.integers(0, 256, shape)
        return (raw if kind == "e2m1" else raw & 0xBB).astype(np.uint8)  # no NaN or infinity

    x, y = some((M, K // per(a)), a), some((K // per(b), N), b)
    xs, ys = (rng.integers(120, 134, (n, K // 32)).astype(np.uint8) for n in (M, N))
    nothing = np.uint64(0)  # Triton's own two pointers
    found = Module(text).launch(
        "scaled_kernel", x, xs, y, ys, np.zeros((M, N), np.float32), nothing, nothing, block=256, shared=shared
    )[4]
    left = values(x, a, 1) * np.repeat(2.0 ** (xs.astype(int) - 127), 32, axis=1)
    right = values(y, b, 0) * np.repeat(2.0 ** (ys.astype(int) - 127), 32, axis=1).T
    np.testing.assert_array_less(abs(found - left @ right), 1e-6 * (abs(left) @ abs(right)) + 1e-30)
