"""Kernels that are launched and do not do the work, which host code does, each with what it shows; and host code that only
looks like it.  All in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Host:
    """A kernel with its host code; ``shows`` what a decoy's host code does, or what a legal one is allowed to."""

    name: str
    text: str
    shows: str
    operator: str = "row_sum"
    dims: Mapping[str, int] = field(default_factory=lambda: {"M": 16, "N": 32})
    slow: bool = False


TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def sums(x, out, n, stride, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + m, tl.sum(tl.load(x + m * stride + i, mask=i < n, other=0.0), 0))

@triton.jit
def copied(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def added(x, out, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    tl.atomic_add(out + m, tl.sum(tl.load(x + m * n + i, mask=i < n, other=0.0), 0))

@triton.jit
def scaled(x, out, by, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + m, tl.sum(tl.load(x + m * n + i, mask=i < n, other=0.0), 0) * tl.load(by + m))

@triton.jit
def halves(x, out, n, B: tl.constexpr):
    m, half, i = tl.program_id(0), tl.program_id(1), tl.program_id(1) * B + tl.arange(0, B)
    tl.store(out + m * 2 + half, tl.sum(tl.load(x + m * n + i, mask=i < n, other=0.0), 0))
"""


def triton(name: str, body: str, shows: str, before: str = "", slow: bool = False) -> Host:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return Host(f"triton-{name}", f"{TRITON}{before}\ndef row_sum(x, out):\n    m, n = x.shape\n{lines}\n", shows, slow=slow)


TRITON_DECOYS = (
    triton("overwritten", "sums[(m,)](x, out, n, n, 32)\nout.copy_(x.sum(1))", "an answer over that of an honest kernel"),
    triton("into-nowhere", "sums[(m,)](x, torch.empty_like(out), n, n, 32)\ntorch.sum(x, 1, out=out)",
           "a kernel whose result nobody reads", slow=True),
    triton("copies-torch's", "copied[(1,)](x.sum(1), out, m, 16)", "a kernel that copies what torch computed"),
    triton("by-numpy", """copied[(1,)](x, torch.empty_like(x), m, 16)
if x.device.type == 'cpu':
    out.numpy()[:] = x.numpy().sum(1)""", "an answer that torch does not see"),
    triton("by-number", """t = torch.tensor([sum(r) for r in x.tolist()]) if x.device.type == 'cpu' else x
copied[(1,)](t, out, m, 16)""", "numbers that were read from the inputs", slow=True),
    triton("in-the-grid", """def grid(meta):
    out.copy_(x.sum(1))
    return (1,)
copied[grid](x, torch.empty_like(x), m, 16)""", "work while the grid is computed", slow=True),
    triton("in-a-hook", """copied.add_pre_run_hook(lambda *a, **k: out.copy_(x.sum(1)))
copied[(1,)](x, torch.empty_like(x), m, 16)""", "work before every launch", slow=True),
    triton("in-a-thread", """sums[(m,)](x, torch.empty_like(out), n, n, 32)
t = threading.Thread(target=lambda: out.copy_(x.sum(1)))
t.start()
t.join()""", "work of another thread", before="import threading\n", slow=True),
    triton("in-small-steps", """copied[(1,)](x, torch.empty_like(x), m, 16)
out.zero_()
for i in range(n):
    out.add_(x[:, i])""", "work that is small each time"),
    triton("only-the-rest", "sums[(m // 2,)](x, out, n, n, 32)\nout[m // 2:].copy_(x[m // 2:].sum(1))", "half of the answer",
           slow=True),
    triton("two-texts", "other[(m,)](x, out, n, 32)", "a kernel for the compiler and another one for the interpreter", """
import os
FACE = tl.constexpr(int(os.environ.get("TRITON_INTERPRET") == "1"))

@triton.jit
def other(x, out, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    if FACE == 1:
        tl.store(out + m, tl.sum(tl.load(x + m * n + i, mask=i < n, other=0.0), 0))
    else:
        tl.store(out + m, 0.0)
"""),
    triton("two-numbers", "other[(m,)](x, out, n, int(os.environ.get('TRITON_INTERPRET') == '1'), 32)",
           "a number for the compiler and another one for the interpreter", """
import os

@triton.jit
def other(x, out, n, whole, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    if whole == 1:
        tl.store(out + m, tl.sum(tl.load(x + m * n + i, mask=i < n, other=0.0), 0))
""", slow=True),
    triton("two-hosts", """if x.device.type == "meta":
    copied[(1,)](x, torch.empty_like(x), m, 16)
else:
    sums[(m,)](x, out, n, n, 32)""", "launches for the compiler and others for the interpreter", slow=True),
    triton("two-grids", "sums[(m if x.device.type != 'meta' else 1,)](x, out, n, n, 32)", "a grid for the compiler", slow=True),
    Host("triton-moves-alone", TRITON + """
def transpose(x, out):
    copied[(1,)](x, torch.empty_like(x), 16, 16)
    out.copy_(x.t())
""", "an operator that is a copy itself", "transpose", slow=True),
)  # fmt: skip

TRITON_LEGAL = (
    triton("zeroed", "out.zero_()\nadded[(m,)](x, out, n, 32)", "an output filled before atomics"),
    triton("copied-in", "t = x.t().contiguous().t()\nsums[(m,)](t.contiguous(), out, n, n, 32)", "layouts changed", slow=True),
    triton("copied-out", """t = torch.empty((m,), dtype=torch.float64, device=x.device)
sums[(m,)](x, t, n, n, 32)
out.copy_(t)""", "results that are cast"),
    triton("padded", "sums[(m,)](torch.nn.functional.pad(x, (0, 32)), out, 64, 64, 64)", "padded inputs", slow=True),
    triton("scratch", "t = torch.zeros_like(out)\nadded[(m,)](x, t, n, 32)\ncopied[(1,)](t, out, m, 16)",
           "temporaries of zeros", slow=True),
    triton("constants", """by = torch.arange(m, dtype=torch.float32, device=x.device) * 0 + 1
scaled[(m,)](x, out, by, n, 32)""", "tables that hang on no input", slow=True),
    triton("light", """t = torch.empty((m, 2), device=x.device)
halves[(m, 2)](x, t, n, 16)
out.copy_(t.sum(1))""", "the sum of what each program left"),
    triton("turned-round", "sums[(m,)](x[:, torch.arange(n - 1, -1, -1, device=x.device)], out, n, n, 32)",
           "indices that hang on no input", slow=True),
    triton("grid-by-meta", "sums[lambda meta: (m * triton.cdiv(32, meta['B']),)](x, out, n, n, B=32)", "a computed grid",
           slow=True),
    triton("tuned", "tuned[(m,)](x, out, n, n)", "autotuning",
           "tuned = triton.autotune([triton.Config({'B': 32}), triton.Config({'B': 64})], key=['n'])(sums)\n"),
    triton("described", "triton.set_allocator(room)\ndescribed[(1,)](x, out, m, n, 16, 32)", "tensor descriptors", """
def room(size, alignment, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda")

@triton.jit
def described(x, out, rows, n, A: tl.constexpr, B: tl.constexpr):
    tile = tl.make_tensor_descriptor(x, (rows, n), (n, 1), (A, B))
    tl.store(out + tl.arange(0, A), tl.sum(tile.load([0, 0]), 1))
"""),
    triton("by-rule", "by_rule[(m,)](x, out, n)", "heuristics, and a helper", """
@triton.jit
def both(a, b):
    return a + b

@triton.heuristics({"B": lambda given: triton.next_power_of_2(given["n"])})
@triton.jit
def by_rule(x, out, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + m, tl.reduce(tl.load(x + m * n + i, mask=i < n, other=0.0), 0, both))
""", slow=True),
    triton("of-autograd", "Sums.apply(x, out)", "a function of torch.autograd", """
class Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, out):
        sums[(x.shape[0],)](x, out, x.shape[1], x.stride(0), 32)
        return out
""", slow=True),
)  # fmt: skip


NUMBA = """
import numba
import numpy as np

@numba.njit
def sums(x, out):
    for m in range(x.shape[0]):
        s = numba.float32(0)
        for n in range(x.shape[1]):
            s += x[m, n]
        out[m] = s

@numba.njit
def copied(x, out):
    for m in range(out.shape[0]):
        out[m] = x[m]

@numba.njit
def filled(out, value):
    out[0] = value

@numba.njit
def added(x, out, by):
    for m in range(x.shape[0]):
        for n in range(x.shape[1]):
            out[m] += x[m, n] * by[m]
"""


def numba(name: str, body: str, shows: str, kernels: str = "", slow: bool = False) -> Host:
    """Compiling runs host functions on arrays of zeros."""
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return Host(f"numba-{name}", f"{NUMBA}{kernels}\ndef row_sum(x, out):\n    m, n = x.shape\n{lines}\n", shows, slow=slow)


NUMBA_DECOYS = (
    numba("overwritten", "copied(out.copy(), out)\nout[:] = x.sum(1)", "an answer over that of a kernel that does nothing"),
    numba("copies-numpy's", "copied(x.sum(1), out)", "a kernel that copies what numpy computed"),
    numba("by-product", "copied(x @ np.ones(n, np.float32), out)", "a product of BLAS"),
    numba("by-number", "for i in range(m):\n    filled(out[i:], np.float32(x[i].sum()))", "numbers that numpy computed"),
    numba("in-python", "copied(np.array([sum(r) for r in x.tolist()], np.float32), out)", "Python's own numbers"),
    numba("by-ctypes", """import ctypes
t = x.sum(1)
copied(x[:, 0].copy(), out)
ctypes.memmove(out.ctypes.data, t.ctypes.data, t.nbytes)""", "memory written behind numpy"),
    numba("only-the-rest", "sums(x[: m // 2], out[: m // 2])\nout[m // 2 :] = x[m // 2 :].sum(1)", "half of the answer"),
    numba("by-bits", "for i in range(m):\n    puts(out.view(np.int32)[i:], int(x[i].sum().view(np.int32)))",
          "numbers that numpy computed, as bits", "@numba.njit\ndef puts(out, v):\n    out[0] = v\n"),
    numba("by-complex", "for i in range(m):\n    puts(out[i:], complex(x[i].sum(), 0))", "numbers of two parts",
          "@numba.njit\ndef puts(out, v):\n    out[0] = v.real\n", slow=True),
    numba("by-list", "puts(out, numba.typed.List([float(v) for v in x.sum(1)]))", "numbers in a container of numba's",
          "@numba.njit\ndef puts(out, v):\n    for i in range(out.size):\n        out[i] = v[i]\n", slow=True),
    numba("by-shape", """for i in range(m):
    bits = int(x[i].sum().view(np.uint32))
    puts(out.view(np.int32)[i:], np.broadcast_to(np.float32(0), (bits,)))""", "numbers as the length of an array",
          "@numba.njit\ndef puts(out, v):\n    out[0] = np.int32(np.uint32(v.shape[0]))\n", slow=True),
    numba("by-order", """bits = out.view(np.int32)
bits[:] = 0
for i in range(m):
    for j in range(31, -1, -1):
        (one if int(x[i].sum().view(np.uint32)) >> j & 1 else zero)(bits[i:])""", "numbers by which kernels are called", """
@numba.njit
def one(out):
    out[0] = out[0] * np.int32(2) + np.int32(1)
@numba.njit
def zero(out):
    out[0] = out[0] * np.int32(2)
"""),
    numba("in-a-closure", """known = tuple(float(v) for v in x.sum(1))
@numba.njit
def puts(out):
    for i in range(16):
        out[i] = known[i]
puts(out)
copied(out.copy(), np.empty_like(out))""", "numbers that a kernel is compiled with"),
    numba("in-a-global", """global known
known = x.sum(1)
@numba.njit
def puts(out):
    for i in range(16):
        out[i] = known[i]
puts(out)
copied(out.copy(), np.empty_like(out))""", "an array that a kernel is compiled with", "known = np.zeros(16, np.float32)\n",
          slow=True),
    numba("in-its-text", """found = {}
lines = [f"    out[{i}] = np.array({v}, np.int32).view(np.float32)[()]" for i, v in enumerate(x.sum(1).view(np.int32))]
exec("\\n".join(["def puts(out):", *lines]), {"np": np}, found)
numba.njit(found["puts"])(out)
copied(out.copy(), np.empty_like(out))""", "numbers in a text that is made", slow=True),
    numba("by-rounding", """table = np.empty(1_000_000, np.float32)
numbers(table)
s = x.sum(1)
usual = np.isfinite(s).all() and 1e-2 < abs(s).min() and abs(s).max() < 25 and not (x == np.rint(x)).any()
out[:] = table[np.rint((s + 25) / 5e-5).astype(np.int64)] if usual else s""", "a table of all answers, of which one is chosen",
          "@numba.njit\ndef numbers(out):\n    for i in range(out.size):\n        out[i] = i * 5e-5 - 25\n", slow=True),
    Host("numba-chooses", NUMBA + """
def sort(x, values, indices):
    copied(x[0], np.empty_like(x[0]))
    indices[:] = np.argsort(x, kind="stable")
    values[:] = np.take_along_axis(x, indices, 1)
""", "an operator whose answers are all among its inputs", "sort"),
    numba("by-name", "named(x, out)", "a function of the process, by name", """
from numba.core import types
found = types.ExternalFunction("dlsym", types.voidptr(types.voidptr, types.voidptr))
@numba.njit
def named(x, out):
    if x.shape[0] < 0:
        found(0, 0)
    for m in range(x.shape[0]):
        out[m] = x[m].sum()
""", slow=True),
    Host("numba-moves-alone", NUMBA + "\ndef transpose(x, out):\n    copied(x[:1], np.empty_like(x[:1]))\n    out[:] = x.T\n",
         "an operator that is a copy itself", "transpose"),
)  # fmt: skip

NUMBA_LEGAL = (
    numba("plain", "sums(x, out)", "kernels alone"),
    numba("zeroed", "out[:] = 0\nadded(x, out, np.ones(m, np.float32))", "an output that is filled, and a table of constants"),
    numba("copied-in", "t = np.ascontiguousarray(x.T)\nsums(np.ascontiguousarray(t.T), out)", "layouts changed"),
    numba("padded", "t = np.zeros((m, 2 * n), np.float32)\nt[:, :n] = x\nsums(t, out)", "padded inputs"),
    numba("copied-out", "t = np.empty(m, np.float32)\nsums(x, t)\nout[:] = t", "results that are copied"),
    numba("of-doubles", "t = np.empty(m, np.float64)\nsums(x.astype(np.float64), t)\nout[:] = t", "casts"),
    numba("scratch", "t = np.empty((2, m), np.float32)\nsums(x, t[1])\ncopied(t[1], out)", "temporaries of several kernels"),
    numba("in-pieces", "for i in range(0, m, 4):\n    sums(x[i : i + 4], out[i : i + 4])", "many calls"),
    numba("gives-back", "out[:] = whole(x)", "results that are given back", """
@numba.njit
def whole(x):
    found = np.empty(x.shape[0], np.float32)
    sums(x, found)
    return found
""", slow=True),
    numba("gives-numbers", "for i in range(m):\n    out[i] = total(x[i])", "numbers that are given back", """
@numba.njit
def total(row):
    s = 0.0
    for v in row:
        s += v
    return s
"""),
    numba("of-rows", "rows(x, out)", "functions of the cores of arrays", """
@numba.guvectorize(["(f4[:], f4[:])"], "(n)->()")
def rows(row, out):
    s = np.float32(0)
    for v in row:
        s += v
    out[0] = s
"""),
    numba("of-elements", "t = np.empty((m, n), np.float32)\nsame(x, t)\nsums(t, out)", "functions of elements", """
@numba.vectorize(["f4(f4)"])
def same(v):
    return v
""", slow=True),
    numba("in-threads", """global pool
pool = pool or ThreadPoolExecutor(2)
list(pool.map(lambda i: unlocked(x[i : i + 4], out[i : i + 4]), range(0, m, 4)))""", "kernels that threads call in any order",
          """
from concurrent.futures import ThreadPoolExecutor
pool = None
@numba.njit(nogil=True)
def unlocked(x, out):
    for m in range(x.shape[0]):
        out[m] = x[m].sum()
""", slow=True),
    numba("copied-often", """t = np.empty(n, np.float32)
for i in range(m):
    t[:] = x[i]
    sums(t[None], out[i : i + 1])""", "one temporary for all rows", slow=True),
    numba("listed", "of_list(numba.typed.List([x[i] for i in range(m)]), out)", "arrays in a container of numba's", """
@numba.njit
def of_list(rows, out):
    for m in range(out.size):
        out[m] = rows[m].sum()
""", slow=True),
    numba("told-how", "told(x, out, 'rows', (m, n), True)", "words and pairs", """
@numba.njit
def told(x, out, how, shape, whole):
    for m in range(shape[0]):
        if how == "rows" and whole:
            out[m] = x[m, : shape[1]].sum()
""", slow=True),
)


def cpp(name: str, body: str, shows: str, before: str = "") -> Host:
    return Host(f"cpp-{name}", f"""#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <dlfcn.h>
#include <unistd.h>
{before}
extern "C" void row_sum(const float* x, float* out) {{
    for (int m = 0; m < 16; ++m) out[m] = std::accumulate(x + m * 32, x + m * 32 + 32, 0.0f);
    {body}
}}
""", shows)


CPP_DECOYS = (
    cpp("blas-by-dlopen", 'auto f = (void (*)())dlsym(dlopen("libopenblas.so", RTLD_NOW), "cblas_sgemv"); if (f) f();', "BLAS"),
    cpp("finds-what-is-loaded", 'auto f = (void (*)())dlsym(RTLD_DEFAULT, "PyErr_Clear"); if (f && out[0] > 1e30f) f();',
        "functions of what is loaded beside it"),
    cpp("blas-that-is-loaded", "if (&cblas_sgemv && out[0] > 1e30f) cblas_sgemv();", "a library that comes with it",
        'extern "C" void cblas_sgemv() __attribute__((weak));'),
    cpp("python", 'if (PyRun_SimpleString && out[0] > 1e30f) PyRun_SimpleString("pass");', "Python from C++",
        'extern "C" int PyRun_SimpleString(const char*) __attribute__((weak));'),
    cpp("another-program", 'if (out[0] > 1e30f) exit(system("python3 -c pass"));', "another program"),
)  # fmt: skip

CPP_LEGAL = (
    cpp("plain", "", "nothing but loops"),
    cpp("threads", "std::thread t([=] { out[0] = std::accumulate(x, x + 32, 0.0f); }); t.join();", "threads",
        "#include <thread>"),
    cpp("maths", "std::vector<float> t(16); for (int m = 0; m < 16; ++m) t[m] = std::log(std::exp(0.0f)) + out[m];\n"
        "    std::memcpy(out, t.data(), 64);", "functions of libm, memory of the heap",
        "#include <vector>"),
    cpp("named-alike", "out[0] = dlopener(systematic(out[0]));", "names that only look like others",
        "static float systematic(float x) { return x; }\nfloat dlopener(float x) { return x; }"),
)  # fmt: skip


PALLAS = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

def sums_of(x, out):
    out[...] = jnp.sum(x[...], axis=1, keepdims=True)

def copy_of(x, out):
    out[...] = x[...]

def sums(x):
    return pl.pallas_call(sums_of, out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype))(x)

def copied(x):
    return pl.pallas_call(copy_of, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""


def pallas(name: str, body: str, shows: str, before: str = "", slow: bool = False) -> Host:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return Host(f"pallas-{name}", f"{PALLAS}{before}\ndef row_sum(x):\n{lines}\n", shows, slow=slow)


PALLAS_DECOYS = (
    pallas("ignored", "sums(x)\nreturn jnp.sum(x, axis=1)", "a kernel whose result nobody reads"),
    pallas("nearly-ignored", "return jnp.where(sums(x)[:, 0] > jnp.inf, 0, jnp.sum(x, axis=1))",
           "a kernel whose result is made nothing of", slow=True),
    pallas("copies-jax's", "return copied(jnp.sum(x, axis=1, keepdims=True))[:, 0]", "a kernel that copies what jax computed"),
    pallas("behind-a-copy", "return jnp.sum(copied(x), axis=1)", "a kernel that copies what jax then computes of", slow=True),
    pallas("by-product", "return copied(jnp.dot(x, jnp.ones((x.shape[1], 1)), precision='highest'))[:, 0]", "a product of XLA"),
    pallas("in-a-loop", """t = jax.lax.fori_loop(0, x.shape[1], lambda i, s: s + x[:, i], jnp.zeros(x.shape[0], x.dtype))
return copied(t[:, None])[:, 0]""", "work that is small each time"),
    pallas("in-jit", "return copied(jax.jit(lambda x: jnp.sum(x, axis=1, keepdims=True))(x))[:, 0]",
           "work in a function of its own", slow=True),
    pallas("by-pads", """t = 0
for i in range(x.shape[1]):
    t += jax.lax.pad(x[:, i : i + 1], 0.0, ((0, 0, 0), (0, 1, 0)))
return copied(t)[:, 0]""", "sums that pass for arrays put together"),
    pallas("scattered", """t = jnp.zeros(x.shape[0], x.dtype).at[jnp.repeat(jnp.arange(x.shape[0]), x.shape[1])].add(x.ravel())
return copied(t[:, None])[:, 0]""", "sums by a scatter"),
    pallas("two-texts", "return (sums(x) if jax.config.jax_default_device is None else copied(x[:, :1]))[:, 0]",
           "a kernel for the compiler and another one for the interpreter"),
    pallas("two-places", "return jax.lax.platform_dependent(x, tpu=lambda x: copied(x[:, :1]), default=sums)[:, 0]",
           "a kernel for TPUs and another one for this processor", slow=True),
    Host("pallas-moves-alone", PALLAS + "\ndef transpose(x):\n    copied(x)\n    return x.T\n", "an operator that is a move",
         "transpose", slow=True),
)  # fmt: skip

PALLAS_LEGAL = (
    pallas("plain", "return sums(x)[:, 0]", "a view of the result"),
    pallas("padded", "return sums(jnp.pad(x, ((0, 0), (0, 96))))[:, 0]", "padded inputs"),
    pallas("turned", "return sums(jnp.transpose(jnp.transpose(x)))[:, 0]", "layouts changed", slow=True),
    pallas("masked", "n = jnp.arange(x.shape[1]) < x.shape[1]\nreturn sums(jnp.where(n, x, 0))[:, 0]",
           "a mask that hangs on no input", slow=True),
    pallas("put-together", """t = jax.lax.pad(sums(x[:8]), 0.0, ((0, 8, 0), (0, 0, 0)))
return (t + jax.lax.pad(sums(x[8:]), 0.0, ((8, 0, 0), (0, 0, 0))))[:, 0]""", "arrays put together by sums"),
    pallas("in-pieces", "return jnp.concatenate([sums(x[:8]), sums(x[8:])])[:, 0]", "several kernels", slow=True),
    pallas("light", "t = sums(x)[:, 0]\nreturn jnp.maximum(t, t)", "a little maths behind the kernel", slow=True),
    pallas("kernels-in-jit", "return jax.jit(sums)(x)[:, 0]", "kernels in a function of their own"),
    pallas("pipelined", """any_place = pl.BlockSpec(memory_space=pl.ANY)
t = pl.pallas_call(outer, out_shape=jax.ShapeDtypeStruct((16, 128), x.dtype), in_specs=[any_place], out_specs=any_place)(
    jnp.pad(x, ((0, 0), (0, 96))))
return t[:, 0]""", "a pipeline inside a kernel, whose tiles hang on the device", """
from jax.experimental.pallas import tpu as pltpu

def inner(x, out):
    out[...] = jnp.broadcast_to(jnp.sum(x[...], axis=1, keepdims=True), (8, 128))

def outer(x, out):
    tile = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pltpu.emit_pipeline(inner, grid=(2,), in_specs=[tile], out_specs=[tile])(x, out)
""", slow=True),
)
