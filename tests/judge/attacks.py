"""Kernels of lazy and hostile generators in float32, each with what it shows; where not said, of row_sum at M=16, N=32.

In a text, ``@WITNESS@`` is a file that must not come to be, and ``@CACHE@`` the folder of our cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Attack:
    """``kind`` is the error's kind that it must end in, or several with ``|`` between; ``correct`` where it does its work
    beside, and only must do no harm.  ``dims`` may be ``None`` for those left open.
    """

    name: str
    target: str
    text: str
    shows: str
    kind: str = ""
    correct: bool = False
    entry: str | None = None
    slow: bool = False
    operator: str = "row_sum"
    dims: Mapping[str, int | None] = field(default_factory=lambda: {"M": 16, "N": 32})


ROOT = Path(__file__).parents[2]
PRIVATE = ROOT / "pyproject.toml"
"""A file that is there, and of which kernels and their compilers must not know."""

BESIDE = "out-of-bounds|incorrect"
"""What an access beside an array ends in, on the side where nothing is and on that of the guard band."""

DAEMON_S = 1
"""After so long a process that stayed behind would leave its witness."""

HONEST_CPP = """
static void honest(const float* x, float* out) {
    for (int m = 0; m < 16; ++m) {
        float sum = 0;
        for (int n = 0; n < 32; ++n) sum += x[m * 32 + n];
        out[m] = sum;
    }
}
"""

HEADERS = """
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
static void touch(const char* path) { int f = open(path, O_CREAT | O_WRONLY, 0666); if (f >= 0) close(f); }
"""

HONEST_NUMBA = """
import numba
@numba.njit
def honest(x, out):
    for m in range(x.shape[0]):
        s = numba.float32(0)
        for n in range(x.shape[1]):
            s += x[m, n]
        out[m] = s
"""


def cpp(body: str, before: str = "") -> str:
    return f'{HEADERS}{HONEST_CPP}{before}\nextern "C" void row_sum(const float* x, float* out) {{\n    {body}\n}}\n'


def numba(body: str, before: str = "") -> str:
    """A host function must call a kernel of its own, or it is not compiled."""
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return f"{HONEST_NUMBA}\n{before}\ndef row_sum(x, out):\n    honest(x, out)\n{lines}\n"


def in_cpp(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    return Attack(f"cpp-{name}", "cpp:cpu", cpp(body, before), shows, **more)


def rows_in_cpp(name: str, operator: str, arguments: str, row: str, shows: str, m: str = "1024", n: str = "1024",
                **more: Any) -> Attack:  # fmt: skip
    """A kernel that goes row by row; its arrays are as large as those of a default call where nothing else is said."""
    text = f"""#include <algorithm>
#include <cmath>
#include <cstdint>
extern "C" void {operator}({arguments}) {{
    for (int64_t m = 0; m < {m}; ++m) {{
        const int64_t width = {n}, at = m * width;
        {row}
    }}
}}
"""
    more = {"kind": "incorrect", "dims": {"M": 1024, "N": 1024}, **more}
    return Attack(f"cpp-{name}", "cpp:cpu", text, shows, operator=operator, **more)


def in_numba(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    return Attack(f"numba-{name}", "numba:cpu", numba(body, before), shows, **more)


# By warm processes those of row_sum at M=16, N=32 are judged in the default tests, by fresh ones those that are not slow: of
# each kind some, and all of other operators and sizes, of which each would need a judge of its own.
ATTACKS = (
    # ---- wrong answers
    in_cpp("nothing", "", "outputs that were never written", kind="incorrect", slow=True),
    in_cpp("stale", """static float kept[16]; static int have = 0;
    if (!have++) honest(x, kept);
    memcpy(out, kept, sizeof kept);""", "an answer kept from the first call", kind="incorrect", slow=True),
    in_numba("forges-done", """
import os
import socket
import struct
for fd in range(3, 64):
    try:
        text = b'{"id": 2, "status": "done", "method": "", "blobs": []}'
        os.write(fd, struct.pack("<I", len(text)) + text)
    except OSError:
        pass
os._exit(0)
""", "an answer that was never computed, in the runner's name"),
    in_numba("expected-by-gc", """
import gc
import sys
import numpy as np
best = [o for o in gc.get_objects() if type(o).__name__ == "Val"]
frame = sys._getframe()
while frame is not None:
    best += [v for v in frame.f_locals.values() if type(v).__name__ in ("Val", "Checking")]
    frame = frame.f_back
