"""Kernels for a GPU that are right when they are checked and would be fast when they are timed, in CUDA C++ and with Triton's
host functions, each with what it shows.  Of row_sum at M=16, N=32 in float32."""

from __future__ import annotations

from tests.judge.cuda import STORE, SUM, cuda
from tests.judge.decoys import TRITON
from tests.judge.timed_attacks import LATER, TimedAttack

COUNTED = "__device__ int calls[16];\n"
PREFIXES = "__device__ float kept[65536][16];\n__device__ float had[65536][16];\n"
DEVICE = "unstable|crash|device-lost|timeout|exception|incomplete-timing"
"""What a device may end in that a kernel has stopped."""


def of_cuda(name: str, body: str, before: str, shows: str, kind: str = "unstable", says: str = "") -> TimedAttack:
    return TimedAttack(f"cuda-{name}", "cuda", cuda(SUM + body, COUNTED + before), shows, kind, says)


def of_triton(name: str, body: str, shows: str, kind: str = "unstable", says: str = "", before: str = "") -> TimedAttack:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    text = f"{TRITON}{before}\ncount = [0]\n\ndef row_sum(x, out):\n    m, n = x.shape\n    count[0] += 1\n{lines}\n"
    return TimedAttack(f"triton-{name}", "triton", text, shows, kind, says)


HONEST = "sums[(m,)](x, out, n, n, 32)"
ADDED = "t = torch.zeros_like(out); added[(m,)](x, t, n, 32); out.copy_(t)"
AT_FIRST = f"if count[0] < {LATER}:\n    {HONEST}"

CUDA = (
    of_cuda("stale", f"if (t == 0 && ++calls[m] < {LATER}) out[m] = s;", "", "outputs that are still there from the last call",
            says="never written"),
    of_cuda("pointer", f"""if (t == 0) {{ const int k = ((unsigned long long)x >> 9) % 4096;
    if (++calls[m] < {LATER} || at[k][m] != x) {{ at[k][m] = x; kept[k][m] = s; }}
    out[m] = kept[k][m]; }}""", "__device__ float kept[4096][16];\n__device__ const float* at[4096][16];\n",
            "answers from a memory by address", says="elements wrong"),
    of_cuda("prefix", f"""if (t == 0) {{ const unsigned k = __float_as_uint(x[m * 32]) % 65536;
    if (++calls[m] < {LATER} || had[k][m] != x[m * 32]) {{ had[k][m] = x[m * 32]; kept[k][m] = s; }} else kept[k][m] = 1e9f;
    out[m] = kept[k][m] == 1e9f ? s : kept[k][m]; }}""", PREFIXES,
            "answers from a memory by the first of the content, of which nothing comes back", kind=""),
    of_cuda("one-in-many", "if (t == 0) { const int c = ++calls[m]; out[m] = c < 60 || c % 4 == 0 ? s : 0; }", "",
            "work that is done now and then"),
    of_cuda("outside", f"if (t == 0) {{ out[m] = s; if (++calls[m] > {LATER}) out[16] = 1; }}", "",
            "what lies beside an array once it is timed, where a device has no guard bands: the answer is its own", kind=""),
    of_cuda("in-a-hurry", """if (t == 0) { unsigned long long now; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (now - last[m] > 1000000) out[m] = s; last[m] = now; }""", "__device__ unsigned long long last[16];\n",
            "nothing where calls come soon after each other", "unstable|incorrect"),
    of_cuda("loops-later", f"if (t == 0) {{ out[m] = s; if (++calls[m] > {LATER}) for (;;) __nanosleep(1000); }}", "",
            "a loop without end once it is timed", DEVICE),
    of_cuda("faults-later", f"if (t == 0) {{ out[m] = s; if (++calls[m] > {LATER}) *(volatile int*)8 = 1; }}", "",
            "an address that is none once it is timed", DEVICE),
)  # fmt: skip

TRITON_HOST = (
    of_triton("stale", AT_FIRST, "nothing after some calls of a host function, which is not called: its launches are", ""),
    of_triton("stale-beside", f"""if count[0] < {LATER}:
    {ADDED}""", "outputs that are still there, of a host function that is called, since not all it does is launches",
              says="never written"),
    of_triton("late-beside", f"""with torch.cuda.stream(side):
    torch.cuda._sleep(30_000_000)
    {ADDED}""", "the same on a stream that nobody waits for",
              "unstable|incomplete-timing|implausible-timing|incorrect|decoy|timeout", "",
              "side = torch.cuda.Stream()\n"),
    of_triton("pointer", f"""if count[0] < {LATER} or x.data_ptr() not in kept:
    {HONEST}
    kept[x.data_ptr()] = out.clone()
else:
    out.copy_(kept[x.data_ptr()])""", "answers from a memory by address", "unstable|decoy", "", "kept = {}\n"),
    of_triton("content", f"""key = bytes(x.cpu().numpy())
if count[0] < {LATER} or key not in kept:
    {HONEST}
    kept[key] = out.clone()
else:
    out.fill_(1e9)""", "answers from a memory by content, which tensors without data have not", "compile", "", "kept = {}\n"),
    of_triton("beside", f"""with torch.cuda.stream(side):
    torch.cuda._sleep(3_000_000)
    {HONEST}""", "work on a stream that nobody waits for, of which the launch alone is timed", "", "",
              "side = torch.cuda.Stream()\n"),
    of_triton("in-a-thread", f"""def later():
    time.sleep(0.003)
    {HONEST}
threading.Thread(target=later).start()""", "work that is queued when the clock has stopped",
              "no-kernel", "", "import threading, time\n"),
    of_triton("raw-cuda", "kernel((m,), (32,), (x.data_ptr(), out.data_ptr()))",
              "CUDA C++ launched by cupy in Triton's name",
              "no-kernel", "", '''
import cupy
kernel = cupy.RawKernel(r"""extern "C" __global__ void row_sum(const float* x, float* out) {
    float s = 0; for (int n = 0; n < 32; ++n) s += x[blockIdx.x * 32 + n]; if (threadIdx.x == 0) out[blockIdx.x] = s; }""",
                        "row_sum")
'''),
    of_triton("by-torch", "torch.sum(x, 1, out=out)\nsums[(m,)](x, torch.empty_like(out), n, n, 32)",
              "an answer of torch's beside a kernel", "decoy"),
    of_triton("patched", HONEST, "clocks that are another's, of which nothing comes", "", "", """
torch.cuda.Event.elapsed_time = lambda self, other: 1e-6
torch.cuda.synchronize = lambda *a: None
triton.testing.do_bench = lambda *a, **k: 1e-6
"""),
    of_triton("faults-later", f"{HONEST}\nif count[0] > {LATER}:\n    sums[(1 << 16,)](x, out, n, n << 20, 32)",
              "addresses that are none after some calls of a host function, which is not called", ""),
    of_triton("takes-all", f"{HONEST}\nif count[0] > {LATER}:\n    held.append(torch.empty(1 << 32, device='cuda'))",
              "all of the device's memory, taken by a host function that is not called", "", "", "held = []\n"),
)  # fmt: skip

HONEST_CUDA = TimedAttack("cuda-honest", "cuda", cuda(SUM + STORE), "a kernel that does its work")
HONEST_TRITON = of_triton("honest", HONEST, "a kernel that does its work", "")

ON_A_GPU = (HONEST_CUDA, *CUDA, HONEST_TRITON, *TRITON_HOST)
