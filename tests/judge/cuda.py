"""Attacks and legal oddities in CUDA C++, each with what it shows; those of row_sum at M=16, N=32 in float32.

Without a GPU such a text is compiled twice: for the device, of which only machine code comes, and for this processor, where
an interpreter of its threads runs it.  So it is C++ in a process here, which can tell the one from the other (``ON_HOST``).
"""

from __future__ import annotations

from typing import Any

from tests.judge.attacks import PRIVATE, Attack

WRONG = "incorrect"
SEEN = "simulator|race|hazard"
"""What the interpreter says of threads."""
REFUSED = "compile|bad-source|unsupported-source|simulator"
ENDED = f"crash|out-of-bounds|exception|memory|bad-message|timeout|load|{WRONG}"

LAUNCH = "// portakern launch: kernel=row_sum grid=(16, 1, 1) block=(32, 1, 1) shared=0 args=(x, out)\n"

TEXT = """{before}
{launch}extern "C" __global__ void row_sum(const float* x, float* out)
{{
    const int m = blockIdx.x, t = threadIdx.x;
    {body}
}}
"""

SUM = "float s = 0; for (int n = 0; n < 32; ++n) s += x[m * 32 + n]; "
LANES = "float s = x[m * 32 + t]; for (int k = 16; k; k /= 2) s += __shfl_xor_sync(~0u, s, k); "
STORE = "if (t == 0) out[m] = s;"
TWO_WARPS = LAUNCH.replace("block=(32,", "block=(64,")


def cuda(body: str, before: str = "", launch: str = LAUNCH) -> str:
    return TEXT.format(body=body, before=before, launch=launch)


def attack(name: str, body: str, shows: str, before: str = "", launch: str = LAUNCH, slow: bool = True, **more: Any) -> Attack:
    """Each is compiled twice, which takes seconds: most are slow tests."""
    return Attack(f"cuda-{name}", "cuda:sm_80", cuda(body, before, launch), shows, slow=slow, **more)


def wrong(name: str, body: str, shows: str, before: str = "", kind: str = WRONG, **more: Any) -> Attack:
    return attack(name, body, shows, before, kind=kind, **more)


