"""Kernels of row_sum at M=16, N=32 in float32 that are right and look odd, each with what a judge could take offence at."""

from __future__ import annotations

from typing import Any

from tests.judge.attacks import Attack
from tests.judge.cuda import UNUSUAL as CUDA
from tests.judge.decoys import NUMBA, PALLAS, TRITON
from tests.judge.launched import UNUSUAL as LAUNCHED

INCLUDES = "#include <cmath>\n#include <numeric>\n"
"""Few, since each compiles for long."""


def legal(target: str, name: str, text: str, shows: str, **more: Any) -> Attack:
    return Attack(f"{target.partition(':')[0]}-{name}", target, text, shows, correct=True, **more)


def in_cpp(name: str, row: str, shows: str, before: str = "", **more: Any) -> Attack:
    text = f"""{INCLUDES}{before}
extern "C" void row_sum(const float* x, float* out) {{
    for (int m = 0; m < 16; ++m) {{
        const float* row = x + m * 32;
        {row}
    }}
}}
"""
    return legal("cpp:cpu", name, text, shows, **more)


CPP = (
    in_cpp("kahan", """float s = 0, c = 0;
        for (int n = 0; n < 32; ++n) { volatile float y = row[n] - c, t = s + y; c = (t - s) - y; s = t; }
        bool finite = true; for (int n = 0; n < 32; ++n) finite &= std::isfinite(row[n]);
        if (!finite) s = std::accumulate(row, row + 32, 0.0f);
        out[m] = s;""", "sums in another order, with what was lost"),
    in_cpp("halves", "out[m] = halves(row, 32);", "sums of halves, by recursion",
           """static float halves(const float* x, int n) {
    return n == 1 ? *x : halves(x, n / 2) + halves(x + n / 2, n - n / 2);
}"""),
    in_cpp("doubles", "out[m] = (float)std::accumulate(row, row + 32, 0.0);", "a wider accumulator"),
    in_cpp("backwards", "float s = 0; for (int n = 31; n >= 0; --n) s += row[n]; out[m] = s;",
             "elements from the last to the first"),
    in_cpp("twice", "out[m] = 7; out[m] = 0; for (int n = 0; n < 32; ++n) out[m] += row[n];",
             "an output that is written often and read"),
    in_cpp("kept-scratch", before="#include <algorithm>\n#include <vector>\n", row="""
        static thread_local std::vector<float> kept;
        kept.assign(row, row + 32); std::sort(kept.begin(), kept.end()); out[m] = 0;
        bool nan = false; for (int n = 0; n < 32; ++n) nan |= row[n] != row[n];
        for (float v : kept) out[m] += v; if (nan) out[m] = std::nanf("");""", shows="memory that stays from call to call"),
    in_cpp("catches", """try { if (m == 3) throw std::runtime_error("inside"); out[m] = std::accumulate(row, row + 32, 0.0f); }
        catch (const std::exception&) { out[m] = std::accumulate(row, row + 32, 0.0f); }""", "exceptions that stay inside",
           "#include <stdexcept>\n"),
    in_cpp("virtual", "std::unique_ptr<Adds> a(new Plain); out[m] = a->add(row);", "objects of the heap with virtual functions",
           """#include <memory>
struct Adds { virtual ~Adds() = default; virtual float add(const float*) = 0; };
struct Plain : Adds { float add(const float* x) override { return std::accumulate(x, x + 32, 0.0f); } };"""),
    in_cpp("pool", """if (m) continue;
        static Pool pool;
        pool.run([=](int k) { out[k] = std::accumulate(x + k * 32, x + k * 32 + 32, 0.0f); });""",
             "threads that wait for the next call", """
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>
struct Pool {
    std::mutex lock; std::condition_variable work, done; std::function<void(int)> f; int next = 16, left = 0; bool end = false;
    std::vector<std::thread> threads;
    Pool() { for (int i = 0; i < 2; ++i) threads.emplace_back([this] { serve(); }); }
    ~Pool() { { std::lock_guard<std::mutex> l(lock); end = true; } work.notify_all(); for (auto& t : threads) t.join(); }
    void serve() {
        std::unique_lock<std::mutex> l(lock);
        for (;;) {
            work.wait(l, [&] { return end || next < 16; });
            if (end) return;
            int k = next++; l.unlock(); f(k); l.lock();
            if (--left == 0) done.notify_all();
        }
    }
    void run(std::function<void(int)> g) {
        std::unique_lock<std::mutex> l(lock); f = g; next = 0; left = 16;
        work.notify_all(); done.wait(l, [&] { return left == 0; });
    }
};"""),
    in_cpp("asm", 'float s = 0; for (int n = 0; n < 32; ++n) { s += row[n]; asm volatile("" : "+x"(s)); } out[m] = s;',
           "assembly that does nothing"),
    in_cpp("tables", "float s = 0; for (int n = 0; n < 32; ++n) s += row[order[n]]; out[m] = s;",
             "a table that is made when it is loaded",
           "#include <vector>\n"
           "static std::vector<int> order = [] { std::vector<int> v(32); std::iota(v.rbegin(), v.rend(), 0); return v; }();"),
    legal("cpp:cpu", "odd-text", "\ufeff" + INCLUDES.replace("\n", "\r\n") + """/* 和 row_sum(x, out) \\\r
   */\r
#define LOOP(i, n) for (int i = 0; i < (n); ++i)\r
namespace { template <int N> struct \\\r
S { static float of(const float *x) { return x[N - 1] + S<N - 1>::of(x); } };\r
template <> struct S<0> { static float of(const float*) { return 0; } }; }\r
extern "C" void row_sum(const float *x, float *out) { LOOP(m, 16) out[m] = S<32>::of(x + m * 32); }\r
""", "a byte order mark, other line ends, templates and continued lines"),
    legal("cpp:cpu", "other-name", INCLUDES + """
extern "C" void helper(const float* x, float* out) { *out = std::accumulate(x, x + 32, 0.0f); }
extern "C" void by_another_name(const float* x, float* out) { for (int m = 0; m < 16; ++m) helper(x + m * 32, out + m); }
""", "an entry of another name beside other functions", entry="by_another_name"),
)  # fmt: skip


