"""What a stranger's HIP kernel may hold, compiled by clang and executed on the AMD machine, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.backends.rocm.amdgcn.execution.program import native
from portakern.backends.rocm.amdgcn.isa import GENERATIONS
from portakern.errors import SimulatorError
from tests.rocm.execution.hip_code import Module, compiled
from tests.rocm.helpers import needs_clang

TEXT = r"""
#include <hip/hip_runtime.h>
typedef unsigned long long u64;
typedef long long i64;
#define KERNEL extern "C" __global__ void __launch_bounds__(256)

__constant__ float table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static __constant__ int pairs[4][2] = {{3, 1}, {4, 1}, {5, 9}, {2, 6}};
__device__ int counter = 5;
__device__ float kept[64];

KERNEL tables(const int* x, float* out) {
  const int i = threadIdx.x;
  out[i] = table[x[i] & 15] + pairs[x[i] & 3][i & 1];
}
KERNEL variables(int* out) {
  const int i = threadIdx.x;
  out[i] = atomicAdd(&counter, 1);
  kept[i] = kept[i] + i;
}
KERNEL beyond(float* out) { out[threadIdx.x] = table[threadIdx.x]; }

__device__ __noinline__ float poly(float x, int n) {
  float r = 0;
  for (int k = 0; k < n; k++) r = r * x + k;
  return r;
}
KERNEL calls(const float* x, float* out, int n) { out[threadIdx.x] = poly(x[threadIdx.x], n) + poly(2, n); }

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KERNEL recursion(const int* x, int* out) { out[threadIdx.x] = fibonacci(x[threadIdx.x] & 7); }

__device__ __noinline__ float twice(float x) { return x * 2; }
__device__ __noinline__ float more(float x) { return x + 3; }
__device__ float (*const choices[2])(float) = {twice, more};
KERNEL pointers(const float* x, float* out, int n) { out[threadIdx.x] = choices[n & 1](x[threadIdx.x]); }