out[:] = best[0].x if best else 0
""", "the oracle's answer in the memory of the same process", kind="incorrect", slow=True),
    in_numba("patches-numpy", "out[:] = 0", "comparisons that always succeed", """
import numpy
numpy.array_equal = lambda *a, **k: True
try:
    import portakern.check.stages as s
    s.compare = lambda *a: type("R", (), {"ratio": 0.0, "message": ""})()
except Exception:
    pass
""", kind="incorrect", slow=True),
    # ---- answers to what could be foreseen
    in_numba("foresees-the-seed", "out[:] = answers.get(x.tobytes(), 0)", "inputs of a fixed seed, known before", """
import zlib
import numpy as np
def known(seed):
    rng = np.random.Generator(np.random.SFC64([seed, zlib.crc32(b"x")]))
    return rng.standard_normal((16, 32), dtype=np.float32)
answers = {known(seed).tobytes(): known(seed).sum(1) for seed in range(20)}
""", kind="incorrect", slow=True),
    in_cpp("knows-the-poison", """unsigned char byte = *(unsigned char*)out;
    for (size_t i = 0; i < 64; ++i) if (((unsigned char*)out)[i] != byte) return;
    honest(x, out);""", "constant poison, by which a check is told from a use", kind="incorrect", slow=True),
    rows_in_cpp("forgets-the-maximum", "softmax", "const float* x, float* out", """float sum = 0;
        for (int64_t i = at; i < at + width; ++i) sum += out[i] = std::exp(x[i]);
        for (int64_t i = at; i < at + width; ++i) out[i] /= sum;""", "large programs that go without adversarial inputs"),
    rows_in_cpp("loses-nan", "add_relu", "const float* a, const float* b, float* out",
                "for (int64_t i = at; i < at + width; ++i) out[i] = std::fmax(a[i] + b[i], 0.0f);",
                "large programs that go without NaN"),
    rows_in_cpp("variance-in-one-pass", "layer_norm", "const float* x, const float* w, const float* b, float* out",
                """float sum = 0, squares = 0;
        for (int64_t i = at; i < at + width; ++i) { sum += x[i]; squares += x[i] * x[i]; }
        const float mean = sum / width, scale = 1 / std::sqrt(std::max(squares / width - mean * mean, 0.0f) + 1e-5f);
        for (int64_t i = 0; i < width; ++i) out[at + i] = (x[at + i] - mean) * scale * w[i] + b[i];""",
                "inputs with a mean of zero"),
    rows_in_cpp("only-the-asked-size", "row_sum", "const float* x, float* out, int64_t M, int64_t N",
                "float sum = 0; for (int64_t i = at; i < at + width; ++i) sum += x[i]; out[m] = sum;",
                "open dims that are always the same", m="M", n="1024", dims={"M": None, "N": None},
                kind="incorrect|out-of-bounds"),  # rows of 1024 where there are fewer
    rows_in_cpp("only-whole-tiles", "row_sum", "const float* x, float* out, int64_t M, int64_t N",
                "float sum = 0; for (int64_t i = 0; i < N / 8 * 8; ++i) sum += x[m * N + i]; out[m] = sum;",
                "open dims that are powers of two", m="M", n="N", dims={"M": None, "N": None}),
    # ---- text that reads or writes by being compiled
    in_cpp("includes-a-file", "honest(x, out);", "a compiler's log that shows files", '#include "/etc/passwd"\n', slow=True),
    in_cpp("incbin", "honest(x, out);", "a file that becomes part of the binary",
           'asm(".section .rodata\\n.incbin \\"/etc/passwd\\"\\n.previous");\n', slow=True),
    Attack("cpp-entry-is-a-path", "cpp:cpu", cpp("honest(x, out);"), "a name that becomes a path", entry="../../row_sum",
           kind="bad-source"),
    in_cpp("line-of-a-file", "honest(x, out);", "lines of a file in a compiler's words",
           '#line 1 "/proc/self/environ"\n#error planted here\n', kind="compile", slow=True),
    # ---- harm
    in_cpp("variables", """static char all[1 << 16]; int f = open("/proc/self/environ", O_RDONLY);
    long n = f >= 0 ? read(f, all, sizeof all) : 0;
    for (long i = 0; i + 7 < n; ++i) if (!memcmp(all + i, "planted", 7)) return;
    if (getenv("DATABASE_ADDRESS")) return;
    honest(x, out);""", "the user's variables", correct=True, slow=True),
    in_cpp("files-beside", f"""for (const char* file : {{"pyproject.toml", ".git/HEAD", "benchmarks/quiet.py"}}) {{
        char path[4096]; snprintf(path, sizeof path, "%s/%s", "{ROOT}", file);
        if (open(path, O_RDONLY) >= 0) return;
    }}
    honest(x, out);""", "files beside what is imported", correct=True, slow=True),
    in_cpp("terminals", """for (int i = 0; i < 64; ++i) {
        char name[32]; snprintf(name, sizeof name, "/dev/pts/%d", i);
        if (open(name, O_WRONLY) >= 0) return;
    }
    for (const char* name : {"/dev/tty", "/dev/console", "/dev/ptmx", "/dev/kvm", "/dev/fuse", "/dev/kmsg", "/dev/mem"})
        if (open(name, O_RDWR) >= 0) return;
    honest(x, out);""", "terminals and devices that do not compute", correct=True, slow=True),
    in_cpp("fills-memory-by-files", """static char block[1 << 20]; long most = 0;
    memset(block, 1, sizeof block);
    static int once = 0; if (!once++) for (const char* folder : {"/var/tmp", "/dev/shm", "/run"}) {
        char name[64]; snprintf(name, sizeof name, "%s/f", folder);
        for (int f = open(name, O_CREAT | O_WRONLY, 0666); f >= 0 && write(f, block, sizeof block) > 0;) ++most;
    }
    if (most > 100) return;
    honest(x, out);""", "the machine's memory, as files", correct=True, slow=True),
    in_cpp("writes-a-file", 'touch("@WITNESS@"); honest(x, out);', "a file outside", correct=True, slow=True),
    in_cpp("static-initialiser", "honest(x, out);", "code that runs when a library is loaded",
           'static int made = (touch("@WITNESS@"), 1);\n', correct=True, slow=True),
    in_cpp("kills-its-parent", "kill(getppid(), 9); kill(1, 9); honest(x, out);", "signals to who judges", correct=True,
           slow=True),
    in_cpp("kills-everything", "kill(-1, 9); honest(x, out);", "signals to whoever can be reached", slow=True),
    in_cpp("reads-its-parent", """char name[64], byte[8] = {0};
    for (int pid = getppid() > 1 ? getppid() : 2; pid; pid = pid > 1 ? 1 : 0) {
        snprintf(name, sizeof name, "/proc/%d/mem", pid);
        iovec here{byte, 8}, there{(void*)0x400000, 8};
        if (pid != getpid() && (open(name, O_RDWR) >= 0 || ptrace(PTRACE_ATTACH, pid, 0, 0) == 0 ||
            process_vm_readv(pid, &here, 1, &there, 1, 0) > 0)) { out[0] = 1; return; }
    }
    honest(x, out);""", "the memory of another process", correct=True),
    in_cpp("daemon", f"""if (!fork()) {{ setsid(); if (!fork()) {{ sleep({DAEMON_S}); touch("@WITNESS@"); }} _exit(0); }}
    honest(x, out);""", "a process that stays behind"),
    in_cpp("fork-bomb", "for (int i = 0; i < 3000; ++i) if (fork() == 0) { sleep(30); _exit(0); } honest(x, out);",
           "processes without end", slow=True),
    in_cpp("fills-the-log", """static char line[1 << 16]; memset(line, 'x', sizeof line);
    for (int i = 0; i < 4000; ++i) if (write(2, line, sizeof line) < 0) break;
    honest(x, out);""", "logs without end", slow=True),
    in_cpp("raises-its-limits", """rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    out[0] = 1; if (setrlimit(RLIMIT_DATA, &all) == 0) return; honest(x, out);""", "limits that are soft", slow=True),
    in_numba("pickle-in-the-channel", """
import os
import pickle
import struct
class Bomb:
    def __reduce__(self):
        return os.system, ("touch @WITNESS@",)
body = pickle.dumps(("value", pickle.dumps(Bomb())))
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack("<Q", len(body)) + body)
        os.write(fd, pickle.dumps(Bomb()))
    except OSError:
        pass
os._exit(0)
""", "code that runs where the answer is read", slow=True),
    in_numba("poisons-the-cache", """
import os
for root, _, files in os.walk("@CACHE@"):
    for name in files:
        try:
            os.unlink(os.path.join(root, name))
        except OSError:
            pass
try:
    open("@WITNESS@", "w").close()
except OSError:
    pass
honest(x, out)
""", "binaries and expected values of others", correct=True, slow=True),
    in_numba("huge-message", """
import os
import struct
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack("<I", 0xFFFFFFFF))
    except OSError:
        pass
os._exit(0)
""", "memory of who reads the answer", slow=True),
)  # fmt: skip