def in_numba(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return legal("numba:cpu", name, f"{NUMBA}{before}\ndef row_sum(x, out):\n{lines}\n", shows, **more)


NUMBA_ODD = (
    in_numba("threads", "parallel(x, out)", "rows on several threads", """
@numba.njit(parallel=True)
def parallel(x, out):
    for m in numba.prange(x.shape[0]):
        s = numba.float32(0)
        for n in range(x.shape[1]):
            s += x[m, n]
        out[m] = s
"""),
    in_numba("closures", "by_one(x, out)", "kernels that are made by a function", """
def made(step):
    @numba.njit
    def kernel(x, out):
        for m in range(x.shape[0]):
            out[m] = total(x[m, ::step])
    return kernel
@numba.njit(inline="always")
def total(row):
    s = 0.0
    for v in row:
        s += v
    return s
by_one = made(1)
"""),
    in_numba("made-when-called", "made(1)(x, out)\nagain(x, out)", "kernels that are made when they are called", """
kept = {}
def made(step):
    if step not in kept:
        @numba.njit
        def kernel(x, out):
            for m in range(x.shape[0]):
                out[m] = total(x[m, ::step])
        kept[step] = kernel
    return kept[step]
@numba.njit
def total(row):
    s = 0.0
    for v in row:
        s += v
    return s
@numba.njit
def again(x, out):
    for m in range(x.shape[0]):
        out[m] = total(x[m])
"""),
    in_numba("recursion", "rows(x, out)", "a kernel that calls itself", """
@numba.njit("f8(f4[::1], i8, i8)")
def halves(row, lo, hi):
    if hi - lo == 1:
        return np.float64(row[lo])
    return halves(row, lo, (lo + hi) // 2) + halves(row, (lo + hi) // 2, hi)
@numba.njit(error_model="numpy", boundscheck=True, nogil=True)
def rows(x, out):
    for m in range(x.shape[0]):
        out[m] = halves(x[m], 0, x.shape[1])
"""),
    in_numba("arrays", "whole(x, out)", "numpy's functions inside a kernel", """
@numba.njit
def whole(x, out):
    t = np.zeros((x.shape[0], 2), np.float64)
    for m in range(x.shape[0]):
        t[m, 0] = x[m].reshape(4, 8).sum()
    out[:] = t[:, 0] + t[:, 1]
"""),
    in_numba("named", "named(out=out, x=x)", "arguments by name", """
@numba.njit
def named(x, out, first=0):
    for m in range(first, x.shape[0]):
        out[m] = x[m].sum()
"""),
    in_numba("tables", "by(x, out)", "a large table of the text", """
table = np.ones(300_000, np.float32)
@numba.njit
def by(x, out):
    for m in range(x.shape[0]):
        s = numba.float32(0)
        for n in range(x.shape[1]):
            s += x[m, n] * table[m * 1000 + n]
        out[m] = s
"""),
)  # fmt: skip


def in_triton(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return legal("triton:sm_90", name, f"{TRITON}{before}\ndef row_sum(x, out):\n    m, n = x.shape\n{lines}\n", shows, **more)


TRITON_ODD = (
    in_triton("same-stores", "same[(m,)](x, out, n, 32)", "what several programs store alike", """
@triton.jit
def same(x, out, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + m, tl.sum(tl.load(x + m * n + i), 0))
    other = (m + 1) % tl.num_programs(0)
    tl.store(out + other, tl.sum(tl.load(x + other * n + i), 0))
"""),
    in_triton("last-arrives", """t = torch.empty((m, 4), device=x.device)
count = torch.zeros((m,), dtype=torch.int32, device=x.device)
arrives[(m, 4)](x, out, t, count, n, 8)""", "the last of several programs adds what the others left", """
@triton.jit
def arrives(x, out, t, count, n, B: tl.constexpr):
    m, part = tl.program_id(0), tl.program_id(1)
    i = part * B + tl.arange(0, B)
    tl.store(t + m * 4 + part, tl.sum(tl.load(x + m * n + i), 0))
    tl.debug_barrier()
    if tl.atomic_add(count + m, 1) == 3:
        tl.store(out + m, tl.sum(tl.load(t + m * 4 + tl.arange(0, 4)), 0))
"""),
    in_triton("persistent", "walks[(3,)](x, out, m, n, 32)", "few programs that walk over rows", """
@triton.jit
def walks(x, out, rows, n, B: tl.constexpr):
    for m in range(tl.program_id(0), rows, tl.num_programs(0)):
        tl.store(out + m, tl.sum(tl.load(x + m * n + tl.arange(0, B)), 0))
"""),
    in_triton("in-place", "out.zero_()\nfor k in range(4):\n    grows[(m,)](x, out, n, k * 8, 8)",
             "sums that grow from launch to launch", """
@triton.jit
def grows(x, out, n, at, B: tl.constexpr):
    m = tl.program_id(0)
    tl.store(out + m, tl.load(out + m) + tl.sum(tl.load(x + m * n + at + tl.arange(0, B)), 0))
"""),
    in_triton("returns-early", "early[(m + 5,)](x, out, m, n, 32)", "more programs than rows", """
@triton.jit
def early(x, out, rows, n, B: tl.constexpr):
    m = tl.program_id(0)
    if m >= rows:
        return
    tl.store(out + m, tl.sum(tl.load(x + m.to(tl.int64) * n + tl.arange(0, B)), 0))
"""),
)  # fmt: skip


def in_pallas(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return legal("pallas:v6e", name, f"{PALLAS}{before}\ndef row_sum(x):\n{lines}\n", shows, **more)


PALLAS_ODD = (
    in_pallas("revisits", """return pl.pallas_call(
    adds, grid=(2, 4), out_shape=jax.ShapeDtypeStruct((16, 1), x.dtype),
    in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))], out_specs=pl.BlockSpec((8, 1), lambda i, k: (i, 0)))(
    jnp.pad(x, ((0, 0), (0, 480))))[:, 0]""", "an output that several steps of the grid add to", """
def adds(x_ref, out_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        out_ref[...] = jnp.zeros_like(out_ref)
    out_ref[...] += jnp.sum(x_ref[...], axis=1, keepdims=True)
"""),
    in_pallas("loops", """return pl.pallas_call(loops, out_shape=jax.ShapeDtypeStruct((16, 1), x.dtype))(x)[:, 0]""",
              "a loop inside a kernel", """
def loops(x_ref, out_ref):
    def step(i, s):
        return s + jnp.sum(x_ref[:, :] * (jax.lax.broadcasted_iota(jnp.int32, (16, 32), 1) // 8 == i), axis=1, keepdims=True)
    plain = jnp.sum(x_ref[...], axis=1, keepdims=True)
    found = jax.lax.fori_loop(0, 4, step, jnp.zeros((16, 1), jnp.float32))
    out_ref[...] = jnp.where(jnp.isfinite(plain) & jnp.isfinite(found), found, plain)
"""),
)  # fmt: skip

UNUSUAL = (*CPP, *NUMBA_ODD, *TRITON_ODD, *PALLAS_ODD, *LAUNCHED, *CUDA)