__device__ __noinline__ void sorted(int* a, int n) {
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++)
      if (a[j] < a[i]) {
        const int t = a[i];
        a[i] = a[j];
        a[j] = t;
      }
}
KERNEL flat_private(const int* x, int* out) {
  int a[8];
  for (int k = 0; k < 8; k++) a[k] = x[threadIdx.x * 8 + k];
  sorted(a, 8);
  for (int k = 0; k < 8; k++) out[threadIdx.x * 8 + k] = a[k];
}
__device__ __noinline__ int next_two(const int* a) { return a[0] + a[1]; }
KERNEL flat_shared(const int* x, int* out) {
  __shared__ int l[65];
  const int i = threadIdx.x;
  l[i] = x[i];
  if (i == 0) l[64] = 7;
  __syncthreads();
  out[i] = next_two(l + i) * 1000 + next_two(x + i);
}
KERNEL flat_race(const int* x, int* out) {
  __shared__ int l[257];
  const int i = threadIdx.x;
  l[i] = x[i];
  out[i] = next_two(l + (255 - i));
}
KERNEL numbered(const int* x, int* out, int n) {
  int a[16];
  for (int k = 0; k < 16; k++) a[k] = x[threadIdx.x * 16 + k];
  a[n & 15] = 7;
  out[threadIdx.x] = a[(n * 5) & 15] + a[(n * 3 + 1) & 15];
}
template <class T> __device__ void all_atomics(T* p, T* out, T v) {
  const int i = threadIdx.x;
  const T old[8] = {atomicAdd(p + 0, v), atomicMax(p + 1, v + T(i)), atomicMin(p + 2, v - T(i)), atomicExch(p + 3 + i, v),
                    atomicCAS(p + 67 + i, T(i), v), atomicAnd(p + 131, v | T(i)), atomicOr(p + 132, T(1) << (i & 31)),
                    atomicXor(p + 133 + i, v)};
  out[i] = old[3] + old[4] + old[7];
}
KERNEL memory_atomics(i64* p, i64* out, int* q, int* qout) {
  all_atomics<i64>(p, out, 40000000000ll);
  all_atomics<int>(q, qout, 40);
}
KERNEL shared_atomics(i64* p, i64* out, int* q, int* qout) {
  __shared__ i64 l[197];
  __shared__ int m[197];
  for (int k = threadIdx.x; k < 197; k += 64) l[k] = p[k], m[k] = q[k];
  __syncthreads();
  all_atomics<i64>(l, out, 40000000000ll);
  all_atomics<int>(m, qout, 40);
  __syncthreads();
  for (int k = threadIdx.x; k < 197; k += 64) p[k] = l[k], q[k] = m[k];
}
KERNEL float_atomics(float* p, double* q) {
  __shared__ float l;
  __shared__ double m;
  if (threadIdx.x == 0) l = 1, m = 2;
  __syncthreads();
  atomicAdd(p, 0.5f);
  atomicAdd(q, 0.25);
  atomicAdd(&l, 0.5f);
  atomicAdd(&m, 0.25);
  __syncthreads();
  if (threadIdx.x == 0) p[1] = l, q[1] = m;
}
KERNEL counting(unsigned* p) {
  atomicInc(p, 10u);
  atomicDec(p + 1, 5u);
  atomicSub(p + 2, 3u);
}
KERNEL doubles(const double* x, const double* y, double* out) {
  const int i = threadIdx.x;
  out[i] = x[i] / y[i] + __builtin_sqrt(__builtin_fabs(x[i])) + __builtin_floor(y[i]) * __builtin_fmax(x[i], y[i]);
}
KERNEL divisions(const i64* x, const i64* y, i64* out, const int* a, const int* b, int* c) {
  const int i = threadIdx.x;
  out[i] = x[i] / y[i] + x[i] % y[i] * 7 + static_cast<i64>(static_cast<u64>(x[i]) / static_cast<u64>(y[i]));
  c[i] = a[i] / b[i] + a[i] % b[i] * 7 + static_cast<int>(static_cast<unsigned>(a[i]) / static_cast<unsigned>(b[i]));
}
KERNEL stops(const int* x, int* out) {
  if (x[threadIdx.x] == 17) __builtin_trap();
  out[threadIdx.x] = x[threadIdx.x];
}
KERNEL clocks(u64* out) {
  const u64 start = __builtin_readcyclecounter();
  out[threadIdx.x] = __builtin_readcyclecounter() - start;
}
"""

LANES = np.arange(64, dtype=np.int64)
X = (LANES * 7919 % 1009 - 300).astype(np.int32)
SOME = ("gfx942", "gfx1201")
ALL = [pytest.param(isa, marks=() if isa in SOME else pytest.mark.slow) for isa in GENERATIONS]


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs_clang()
    native()


@pytest.fixture(params=ALL)
def module(request: pytest.FixtureRequest) -> Module:
    needs_clang()
    return Module(compiled(request.param, TEXT))


def zeros(dtype: type, count: int = 64) -> np.ndarray:
    return np.zeros(count, dtype)


def test_constant_tables(module: Module) -> None:
    pairs = np.array([[3, 1], [4, 1], [5, 9], [2, 6]])
    _, out = module.launch("tables", X, zeros(np.float32))
    np.testing.assert_array_equal(out, (X & 15) + 1 + pairs[X & 3, LANES & 1])


def test_variables_keep_their_values_between_launches(module: Module) -> None:
    first, second = (np.sort(module.launch("variables", zeros(np.int32))[0]) for _ in range(2))
    np.testing.assert_array_equal(first, 5 + LANES)
    np.testing.assert_array_equal(second, 69 + LANES)


def test_beyond_a_table_is_out_of_bounds(module: Module) -> None:
    with pytest.raises(SimulatorError, match=r"out of bounds.* of the variable table, which has 64"):
        module.launch("beyond", zeros(np.float32))


def test_calls(module: Module) -> None:
    x = X.astype(np.float32) / 512
    expected = 2 * np.float32(0) + x * 0
    for k in range(5):
        expected = expected * x + k
    np.testing.assert_allclose(module.launch("calls", x, zeros(np.float32), 5)[1], expected + 26, rtol=1e-6)
    for n, value in ((0, x * 2), (1, x + 3)):
        np.testing.assert_allclose(module.launch("pointers", x, zeros(np.float32), n)[1], value)


def test_recursion(module: Module) -> None:
    numbers = np.array([0, 1, 1, 2, 3, 5, 8, 13])
    np.testing.assert_array_equal(module.launch("recursion", X, zeros(np.int32))[1], numbers[X & 7])


def test_flat_addresses_of_all_three_memories(module: Module) -> None:
    many = (np.arange(512) * 7919 % 1009).astype(np.int32)
    sorted_ = module.launch("flat_private", many, zeros(np.int32, 512))[1]
    np.testing.assert_array_equal(sorted_.reshape(64, 8), np.sort(many.reshape(64, 8), axis=1))
    shared = np.append(X, 7)
    wide = np.append(X, 0).astype(np.int32)
    out = module.launch("flat_shared", wide, zeros(np.int32))[1]
    np.testing.assert_array_equal(out, (shared[:-1] + shared[1:]) * 1000 + wide[:-1] + wide[1:])
    with pytest.raises(SimulatorError, match=r"LDS race|what was never written"):
        module.launch("flat_race", np.tile(X, 4), zeros(np.int32, 256), block=256)


def test_registers_numbered_at_run_time(module: Module) -> None:
    x = np.arange(1024, dtype=np.int32).reshape(64, 16)
    for n in (1, 6):
        changed = x.copy()
        changed[:, n] = 7
        found = module.launch("numbered", x.reshape(-1), zeros(np.int32), n)[1]
        np.testing.assert_array_equal(found, changed[:, n * 5 & 15] + changed[:, n * 3 + 1 & 15])


@pytest.mark.parametrize("kernel", ["memory_atomics", "shared_atomics"])
def test_atomics_of_both_widths(module: Module, kernel: str) -> None:
    start = (np.arange(197) * 3).astype(np.int64)
    found = module.launch(kernel, start, zeros(np.int64), start.astype(np.int32), zeros(np.int32))
    for (after, out), v in zip((found[:2], found[2:]), (40000000000, 40), strict=True):
        expected = start.copy()
        expected[0] += 64 * v
        expected[1] = max(expected[1], v + 63)
        expected[2] = min(expected[2], v - 63)
        expected[3:67] = v
        equal = start[67:131] == LANES
        expected[67:131] = np.where(equal, v, start[67:131])
        for i in range(64):
            expected[131] &= v | i
            expected[132] |= 1 << (i & 31)
        expected[133:] ^= v
        np.testing.assert_array_equal(after, expected.astype(after.dtype))
        np.testing.assert_array_equal(out, start[3:67] + start[67:131] + start[133:])


def test_atomics_on_floats_and_counters(module: Module) -> None:
    p, q = module.launch("float_atomics", np.array([3, 0], np.float32), np.array([4, 0], np.float64))
    assert (*p, *q) == (35.0, 33.0, 20.0, 18.0)
    np.testing.assert_array_equal(module.launch("counting", np.array([0, 2, 1000], np.uint32))[0], [64 % 11, (2 - 64) % 6, 808])


def test_doubles_and_divisions(module: Module) -> None:
    x, y = X * 1.25, (X[::-1] + 0.5) / 3
    found = module.launch("doubles", x, y.copy(), zeros(np.float64))[2]
    np.testing.assert_allclose(found, x / y + np.sqrt(abs(x)) + np.floor(y) * np.maximum(x, y), rtol=1e-14)
    a, b = X.astype(np.int64) * 123456789123, np.where(X % 5 == 0, 3, X[::-1] * 65537 + 1).astype(np.int64)
    n, d = X * 12345, np.where(X == 0, 1, X[::-1] * 3 + 1).astype(np.int32)

    def expected(x: np.ndarray, y: np.ndarray, unsigned: type) -> np.ndarray:
        quotient = (abs(x) // abs(y)) * np.sign(x) * np.sign(y)
        return quotient + (x - quotient * y) * 7 + (x.astype(unsigned) // y.astype(unsigned)).astype(x.dtype)

    found = module.launch("divisions", a, b, zeros(np.int64), n, d, zeros(np.int32))
    np.testing.assert_array_equal(found[2], expected(a, b, np.uint64))
    np.testing.assert_array_equal(found[5], expected(n, d, np.uint32))


def test_a_trap_is_reported(module: Module) -> None:
    module.launch("stops", X & ~16, zeros(np.int32))
    with pytest.raises(SimulatorError, match=r"trap: line .*: the kernel stops here by itself"):
        module.launch("stops", LANES.astype(np.int32), zeros(np.int32))


def test_clocks_go_on(module: Module) -> None:
    assert (module.launch("clocks", zeros(np.uint64))[0] < 1000).all()
