"""Lane layouts of the matrix instructions and of lane exchange, against tables written down from AMD's ISA guides.

Each instruction runs alone on the machine, on operands whose elements are all different, and is compared with the product
computed from where the guides say each lane's elements belong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from portakern.errors import SimulatorError
from tests.rocm.helpers import kernel, needs_clang, run

# instruction -> (device, vector type, accumulator length, depth,
#                 A's (lane, element) of (row, k), D's (lane, register) of (row, column))
Where = Callable[[int, int], tuple[int, int]]
CDNA_D: Where = lambda i, j: (16 * (i // 4) + j, i % 4)  # noqa: E731
INSTRUCTIONS: dict[str, tuple[str, str, int, int, Where, Where]] = {
    # MI300 ISA guide, 7.1: A[i][k] of a 16x16x16 is element k % 4 of lane i + 16 (k / 4);
    # D[i][j] is register i % 4 of lane j + 16 (i / 4).
    "__builtin_amdgcn_mfma_f32_16x16x16f16(x, y, d, 0, 0, 0)": (
        "gfx942",
        "f16x4",
        4,
        16,
        lambda i, k: (i + 16 * (k // 4), k % 4),
        CDNA_D,
    ),
    "__builtin_amdgcn_mfma_f32_16x16x4f32(x[0], y[0], d, 0, 0, 0)": (
        "gfx90a",
        "f32x1",
        4,
        4,
        lambda i, k: (i + 16 * k, 0),
        CDNA_D,
    ),
    # CDNA 4 ISA guide: eight consecutive k for each group of 16 lanes.
    "__builtin_amdgcn_mfma_f32_16x16x32_f16(x, y, d, 0, 0, 0)": (
        "gfx950",
        "f16x8",
        4,
        32,
        lambda i, k: (i + 16 * (k // 8), k % 8),
        CDNA_D,
    ),
    # RDNA 3 ISA guide, 7.9: lane i and its copy i + 16 hold row i; D[i][j] is register i / 2 of lane j + 16 (i % 2).
    "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, d)": (
        "gfx1100",
        "f16x16",
        8,
        16,
        lambda i, k: (i, k),
        lambda i, j: (16 * (i % 2) + j, i // 2),
    ),
    # RDNA 4 ISA guide, 7.12: four consecutive k go to one half of the wave, the next four to the other.
    "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, d)": (
        "gfx1201",
        "f16x8",
        8,
        16,
        lambda i, k: (i + 16 * (k // 4 % 2), k % 4 + 4 * (k // 8)),
        lambda i, j: (16 * (i // 8) + j, i % 8),
    ),
}

TEXT = """#include "pk/pk.h"
typedef {scalar} V __attribute__((ext_vector_type({held})));
typedef float D __attribute__((ext_vector_type({kept})));
extern "C" __global__ void kernel(const V* a, const V* b, const D* c, D* out) {{
  const V x = a[threadIdx.x], y = b[threadIdx.x];
  D d = c[threadIdx.x];
  out[threadIdx.x] = {call};
}}
"""


BODY = """#include "pk/pk.h"
extern "C" __global__ void kernel(const int* x, int* y) {{
  const int {index} = threadIdx.x;
{body}
}}
"""


@pytest.mark.parametrize("call", INSTRUCTIONS, ids=lambda call: call.split("(")[0].removeprefix("__builtin_amdgcn_"))
def test_a_matrix_instruction_takes_and_gives_elements_where_the_guide_says(call: str) -> None:
    device, vector, kept, depth, operand, result = INSTRUCTIONS[call]
    needs_clang(device)
    lanes = 64 if device.startswith("gfx9") else 32
    scalar, held = vector.split("x")
    rng = np.random.default_rng(3)
    a, b = rng.integers(-8, 8, (16, depth)), rng.integers(-8, 8, (depth, 16))
    c = rng.integers(-99, 99, (16, 16))
    x, y = (np.full((lanes, int(held)), 99, scalar.replace("f", "float")) for _ in range(2))
    d = np.zeros((lanes, kept), "f4")
    for i in range(16):
        for k in range(depth):
            lane, element = operand(i, k)
            for copy in range(0, 32, 16) if device == "gfx1100" else (0,):
                x[lane + copy, element] = a[i, k]
                y[lane + copy, element] = b[k, i]  # B[k][j] lies as A[j][k] does
        for j in range(16):
            d[result(i, j)] = c[i, j]
    text = TEXT.format(scalar="float" if scalar == "f32" else "pk::f16", held=held, kept=kept, call=call)
    source = kernel(
        device,
        text,
        {"a": (x.shape, scalar), "b": (y.shape, scalar), "c": (d.shape, "f32")},
        {"out": (d.shape, "f32")},
        1,
        lanes,
    )
    got = run(source, x, y, d)
    want = c + a @ b
    for i in range(16):
        for j in range(16):
            assert got[result(i, j)] == want[i, j]


@pytest.mark.parametrize("device", ["gfx942", "gfx1201"])
def test_lanes_exchange_with_the_lane_whose_bit_differs(device: str) -> None:
    needs_clang(device)
    lanes = 64 if device == "gfx942" else 32
    masks = [1 << n for n in range(lanes.bit_length() - 1)]
    body = "\n".join(f"  y[{n * lanes} + l] = pk::shuffle_xor<{mask}>(x[l]);" for n, mask in enumerate(masks))
    text = BODY.format(index="l", body=body)
    x = np.arange(lanes, dtype="i4") * 7
    got = run(kernel(device, text, {"x": ((lanes,), "i32")}, {"y": ((len(masks), lanes), "i32")}, 1, lanes), x)
    for n, mask in enumerate(masks):
        assert (got[n] == x[np.arange(lanes) ^ mask]).all()


def run_body(body: str, x: np.ndarray) -> np.ndarray:
    text = BODY.format(index="t", body=body)
    return run(kernel("gfx942", text, {"x": (x.shape, "i32")}, {"y": (x.shape, "i32")}, 1, x.size), x)


def test_a_lane_that_takes_no_part_in_an_exchange_gives_zero() -> None:
    needs_clang()
    x = np.arange(64, dtype="i4") + 7
    got = run_body("  if (t < 33) y[t] = pk::shuffle_xor<1>(x[t]);", x)
    assert (got[:32] == x[:32].reshape(-1, 2)[:, ::-1].ravel()).all() and got[32] == 0


def test_a_barrier_that_some_threads_miss_is_an_error() -> None:
    needs_clang()
    with pytest.raises(SimulatorError, match="barrier divergence"):
        run_body("  if (t < 64) pk::sync();\n  y[t] = 0;", np.zeros(128, "i4"))


def test_a_missing_barrier_is_an_error() -> None:
    needs_clang()
    text = """#include "pk/pk.h"
extern "C" __global__ void kernel(const int* x, int* y) {
  __shared__ int shared[128];
  shared[threadIdx.x] = x[threadIdx.x];
  MAYBE
  y[threadIdx.x] = shared[127 - threadIdx.x];
}
"""
    x = np.arange(128, dtype="i4")
    spec = ({"x": ((128,), "i32")}, {"y": ((128,), "i32")}, 1, 128)
    assert (run(kernel("gfx942", text.replace("MAYBE", "pk::sync();"), *spec), x) == x[::-1]).all()
    with pytest.raises(SimulatorError, match="of LDS, which nobody"):
        run(kernel("gfx942", text.replace("MAYBE", ""), *spec), x)
