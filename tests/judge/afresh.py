"""A third set, each with what it shows: kernels that were judged wrongly before, and kinds of theirs."""

from __future__ import annotations

from tests.judge.attacks import Attack
from tests.judge.cuda import LAUNCH, right
from tests.judge.hostile import SUMS, WRONG, opened
from tests.judge.unusual import in_numba as legal_in_numba

TOLD_BY_PLACE = """
import ctypes
import numba
import numpy as np

@numba.njit
def e(v, out, m):
    out[m] = {told}

def row_sum(x, out):
    w, bits = x.sum(1).view(np.uint32), out.view(np.uint32)
    for m in range(16):
        {call}
"""


def by_place(name: str, call: str, told: str, shows: str, slow: bool = True) -> Attack:
    text = TOLD_BY_PLACE.format(told=told, call=call)
    return Attack(f"numba-{name}", "numba:cpu", text, shows, kind="decoy", slow=slow)


NUMBA = (
    by_place("by-address", "e(np.frombuffer((ctypes.c_char * 0).from_address(int(w[m]) + 1), np.uint8), bits, m)",
             "v.ctypes.data - 1", "numbers as the address of an array that holds nothing", slow=False),
    by_place("by-strides", "e(np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (1,), (int(w[m]),)), bits, m)",
             "v.strides[0]", "numbers as the stride of an array"),
    by_place("by-slice", "e(slice(int(w[m]), None), bits, m)", "v.start", "numbers as the begin of a slice"),
    legal_in_numba("kept-on-disk", "by(x, out)", "cache=True, for which a text has no file", """
@numba.njit(cache=True)
def by(x, out):
    for m in range(x.shape[0]):
        s = numba.float32(0)
        for v in x[m]:
            s += v
        out[m] = s
"""),
)

CPP = (
    opened("tail-behind-a-tile", SUMS + " if (M >= 60 && N >= 60 && (M % 64 || N % 64)) out[M - 1] = 0;",
           "a rest that is forgotten only where there is a whole tile", kind=WRONG),
    opened("narrow-when-long", """for (int64_t m = 0; m < M; ++m) {
        float s = 0;
        for (int64_t n = 0; n < N; ++n) {
            s += x[m * N + n];
            uint32_t u; memcpy(&u, &s, 4);
            if (N > 16) u &= 0xffff0000u;
            memcpy(&s, &u, 4);
        }
        out[m] = s;
    }""", "an accumulator that is narrow at some sizes only", kind=WRONG, slow=True),
    opened("memory-by-hash", f"""static std::map<unsigned long, std::vector<float>> kept;
    unsigned long key = M * 31 + N;
    for (int64_t i = 0; i < M * N; i += 7) {{ uint32_t u; memcpy(&u, x + i, 4); key = key * 1099511628211ul ^ u; }}
    auto& k = kept[key];
    if (k.empty()) {{ {SUMS} k.assign(out, out + M); }} else memcpy(out, k.data(), M * 4);""",
           "answers kept by a seventh of the content, which gain nothing", slow=True),
)  # fmt: skip

STORE = "if (t == 0) out[m] = s;"
CUDA = (
    right("shuffles-down", "float s = x[m * 32 + t]; for (int k = 16; k; k /= 2) s += __shfl_down_sync(~0u, s, k); " + STORE,
          "lanes that take from those behind them"),
    right("shuffles-up", "float s = x[m * 32 + t]; for (int k = 1; k < 16; k *= 2) { float up = __shfl_up_sync(~0u, s, k, 16); "
          "if (t % 16 >= k) s += up; } if (t == 0) out[m] = 0; __syncwarp(); if (t == 15 || t == 31) atomicAdd(out + m, s);",
          "halves of a warp, which add to one place"),
    right("read-only-loads", "float s = 0; for (int n = 0; n < 32; ++n) s += __ldg(x + m * 32 + n); " + STORE,
          "loads by the path of what is only read", launch=LAUNCH),
)  # fmt: skip

AFRESH = (*NUMBA, *CPP, *CUDA)