def right(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    return attack(name, body, shows, before, correct=True, **more)


BUGS = (
    # ---- what is left out, or taken twice
    wrong("nothing", "", "outputs that were never written"),
    wrong("last-row", SUM + "if (t == 0 && m < 15) out[m] = s;", "a row that is left out"),
    wrong("no-thread", SUM + "if (t == 32) out[m] = s;", "a thread that is not there"),
    wrong("last-element", SUM + "s -= x[m * 32 + 31]; " + STORE, "an element that is left out"),
    wrong("twice", SUM + "s += x[m * 32]; " + STORE, "an element that is taken twice"),
    wrong("tail", "float s = 0; for (int n = 0; n + 5 <= 32; n += 5) for (int i = 0; i < 5; ++i) s += x[m * 32 + n + i]; "
          + STORE, "a tail that is missing"),
    wrong("half-of-the-lanes", LANES.replace("k = 16", "k = 8") + STORE, "lanes that are never added"),
    wrong("one-step-less", LANES.replace("k; k", "k > 1; k") + STORE, "a last step that is missing"),
    wrong("half-of-the-grid", SUM + STORE, "blocks that are not launched", launch=LAUNCH.replace("(16,", "(8,")),
    wrong("threads-twice", LANES.replace("m * 32 + t", "m * 32 + t % 32") + "__shared__ float q[2]; if (t % 32 == 0) "
          "q[t / 32] = s; __syncthreads(); if (t == 0) out[m] = q[0] + q[1];", "elements that two threads take",
          launch=TWO_WARPS),
    # ---- wrong places
    wrong("next-row", SUM + "if (t == 0) out[(m + 1) % 16] = s;", "an answer in another row"),
    wrong("one-beside", SUM + "if (t == 0) out[m + 1] = s;", "an index that is one off", kind=f"{WRONG}|out-of-bounds|crash"),
    wrong("columns", "float s = 0; for (int n = 0; n < 32; ++n) s += x[n * 16 + m]; " + STORE, "columns for rows"),
    wrong("stride", "float s = 0; for (int n = 0; n < 32; ++n) s += x[m * 31 + n]; " + STORE, "a wrong stride"),
    wrong("narrow-index", "float s = 0; for (int n = 0; n < 32; ++n) { unsigned char i = m * 32 + n; s += x[i]; } " + STORE,
          "an index of eight bits"),
    wrong("beyond-its-input", SUM + "if (m == 15) s += x[16 * 32]; " + STORE, "what lies behind an input"),
    wrong("before", SUM + STORE + " if (t == 0) out[m - 1000] = 1;", "memory before the arrays"),
    wrong("behind", SUM + STORE + " if (m == 15 && t == 0) out[16] = 1;", "the element behind an output"),
    wrong("far", SUM + STORE + " out[m + 100000000] = 1;", "memory that is none", kind=f"crash|out-of-bounds|{WRONG}"),
    wrong("writes-its-input", SUM + STORE + " ((float*)x)[5] = 0;", "an input that is changed", kind=f"{WRONG}|crash"),
    wrong("faults", SUM + STORE + " *(volatile int*)8 = 1;", "an address that is none", kind="crash"),
    # ---- numbers
    wrong("skips-nan", "float s = 0; for (int n = 0; n < 32; ++n) { float v = x[m * 32 + n]; if (v == v) s += v; } " + STORE,
          "NaN that are skipped"),
    wrong("clamps", SUM + "if (!(s < 1e6f)) s = 1e6f; " + STORE, "large sums that are lost"),
    wrong("integers", "int q = 0; for (int n = 0; n < 32; ++n) q += (int)(x[m * 32 + n] * 256.0f); float s = q / 256.0f; "
          + STORE, "an accumulator of integers"),
    wrong("narrow-accumulator", "union { float f; unsigned u; } s = {0}; for (int n = 0; n < 32; ++n) "
          "{ s.f += x[m * 32 + n]; s.u &= 0xffff0000u; } if (t == 0) out[m] = s.f;", "an accumulator of sixteen bits",
          slow=False),
    wrong("narrow-inputs", "float s = 0; for (int n = 0; n < 32; ++n) { union { float f; unsigned u; } v = {x[m * 32 + n]}; "
          "v.u &= 0xffff0000u; s += v.f; } " + STORE, "inputs of sixteen bits"),
    wrong("offset", "float s = 1e6f; for (int n = 0; n < 32; ++n) s += x[m * 32 + n]; s -= 1e6f; " + STORE,
          "a sum that begins far away"),
    wrong("absolute", "float s = 0; for (int n = 0; n < 32; ++n) s += x[m * 32 + n] < 0 ? -x[m * 32 + n] : x[m * 32 + n]; "
          + STORE, "signs that are lost"),
    wrong("nearly-zero", SUM + "s += 1e-3f; " + STORE, "a sum that does not begin at zero"),
    wrong("rounded", SUM + "s = (float)(int)s; " + STORE, "whole numbers"),
    # ---- threads
    wrong("no-barrier", LANES.replace("m * 32 + t", "m * 32 + t % 32") + "__shared__ float q[2]; if (t % 32 == 0) "
          "q[t / 32] = s / 2; if (t == 0) out[m] = q[0] + q[1];", "a barrier that is missing", launch=TWO_WARPS,
          kind=f"{SEEN}|{WRONG}"),
    wrong("no-second-barrier", "__shared__ float q[1]; for (int k = 0; k < 2; ++k) { if (t == k * 32) q[0] = x[m * 32 + k]; "
          "__syncthreads(); if (t == 63) out[m] = k ? out[m] + q[0] : q[0]; }", "shared memory that is used again too early",
          launch=TWO_WARPS, kind=f"{SEEN}|{WRONG}"),
    wrong("barrier-in-a-branch", SUM + "if (t < 32) __syncthreads(); " + STORE, "a barrier that not all threads meet",
          launch=TWO_WARPS, kind=SEEN),
    wrong("shuffle-in-a-branch", "float s = x[m * 32 + t]; if (t < 16) s += __shfl_xor_sync(~0u, s, 8); " + STORE,
          "an exchange that not all lanes meet", kind=SEEN),
    wrong("returns-early", SUM + "if (t > 40) return; __syncthreads(); " + STORE, "threads that have gone before a barrier",
          launch=TWO_WARPS, kind=SEEN),
    wrong("shared-unwritten", "__shared__ float q[33]; q[t] = x[m * 32 + t]; __syncwarp(); float s = 0; "
          "for (int n = 0; n < 33; ++n) s += q[n]; " + STORE, "shared memory that happens to be zero",
          kind=f"{SEEN}|{WRONG}"),
    wrong("all-add", "if (t == 0) out[m] = 0; __syncwarp(); out[m] = out[m] + x[m * 32 + t];",
          "lanes that add to the same place", kind=f"{SEEN}|{WRONG}"),
    wrong("order-of-blocks", SUM + "if (t == 0) out[m] = m ? s + 0.0f * out[m - 1] : s;", "what other blocks have written"),
    wrong("races", SUM + "if (t == 0) { out[m] = s; if (m) out[m - 1] += 1e-3f; }",
          "what blocks write into each other's places"),
    wrong("adds-to-output", SUM + "if (t == 0) out[m] += s;", "an output that is taken for zeros"),
    # ---- answers that were not computed
    wrong("stale", SUM + "if (t == 0) { if (!had[m]++) kept[m] = s; out[m] = kept[m]; }", "an answer kept from the first call",
          "__device__ float kept[16];\n__device__ int had[16];"),
    wrong("carries", SUM + "if (t == 0) { out[m] = s + before[m] * 0.1f; before[m] = s; }", "a carry from call to call",
          "__device__ float before[16];"),
    wrong("by-place", SUM + "if (t == 0) out[m] = ((unsigned long long)out >> 12) % 8 ? s * 1.01f : s;",
          "an answer that hangs on where arrays lie"),
    wrong("by-number", SUM + "if (t == 0) out[m] = out[m] > 1e3f || out[m] < -1e3f ? 0 : s;",
          "a poisoned output told from a fresh one"),
    attack("knows-the-poison", SUM + "if (out[m] == out[(m + 1) % 16]) return; " + STORE,
           "constant poison, by which a check is told from a use; here it never is one"),
)  # fmt: skip

ON_HOST = '#ifndef __CUDACC_RTC__\n#include <cstdio>\n#include <cstdlib>\n#include <dlfcn.h>\n#include <fcntl.h>\n' \
          '#include <signal.h>\n#include <sys/ptrace.h>\n#include <unistd.h>\n{}\n#else\n{}\n#endif\n'
"""Text for this processor, and in its place for the device."""


def on_host(name: str, does: str, shows: str, more: str = "", **kinds: Any) -> Attack:
    """A kernel that is right, and does something as C++ of this processor, once: it is found out before it runs."""
    kinds = {"kind": "decoy", **kinds}
    does = f"static int begun = 0; if (!begun++) {{ {does} }}"
    before = ON_HOST.format(f"{more}\nstatic void harm() {{ {does} }}", "__device__ void harm() {}")
    return attack(name, SUM + STORE + " harm();", shows, before, **kinds)


def launched(name: str, old: str, new: str, shows: str, kind: str, **more: Any) -> Attack:
    """A kernel whose launch says something else."""
    return attack(name, SUM + STORE, shows, launch=LAUNCH.replace(old, new), kind=kind, **more)


EXPLOITS = (
    # ---- text that reads or runs by being compiled
    attack("includes-a-file", SUM + STORE, "a compiler's log that shows files", '#include "/etc/passwd"', kind=REFUSED),
    attack("includes-by-macro", SUM + STORE, "a file whose name is made", '#define WHAT "/etc/passwd"\n#include WHAT',
           kind=REFUSED),
    attack("own-environment", SUM + STORE, "the compiler's environment", '#include "/proc/self/environ"', kind=REFUSED),
    attack("embeds", SUM + STORE, "a file in the text", f'#if __has_include("{PRIVATE}")\n#error root:seen\n#endif'),
    attack("incbin", SUM + STORE, "a file that becomes part of the binary",
           'asm(".section .rodata\\n.incbin \\"/etc/passwd\\"\\n.previous");', kind=REFUSED),
    attack("incbin-on-host", SUM + STORE, "a file that becomes part of what runs here",
           ON_HOST.format(f'asm(".section .rodata\\n.incbin \\"{PRIVATE}\\"\\n.previous");', "")),
    attack("endless-include", SUM + STORE, "a file without end", '#include "/dev/urandom"', kind=f"{REFUSED}|{ENDED}"),
    attack("screen", SUM + STORE, "marks for a terminal in the compiler's words", '#error "\x1b]0;owned\x07\x1b[2J"',
           kind=REFUSED),
    attack("templates", SUM + "s += deep<100000>(); " + STORE, "templates without end",
           "template <int N> __device__ int deep() { return deep<N - 1>() + deep<N - 1>(); }",
           kind=f"{REFUSED}|compile-timeout|{ENDED}"),
    attack("doubles", SUM + "s += F8; " + STORE, "a text that doubles", "#define F0 1.0f\n" + "".join(
        f"#define F{n + 1} F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}\n" for n in range(8)),
           kind=f"{REFUSED}|compile-timeout|{ENDED}"),
    # ---- machine code
    attack("syscall", SUM + STORE + ' asm volatile("syscall");', "a call of the system for the device", kind=REFUSED),
    attack("syscall-on-host", SUM + STORE + " harm();", "the end of its process by a call of the system", ON_HOST.format(
        'static void harm() { asm volatile("mov $231, %%eax; xor %%edi, %%edi; syscall" ::: "rax", "rdi", "rcx", "r11"); }',
        "__device__ void harm() {}"), kind=ENDED),
    attack("not-ptx", SUM + STORE + ' asm volatile("mov.u32 %r1, 1; } .visible .entry other() { ret;");',
           "assembly that ends its kernel and begins another", kind=REFUSED),
    attack("traps", SUM + STORE + ' asm volatile("trap;");', "an instruction that stops", kind=f"{REFUSED}|crash"),
    # ---- the host, by name
    attack("host-code", SUM + STORE, "host code in the text",
           '#include <cstdlib>\nint main() { return system("touch @WITNESS@"); }', kind=f"{REFUSED}|{ENDED}"),
    attack("calls-by-name", SUM + STORE + ' system("touch @WITNESS@");', "a program that is started",
           'extern "C" int system(const char*);', kind=f"{REFUSED}|decoy"),
    on_host("opens", 'int f = open("@WITNESS@", O_CREAT | O_WRONLY, 0666); (void)f;', "a file outside", slow=False),
    on_host("starts", 'int e = system("touch @WITNESS@"); (void)e;', "a program that is started"),
    on_host("kills", "kill(-1, 9); kill(getppid(), 9);", "signals to whoever can be reached"),
    on_host("forks", 'if (!fork()) { setsid(); sleep(1); close(open("@WITNESS@", O_CREAT | O_WRONLY, 0666)); _exit(0); }',
            "a process that stays behind"),
    on_host("exits", "_exit(0);", "the end of its process"),
    on_host("reads-its-parent", 'char name[64]; snprintf(name, sizeof name, "/proc/%d/mem", getppid()); '
            'if (open(name, O_RDWR) >= 0 || ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0) _exit(3);',
            "the memory of another process"),
    on_host("answers", "for (int f = 3; f < 64; ++f) if (write(f, \"\\xff\\xff\\xff\\xff\", 4) < 0) continue;",
            "messages in the runner's name"),
    on_host("floods", 'for (int i = 0; i < 400000; ++i) printf("%d xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", i);',
            "words without end", kind=""),
    on_host("static-initialiser", "", "code that runs when a library is loaded",
            'static int made = close(open("@WITNESS@", O_CREAT | O_WRONLY, 0666));'),
    # ---- the interpreter
    on_host("forgives", "host::fault = nullptr; host::early = true;", "an interpreter that is told what to see", kind=""),
    attack("no-barriers", "__shared__ float q[64]; q[t] = x[m * 32 + t % 32]; __syncthreads(); float s = 0; "
           "for (int n = 0; n < 32; ++n) s += q[32 + n]; " + STORE, "barriers that are taken out of what is interpreted",
           "#ifndef __CUDACC_RTC__\n#define __syncthreads()\n#endif", launch=TWO_WARPS, kind=f"{SEEN}|{WRONG}|{REFUSED}"),
    attack("swallows", SUM + STORE + "\n}\n/*", "a comment that has no end", kind=REFUSED),
    attack("loops", SUM + "while (s == s) s += 0.0f * m; " + STORE, "a loop without end", kind="timeout"),
    # ---- launches
    launched("negative-grid", "(16, 1, 1)", "(-16, 1, 1)", "fewer blocks than none", "bad-source", slow=False),
    launched("huge-grid", "(16, 1, 1)", "(99999999999, 1, 1)", "more blocks than a number has", "bad-source", slow=False),
    launched("large-grid", "(16, 1, 1)", "(2000000000, 1, 1)", "more blocks than end", f"timeout|{ENDED}"),
    launched("no-grid", "(16, 1, 1)", "(0, 1, 1)", "no block at all", f"bad-source|{WRONG}"),
    launched("huge-block", "block=(32, 1, 1)", "block=(4096, 4096, 1)", "a block that no device has", "bad-source", slow=False),
    launched("huge-shared", "shared=0", "shared=99999999999", "memory that no device has", "bad-source", slow=False),
    launched("more-arguments", "(x, out)", "(x, out, out)", "arguments that the kernel has not", f"{REFUSED}|{ENDED}"),
    launched("fewer-arguments", "(x, out)", "(x)", "arguments that are not given", f"{REFUSED}|{ENDED}"),
    launched("input-as-output", "(x, out)", "(x, x)", "an input in the output's place", WRONG),
    launched("name-is-a-path", "=row_sum", "=../../row_sum", "a name that becomes a path", "bad-source", slow=False),
    launched("name-is-none", "kernel=row_sum", "kernel=other", "a kernel that is not there", f"no-kernel|{REFUSED}"),
    launched("calls-in-the-grid", "(16, 1, 1)", "(exit(1), 1, 1)", "Python in a size", "bad-source", slow=False),
)  # fmt: skip

UNUSUAL = (
    right("plain", SUM + STORE, "nothing but loops", slow=False),
    right("lanes", LANES + STORE, "lanes that exchange what they have"),
    right("warps", "__shared__ float q[2]; float s = t < 32 ? x[m * 32 + t] : 0; for (int k = 16; k; k /= 2) "
          "s += __shfl_xor_sync(~0u, s, k); if (t % 32 == 0) q[t / 32] = s; __syncthreads(); if (t == 0) out[m] = q[0] + q[1];",
          "warps that meet in shared memory", launch=TWO_WARPS),
    right("wider", "double s = 0; for (int n = 0; n < 32; ++n) s += x[m * 32 + n]; if (t == 0) out[m] = (float)s;",
          "a wider accumulator"),
    right("backwards", "float s = 0; for (int n = 31; n >= 0; --n) s += x[m * 32 + n]; " + STORE,
          "elements from the last to the first"),
    right("all-store-alike", SUM + "out[m] = s;", "what all threads store alike"),
    right("more-blocks", "if (m >= 16) return; " + SUM + STORE, "more blocks than rows", launch=LAUNCH.replace("(16,", "(21,")),
    right("odd-text", "LOOP(k, 1) if (t == 0) out[m] = S<32>::of(x + m * 32);", "templates, macros and continued lines",
          "/* 和 row_sum(x, out) \\\n */\n#define LOOP(i, n) \\\n    for (int i = 0; i < (n); ++i)\n"
          "template <int N> struct S { static __device__ float of(const float* x) { return x[N - 1] + S<N - 1>::of(x); } };\n"
          "template <> struct S<0> { static __device__ float of(const float*) { return 0; } };"),
)  # fmt: skip

HOSTILE = (*BUGS, *EXPLOITS)
