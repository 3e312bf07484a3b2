"""A second set of attacks and of legal oddities in float32, each with what it shows; those of row_sum at M=16, N=32.

``@WITNESS@`` in a text is a file that must not come to be.
"""

from __future__ import annotations

from typing import Any

from tests.judge.attacks import BESIDE, PRIVATE, Attack, cpp, in_cpp, in_numba
from tests.judge.cuda import HOSTILE as CUDA
from tests.judge.decoys import PALLAS, TRITON
from tests.judge.launched import HOSTILE as LAUNCHED

OPEN = {"M": None, "N": None}
WRONG = "incorrect"
ENDED = "crash|out-of-bounds|exception|memory|bad-message|timeout|incorrect|load"

MORE = """
#include <cfenv>
#include <clocale>
#include <csetjmp>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <pthread.h>
#include <sched.h>
#include <xmmintrin.h>
"""


def more_cpp(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    return in_cpp(name, body, shows, MORE + before, **more)


def opened(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    """With open dims, which come behind the arrays."""
    text = cpp("", MORE + before)
    text = text[: text.index('\nextern "C"')]
    text += f'\nextern "C" void row_sum(const float* x, float* out, int64_t M, int64_t N) {{\n    {body}\n}}\n'
    return Attack(f"cpp-{name}", "cpp:cpu", text, shows, dims=OPEN, **more)


SUMS = """for (int64_t m = 0; m < M; ++m) { float s = 0; for (int64_t n = 0; n < N; ++n) s += x[m * N + n]; out[m] = s; }"""

CPP = (
    # ---- answers that are none
    opened("memory-by-size", f"""static std::map<long, std::vector<float>> kept;
    auto& k = kept[M * 100003 + N];
    if (k.empty()) {{ {SUMS} k.assign(out, out + M); }} else memcpy(out, k.data(), M * 4);""",
           "answers kept by the size of what is asked", kind=WRONG),
    opened("memory-by-sample", f"""static std::map<std::string, std::vector<float>> kept;
    std::string key((const char*)x, std::min<int64_t>(M * N * 4, 8)); key += std::to_string(M * 100003 + N);
    auto& k = kept[key];
    if (k.empty()) {{ {SUMS} k.assign(out, out + M); }} else memcpy(out, k.data(), M * 4);""",
           "answers kept by the first elements, which gain nothing"),
    more_cpp("by-place", "honest(x, out); if (((uintptr_t)out >> 12) % 8) out[1] *= 1.01f;",
             "an answer that hangs on where arrays lie", kind=WRONG),
    more_cpp("by-number", "honest(x, out); if (out[2] > 1e3f || out[2] < -1e3f) out[2] = 0;",
             "large numbers that are lost", kind=WRONG),
    more_cpp("zeros-for-denormals-and-nan", "for (int m = 0; m < 16; ++m) { float s = 0; for (int n = 0; n < 32; ++n) "
             "{ float v = x[m * 32 + n]; if (v == v) s += v; } out[m] = s; }", "NaN that are skipped", kind=WRONG),
    more_cpp("beyond", """float far = 0; for (int n = 0; n < 8; ++n) far += x[16 * 32 + n];
    honest(x, out); if (far == far) out[0] += far;""", "what lies behind an input", kind=BESIDE),
    more_cpp("carries", """honest(x, out); static float before[16]; for (int m = 0; m < 16; ++m) out[m] += before[m] * 0.1f;
    memcpy(before, out, 64);""", "a carry from call to call", kind=WRONG),
    more_cpp("unwritten-heap", """float* t = (float*)malloc(4096);
    for (int m = 0; m < 16; ++m) for (int n = 0; n < 32; ++n) t[m] += x[m * 32 + n];
    memcpy(out, t, 64); free(t);""", "memory that happens to be zero", kind=WRONG),
    more_cpp("unwritten-pages", """const size_t size = 1 << 21; float* t = (float*)malloc(size);
    for (int m = 0; m < 16; ++m) for (int n = 0; n < 32; ++n) t[m * 1000] += x[m * 32 + n];
    for (int m = 0; m < 16; ++m) out[m] = t[m * 1000]; free(t);""", "pages that happen to be zero", kind=WRONG),
    more_cpp("far-from-its-arrays", "honest(x, out); out[1 << 13] = 1; out[-(1 << 13)] = 1;", "memory beyond the guard bands",
             kind=f"{BESIDE}|crash"),
    more_cpp("writes-its-input", "honest(x, out); ((float*)x)[5] = 0;", "an input that is changed", kind=f"{WRONG}|crash"),
    more_cpp("throws", "throw std::runtime_error(\"x\");", "an exception across the border", kind="crash"),
    more_cpp("jumps", "static jmp_buf where; if (setjmp(where) == 0) longjmp(where, 1); else return;", "a way out of the call",
             kind=WRONG),
    more_cpp("ends-its-thread", "pthread_exit(nullptr);", "the end of the thread that calls", kind=ENDED),
    more_cpp("stops-itself", "kill(getpid(), SIGSTOP);", "a process that stands still", kind="timeout", slow=True),
    more_cpp("ends-when-loaded", "honest(x, out);", "the end of the process when it is loaded",
             "static int end = (_exit(0), 1);\n", kind=ENDED),
    more_cpp("segv-handler",
             "struct sigaction a{}; a.sa_handler = later; sigaction(SIGSEGV, &a, nullptr); *(volatile int*)8 = 1;",
             "a fault that is handled for ever", "static void later(int) { usleep(1000); }\n", kind="timeout", slow=True),
    more_cpp("overflow-of-the-stack", "out[0] = deeper(1 << 30, x);", "a stack without end",
             """static float deeper(int n, const float* x) {
    volatile char room[4096]; room[0] = n; return n ? deeper(n - 1, x) + room[0] : x[0]; }
""", kind="crash"),
    # ---- text for compilers
    more_cpp("includes-itself", "honest(x, out);", "a text that includes itself", "#include __FILE__\n#include __FILE__\n",
             kind="compile|timeout|memory|crash", slow=True),
    more_cpp("endless-include", "honest(x, out);", "a file without end", '#include "/dev/zero"\n',
             kind="compile|timeout|memory|crash", slow=True),
    more_cpp("embeds", "honest(x, out);", "a file in the text",
             f"#if __has_include(\"{PRIVATE}\")\n#error root:seen\n#endif\n", kind="compile"),
    more_cpp("own-environment", "honest(x, out);", "the compiler's environment", '#include "/proc/self/environ"\n'),
    more_cpp("doubles", "out[0] = F9;", "a text that doubles", "#define F0 1+1\n" + "".join(
        f"#define F{n + 1} F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}\n" for n in range(9)),
             kind="compile|timeout|memory|crash", slow=True),
    more_cpp("screen", "", "marks for a terminal in the compiler's words", '#error "\x1b]0;owned\x07\x1b[2J"\n',
             kind="compile"),
    # ---- harm
    more_cpp("rounding", "fesetround(FE_UPWARD); _mm_setcsr(_mm_getcsr() | 0x8040); honest(x, out);",
             "another rounding from now on"),
    more_cpp("locale", 'setlocale(LC_ALL, "de_DE.UTF-8"); setlocale(LC_NUMERIC, "fr_FR"); honest(x, out);',
             "numbers with a comma", correct=True),
    more_cpp("at-exit", "static int once = atexit(later); honest(x, out); if (once) out[0] = 0;", "code after the end",
             'static void later() { touch("@WITNESS@"); }\n', correct=True),
    more_cpp("destructor", "honest(x, out);", "code when it is unloaded",
             'struct Late { ~Late() { touch("@WITNESS@"); } }; static Late late;\n', correct=True),
    more_cpp("alarm", """static int once = 0; if (!once++) { signal(SIGALRM, later); itimerval t{{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &t, nullptr); } honest(x, out);""", "code at any time", "static void later(int) { }\n",
             correct=True),
    more_cpp("threads-go-on", """static int once = 0;
    if (!once++) for (int i = 0; i < 8; ++i) std::thread([] { for (;;) sched_yield(); }).detach();
    honest(x, out);""", "threads that go on", correct=True),
    more_cpp("descriptors", "for (int i = 0; i < 100000; ++i) if (dup(2) < 0) break; honest(x, out);",
             "descriptors without end",
             kind=ENDED),
    more_cpp("links", """unlink("portakern"); symlink("/etc/passwd", "portakern"); symlink("/", "/tmp/root");
    symlink("@WITNESS@", "/tmp/w"); touch("/tmp/w"); honest(x, out);""", "links in its folder", correct=True),
    more_cpp("memory-of-files",
             """static int once = 0; if (!once++) { static char block[1 << 20]; memset(block, 1, sizeof block);
    for (int f = 0; f < 64; ++f) { int fd = syscall(SYS_memfd_create, "m", 0);
        for (int i = 0; i < 200; ++i) if (write(fd, block, sizeof block) < 0) break; } }
    honest(x, out);""", "memory that no limit of a process counts", kind=ENDED + "|timeout", slow=True),
    more_cpp("shared-memory", """static int once = 0; if (!once++) { const size_t size = 6ul << 30;
    char* p = (char*)mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) for (size_t i = 0; i < size; i += 4096) p[i] = 1; }
    honest(x, out);""", "memory that no limit of a process counts", kind=ENDED, slow=True),
    more_cpp("memory-of-many", """static int once = 0; if (!once++) for (int c = 0; c < 6; ++c) if (!fork()) {
        const size_t size = 1ul << 30; volatile char* p = (char*)malloc(size);
        for (size_t i = 0; i < size; i += 4096) p[i] = 1; sleep(60); _exit(0); }
    honest(x, out); sleep(2);""", "the limit of a process, many times", kind=ENDED, slow=True),
    more_cpp("raw-calls",
             """const char* text = "\\x40\\0\\0\\0{\\"id\\": 2, \\"status\\": \\"done\\", \\"blobs\\": []}         ";
    for (long fd = 3; fd < 64; ++fd) { long got; asm volatile("syscall" : "=a"(got) : "a"(1l), "D"(fd), "S"(text), "d"(50l)
        : "rcx", "r11", "memory"); } memset(out, 0, 64);""", "messages in the runner's name", kind=ENDED),
    more_cpp("gives-descriptors",
             """static char data[8]; iovec part{data, 1}; alignas(8) char room[CMSG_SPACE(sizeof(int) * 200)];
    msghdr message{}; message.msg_iov = &part; message.msg_iovlen = 1;
    message.msg_control = room; message.msg_controllen = sizeof room;
    cmsghdr* c = CMSG_FIRSTHDR(&message); c->cmsg_level = SOL_SOCKET; c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * 200);
    for (int i = 0; i < 200; ++i) ((int*)CMSG_DATA(c))[i] = 2;
    for (int fd = 3; fd < 64; ++fd) sendmsg(fd, &message, MSG_DONTWAIT); honest(x, out);""",
             "descriptors for who judges", kind=ENDED, slow=True),
)  # fmt: skip

NUMBA = (
    in_numba("objmode", "by_python(x, out)", "Python inside a kernel", """
@numba.njit
def by_python(x, out):
    with numba.objmode():
        out[:] = x.sum(1)
""", kind="decoy"),
    in_numba("objmode-in-a-closure", "made()(x, out)", "Python inside a kernel that a function makes", """
kept = []
def made():
    if not kept:
        @numba.njit
        def by_python(x, out):
            with numba.objmode():
                out[:] = x.sum(1)
        kept.append(by_python)
    return kept[0]
""", kind="decoy"),
    in_numba("forceobj", "by_python(x, out)", "a kernel that is Python", """
@numba.jit(forceobj=True)
def by_python(x, out):
    out[:] = x.sum(1)
""", kind="decoy|compile|bad-source"),
    in_numba("callback", "through(x, out)", "Python called from a kernel", """
import ctypes
import numpy as np
kept = {}
@ctypes.CFUNCTYPE(None)
def python():
    kept["out"][:] = kept["x"].sum(1)
@numba.njit
def call():
    python()
def through(x, out):
    kept["x"], kept["out"] = x, out
    call()
""", kind="decoy"),
    in_numba("forged-method", "", "an answer with words of its own", """
import portakern.referee.runner as r
old = r.answer
def answer(served, message):
    body, blobs = old(served, message)
    return {**body, "method": "proved; \\x1b[2J" + "x" * 100000}, blobs
r.answer = answer
""", kind="bad-message"),
    in_numba("screen", "raise ValueError('\\x1b]0;owned\\x07\\x1b[2Jroot\\r\\nok  correct')",
             "marks for a terminal in an error", kind="compile"),
    in_numba("half-a-pair", "raise ValueError('\\ud800')", "text that cannot be written", kind="compile"),
    in_numba("odd-kind", "raise PortakernError('correct\\x1b[2J', 'x' * 10_000_000)", "an error of another kind",
             "from portakern.errors import PortakernError\n", kind="compile"),
    in_numba("deep-json", "", "an answer that is nested deeply", """
import portakern.referee.messages as m
import portakern.referee.runner as r
import struct
def send(to, body, blobs=(), descriptors=()):
    text = b'{"id":' + b"[" * 60000
    to.sendall(struct.pack("<I", len(text)) + text)
r.send = send
""", kind=ENDED),
    in_numba("numbers-in-json", "", "numbers that are none", """
import portakern.referee.runner as r
import struct
def send(to, body, blobs=(), descriptors=()):
    text = b'{"id": ' + b"9" * 5000 + b', "status": "done", "blobs": [-1, 1e999, true]}'
    to.sendall(struct.pack("<I", len(text)) + text)
r.send = send
""", kind=ENDED),
    in_numba("drips", "", "an answer that does not end", """
import portakern.referee.runner as r
import time
def send(to, body, blobs=(), descriptors=()):
    to.sendall(b"\\xff\\xff\\x00\\x00{")
    while True:
        to.sendall(b" ")
        time.sleep(0.05)
r.send = send
""", kind="timeout|bad-message", slow=True),
    in_numba("guards-off", "out[:] = honest_of(x)", "guard bands that are switched off", """
import portakern.referee.runner as r
def load(self, message):
    type(self).real(self, message)
    return {"guards": False}, ()
r.Served.real, r.Served.load = r.Served.load, load
def honest_of(x):
    import ctypes
    import numpy as np
    t = np.empty(16, np.float32)
    honest(x, t)
    return t
"""),
    in_numba("finalizer", "late(lambda: None, open, '/tmp/x', 'w')", "code when objects go",
             "from weakref import finalize as late\nimport atexit\natexit.register(open, '@WITNESS@', 'w')\n", correct=True),
    in_numba("signals", "", "the runner's signals", """
import signal
for n in range(1, 65):
    try:
        signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
""", correct=True),
    in_numba("hooks", "", "imports and traces of the runner", """
import sys
import threading
sys.settrace(lambda *a: None)
sys.setprofile(lambda *a: None)
sys.addaudithook(lambda *a: None)
sys.setrecursionlimit(200)
sys.stdout = sys.stderr = None
threading.excepthook = sys.excepthook = print
""", correct=True),
    in_numba("environment", "", "the machine's settings of numpy and Python", """
import os
import random
import numpy as np
np.seterr(all="raise")
np.random.seed(0)
random.seed(0)
os.environ.clear()
os.chdir("/")
os.umask(0)
""", correct=True),
    in_numba("reduce", "", "a binary that runs where it is read", """
import pickle
import portakern.backends.cpu.numba.module as module
class Bomb:
    def __reduce__(self):
        return open, ("@WITNESS@", "w")
module.pack = lambda kernels: pickle.dumps([Bomb()])
"""),
    in_numba("resources", "", "resources of its own making", """
import json
old = json.dumps
json.dumps = lambda o, **more: old({**o, "resources": [
    {"kernel": "x" * 100000, "registers": 10**30, "extra": [], "source": ""}]} if "resources" in o else o, **more)
""", kind="bad-message"),
    in_numba("uninitialised", "t = np.empty(16, np.float32)\nadds(x, t)\nout[:] = t", "memory that happens to be zero", """
import numpy as np
@numba.njit
def adds(x, t):
    for m in range(x.shape[0]):
        for n in range(x.shape[1]):
            t[m] += x[m, n]
""", kind=WRONG),
    in_numba("race", "races(x, out)", "sums that threads tear from each other", """
import numpy as np
@numba.njit(parallel=True)
def races(x, out):
    out[:] = 0
    for n in numba.prange(x.shape[1]):
        for m in range(x.shape[0]):
            v = out[m]
            for _ in range(2000):
                v += numba.float32(1e-30)
            out[m] = v + x[m, n]
""", kind=f"{WRONG}|decoy"),
)  # fmt: skip


def in_triton(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    text = f"{TRITON}{before}\ndef row_sum(x, out):\n    m, n = x.shape\n{lines}\n"
    return Attack(f"triton-{name}", "triton:sm_90", text, shows, **more)


TRITON_HOSTILE = (
    in_triton("tears", "out.zero_()\ntears[(m, 2)](x, out, n, n // 2)", "sums of several programs without atomics", """
@triton.jit
def tears(x, out, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    tl.store(out + m, tl.load(out + m) + tl.sum(tl.load(x + m * n + i), 0))
""", kind="race"),
    in_triton("in-order", "t = torch.zeros((1,), device=x.device)\nordered[(m,)](x, out, t, n, 32)",
              "programs that hang on those before them", """
@triton.jit
def ordered(x, out, turn, n, B: tl.constexpr):
    m, i = tl.program_id(0), tl.arange(0, B)
    seen = tl.load(turn)
    tl.store(out + m, tl.sum(tl.load(x + m * n + i), 0) + tl.where(seen == m, 0.0, 1.0))
    tl.store(turn, seen + 1)
""", kind="race"),
    in_triton("unwritten", "t = torch.empty_like(out)\nadded[(m,)](x, t, n, 32)\ncopied[(1,)](t, out, m, 16)",
              "memory that happens to be zero", kind=f"{WRONG}|decoy"),
    in_triton("prints", "sums[(m,)](x, out, n, n, 32)\nprint('x' * 50_000_000)", "words without end", correct=True, slow=True),
    in_triton("patches-torch", "out.zero_()\nsums[(m,)](x, torch.empty_like(out), n, n, 32)",
             "comparisons that always succeed", """
torch.equal = torch.allclose = lambda *a, **k: True
import numpy
numpy.array_equal = numpy.allclose = lambda *a, **k: True
""", kind=f"{WRONG}|decoy"),
    in_triton("by-numpy-in-a-kernel", "sneaky[(1,)](x, out, n, 32)", "numpy where a kernel is interpreted", """
import numpy
@triton.jit
def sneaky(x, out, n, B: tl.constexpr):
    for m in range(16):
        tl.store(out + m, tl.sum(tl.load(x + m * n + tl.arange(0, B)), 0))
""", correct=True),
)  # fmt: skip


def in_pallas(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return Attack(f"pallas-{name}", "pallas:v6e", f"{PALLAS}{before}\ndef row_sum(x):\n{lines}\n", shows, **more)


PALLAS_HOSTILE = (
    in_pallas("callback", """out = jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype)
t = jax.pure_callback(lambda v: np.asarray(v).sum(1, keepdims=True, dtype=np.float32), out, x)
return copied(t)[:, 0]""", "Python called from the traced function", "import numpy as np\n",
              kind="decoy|compile|exception|load|incorrect|bad-source"),
    in_pallas("by-scan", """t, _ = jax.lax.scan(lambda c, v: (c + v, None), jnp.zeros(x.shape[0], x.dtype), x.T)
return copied(t[:, None])[:, 0]""", "work in a scan", kind="decoy"),
    in_pallas("by-cumsum", "return copied(jnp.cumsum(x, axis=1)[:, -1:])[:, 0]", "work in a running sum", kind="decoy"),
    in_pallas("unwritten", """def half(x_ref, out_ref):
    out_ref[:8, :] = jnp.sum(x_ref[:8, :], axis=1, keepdims=True)
return pl.pallas_call(half, out_shape=jax.ShapeDtypeStruct((16, 1), x.dtype))(x)[:, 0]""", "rows that are not written",
              kind=f"{WRONG}|runtime-unwritten"),
    in_pallas("configures", "return sums(x)[:, 0]", "settings of jax", """
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "bfloat16")
jax.config.update("jax_debug_nans", True)
"""),
)  # fmt: skip

HOSTILE = (*CPP, *NUMBA, *TRITON_HOSTILE, *PALLAS_HOSTILE, *LAUNCHED, *CUDA)
