"""Attacks and legal oddities in OpenCL C, SYCL and HIP, whose texts are kernels only: each with what it shows; those of
row_sum at M=16, N=32 in float32.

Kernels of a processor run in a process like any C: they reach its memory, its functions by name, and the system by assembly.
Those of AMD's devices are executed by a machine that reads their assembly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.judge.attacks import BESIDE, PRIVATE, Attack

WRONG = "incorrect"
ENDED = "crash|out-of-bounds|exception|memory|bad-message|timeout|incorrect|load"
REFUSED = "compile|bad-source|crash"
DRIVER = "driver|incorrect|crash"

LAUNCH = "// portakern launch: kernel=row_sum grid=(16, 1, 1) block=(1, 1, 1) shared=0 args=(x, out)\n"

OPENCL_TEXT = """
{launch}{before}
__kernel void row_sum(__global const float *x, __global float *out)
{{
    const int m = (int)get_group_id(0);
    float s = 0.0f;
    for (int n = 0; n < 32; ++n) s += x[m * 32 + n];
    {body}
}}
"""

SYCL_TEXT = """#include "pk/cpu.hpp"
#define __global
{before}
{launch}PK_KERNEL row_sum(const float *x, float *out)
{{
    const int m = (int)pk::group(0);
    float s = 0;
    for (int n = 0; n < 32; ++n) s += x[m * 32 + n];
    {body}
}}
"""

EXTERNAL = {"opencl": "", "sycl": 'extern "C" SYCL_EXTERNAL '}
"""How a function of the process is declared."""


def opencl(body: str, before: str = "", launch: str = LAUNCH) -> str:
    return OPENCL_TEXT.format(body=body, before=before, launch=launch)


def sycl(body: str, before: str = "", launch: str = LAUNCH) -> str:
    return SYCL_TEXT.format(body=body, before=before, launch=launch)


def in_opencl(name: str, body: str, shows: str, before: str = "", launch: str = LAUNCH, **more: Any) -> Attack:
    return Attack(f"opencl-{name}", "opencl:cpu", opencl(body, before, launch), shows, **more)


def in_sycl(name: str, body: str, shows: str, before: str = "", launch: str = LAUNCH, **more: Any) -> Attack:
    return Attack(f"sycl-{name}", "sycl:cpu", sycl(body, before, launch), shows, **more)


def in_both(name: str, body: str, shows: str, before: str = "", launch: str = LAUNCH, alike: bool = False,
            **more: Any) -> Sequence[Attack]:  # fmt: skip
    """``@EXTERN@`` declares a function of the process.  What is found out ``alike`` in both is a slow test in SYCL."""
    by_language = {"opencl": more, "sycl": {**more, "slow": True} if alike else more}
    return [make(name, body, shows, before.replace("@EXTERN@", EXTERNAL[language]), launch, **by_language[language])
            for language, make in (("opencl", in_opencl), ("sycl", in_sycl))]  # fmt: skip


def reaching(name: str, declared: str, call: str, shows: str, **more: Any) -> Sequence[Attack]:
    """A kernel that is right, and calls a function of its process."""
    return in_both(name, f"out[m] = s; {call}", shows, f"@EXTERN@{declared};\n", **{"kind": "decoy", **more})


def characters(name: str, text: str) -> str:
    """Texts of OpenCL C are constants, which functions of the process do not take."""
    return f"char {name}[] = {{{', '.join(map(str, text.encode()))}, 0}};"


SAVED = ("rax", "rcx", "rdi", "rsi", "r11")
"""What a call of the system changes; OpenCL C takes no lists of these."""


def by_assembly(name: str, number: int, shows: str, first: str = "0", second: str = "0", **more: Any) -> Sequence[Attack]:
    """A kernel that is right, and calls the system.  SYCL's compiler leaves assembly out."""
    call = [f"mov ${number}, %eax", f"mov ${first}, %edi", f"mov ${second}, %esi", "syscall"]
    lines = ["lea -128(%rsp), %rsp", *(f"push %{r}" for r in SAVED), *call, *(f"pop %{r}" for r in reversed(SAVED)),
             "lea 128(%rsp), %rsp"]  # fmt: skip
    return [in_opencl(name, f'out[m] = s; __asm__ volatile("{"; ".join(lines)}");', shows, **more)]


def launched(name: str, old: str, new: str, shows: str, **more: Any) -> Sequence[Attack]:
    """A kernel whose launch says something else; the text is read alike for both, so that one language will do."""
    return [in_opencl(name, "out[m] = s;", shows, launch=LAUNCH.replace(old, new), **more)]


HIP_LAUNCH = LAUNCH.replace("block=(1,", "block=(64,")

HIP_TEXT = """#include <hip/hip_runtime.h>
{before}
{launch}extern "C" __global__ void row_sum(const float *x, float *out)
{{
    const int m = blockIdx.x, t = threadIdx.x;
    float s = 0;
    for (int n = 0; n < 32; ++n) s += x[m * 32 + n];
    {body}
}}
"""


def hip(body: str, before: str = "") -> str:
    return HIP_TEXT.format(body=body, before=before, launch=HIP_LAUNCH)


def in_hip(name: str, body: str, shows: str, before: str = "", **more: Any) -> Attack:
    return Attack(f"hip-{name}", "hip:gfx942", hip(body, before), shows, **more)


def unseen(name: str, assembly: str, shows: str) -> Attack:
    """A kernel whose assembly does not say what it does."""
    return in_hip(name, f'asm volatile("{assembly}"); if (t == 0) out[m] = s;', shows, kind="simulator|compile")


HIP = (
    unseen("words", ".long 0xbf810000", "an instruction as a number"),
    unseen("bytes", ".byte 0, 0, 0x81, 0xbf", "an instruction as bytes"),
    unseen("fills", ".fill 1, 4, 0xbf810000", "an instruction as padding"),
    unseen("pads", ".p2alignl 8, 0xbf810000", "an instruction as what aligns another"),
    unseen("zeros", ".zero 8", "instructions of zeros"),
    unseen("not-assembled", ".if 0\\n s_nop 0\\n .endif", "instructions that are not assembled"),
    unseen("repeated", ".rept 3\\n s_nop 0\\n .endr", "instructions that are assembled many times"),
    unseen("macro", ".macro nothing\\n s_nop 0\\n .endm", "instructions that are assembled where they are not"),
    unseen("elsewhere", ".pushsection .evil\\n s_nop 0\\n .popsection", "instructions that are assembled elsewhere"),
    unseen("embedded", '.incbin \\"/etc/passwd\\"', "a file as instructions"),
    in_hip("jumps", 'asm volatile("s_mov_b64 s[0:1], 0x1000\\n s_setpc_b64 s[0:1]"); if (t == 0) out[m] = s;',
           "a jump to where nothing is", kind="hazard"),
    in_hip("stale", "if (t == 0) { if (!had[m]++) kept[m] = s; out[m] = kept[m]; }", "an answer kept from the first call",
           "__device__ float kept[16];\n__device__ int had[16];\n", kind=WRONG),
    in_hip("ends-early", 'asm volatile("s_endpgm"); if (t == 0) out[m] = s;', "a kernel that ends", kind=WRONG),
    in_hip("far", "if (t == 0) { out[m] = s; out[m + 100000000] = 1; }", "memory that is none", kind="hazard"),
    in_hip("behind", "if (t == 0) { out[m] = s; if (m == 15) out[16] = 1; }", "the element behind an output", kind="hazard"),
    in_hip("unwritten", "__shared__ float q[64]; q[t] += s; if (t == 0) out[m] = q[0];", "memory that happens to be zero",
           kind=f"hazard|{WRONG}"),
    in_hip("traps", "if (t == 0) out[m] = s; __builtin_trap();", "an instruction that stops", kind="hazard"),
    in_hip("includes-a-file", "if (t == 0) out[m] = s;", "a compiler's log that shows files", '#include "/etc/passwd"\n',
           kind="compile"),
    in_hip("screen", "", "marks for a terminal in the compiler's words", '#error "\x1b]0;owned\x07\x1b[2J"\n', kind="compile"),
    in_hip("plain", "if (t == 0) out[m] = s;", "nothing but loops", correct=True),
    in_hip("one-wave", "__shared__ float q[64]; q[t] = x[m * 32 + t % 32]; s = 0; for (int n = 0; n < 32; ++n) s += q[n]; "
           "if (t == 0) out[m] = s;", "a wave that needs no barrier", correct=True),
    in_hip("assembly", 'asm volatile("s_nop 0\\n s_nop 1"); if (t == 0) out[m] = s;', "assembly that does nothing",
           correct=True),
)  # fmt: skip

HOSTILE = (
    *HIP,
    # ---- answers that are none
    *in_both("nothing", "", "outputs that were never written", kind=WRONG),
    *in_both("last-row", "if (m < 15) out[m] = s;", "a row that is left out", kind=WRONG, alike=True),
    *in_both("last-element", "out[m] = s - x[m * 32 + 31];", "an element that is left out", kind=WRONG, alike=True),
    *in_both("twice", "out[m] = s + x[m * 32];", "an element that is taken twice", kind=WRONG, alike=True),
    *in_both("beyond-its-input", "out[m] = m == 15 ? s + x[16 * 32] : s;", "what lies behind an input", kind=BESIDE,
             alike=True),
    *in_both("adds-to-output", "out[m] += s;", "an output that is taken for zeros", kind=WRONG, alike=True),
    *in_both("races", "out[m & 15] = s; if (m) out[m - 1] += 0.0f * s + 1e-3f;",
             "what groups write into each other's places", kind=WRONG),
    *in_both("order", "out[m] = m ? s + 0.0f * out[m - 1] : s;", "what other groups have written", kind=WRONG, alike=True),
    *in_both("skips-nan", "s = 0; for (int n = 0; n < 32; ++n) { float v = x[m * 32 + n]; if (v == v) s += v; } out[m] = s;",
             "NaN that are skipped", kind=WRONG, alike=True),
    *in_both("clamps", "if (!(s < 1e6f)) s = 1e6f; out[m] = s;", "large sums that are lost", kind=WRONG, alike=True),
    *in_both("sixteen-bits", "int q = 0; for (int n = 0; n < 32; ++n) q += (int)(x[m * 32 + n] * 256.0f); out[m] = q / 256.0f;",
             "a narrow accumulator", kind=WRONG, alike=True),
    *in_both("knows-the-poison", "if (out[m] == out[(m + 1) % 16]) return; out[m] = s;",
             "constant poison, by which a check is told from a use; here it never is one", alike=True),
    *in_both("by-place", "out[m] = ((unsigned long)out >> 12) % 8 ? s * 1.01f : s;", "an answer that hangs on where arrays lie",
             kind=WRONG),
    *in_both("by-number", "out[m] = out[m] > 1e3f || out[m] < -1e3f ? 0 : s;", "a poisoned output told from a fresh one",
             kind=WRONG, alike=True),
    in_sycl("stale", "static float kept[16]; static int had[16]; if (!had[m]++) kept[m] = s; out[m] = kept[m];",
            "an answer kept from the first call", kind=WRONG),
    in_sycl("carries", "static float before[16]; out[m] = s + before[m] * 0.1f; before[m] = s;", "a carry from call to call",
            kind=WRONG),
    in_sycl("memory-by-place", "static float kept[16]; static const float *at[16]; "
            "if (at[m] != x - (unsigned long)x % 65536 / 4) { at[m] = x - (unsigned long)x % 65536 / 4; kept[m] = s; } "
            "out[m] = kept[m];", "answers from a memory by address, roughly"),
    in_sycl("memory-by-sum", "static float kept[16], key[16]; if (key[m] != x[m * 32] || !key[m]) "
            "{ key[m] = x[m * 32]; kept[m] = s; } out[m] = kept[m];", "answers from a memory by content, which gain nothing"),
    in_opencl("memory-of-the-stack", "volatile float kept[18]; if (kept[16] == 12345.0f) { out[m] = kept[m]; return; } "
              "kept[16] = 12345.0f; kept[m] = s; out[m] = s;", "answers left on the stack of a thread that goes on"),
    in_opencl("unwritten", "__local float t[64]; t[m] += s; barrier(CLK_LOCAL_MEM_FENCE); out[m] = t[m];",
              "memory of a group that happens to be zero"),
    in_opencl("beyond", "__global float *far = out + (1 << 20); if (*far == 3.0f) return; *far = 3.0f; out[m] = s;",
              "memory beyond its arrays that stays", kind=f"{BESIDE}|crash"),
    # ---- memory that is not its own
    *in_both("far", "out[m] = s; out[m + 100000000] = 1.0f;", "memory that is none", kind=f"crash|{BESIDE}"),
    *in_both("before", "out[m] = s; out[m - 1000] = 1.0f;", "memory before the arrays", kind=BESIDE, alike=True),
    *in_both("behind", "out[m] = s; if (m == 15) out[16] = 1.0f;", "the element behind an output", kind=BESIDE),
    *in_both("writes-its-input", "out[m] = s; ((__global float *)x)[5] = 0.0f;", "an input that is changed",
             kind=f"{WRONG}|crash"),
    *in_both("faults", "out[m] = s; *(volatile __global int *)8 = 1;", "an address that is none", kind="crash", alike=True),
    *in_both("traps", "out[m] = s; __builtin_trap();", "an instruction that is none", kind="crash", alike=True),
    *in_both("sweeps", "for (long i = 0; i < 1 << 22; ++i) ((volatile __global float *)out)[i] = s;",
             "whatever else is in its process", kind=f"{ENDED}|driver"),
    # ---- the work of others, by name
    *reaching("blas", "int cblas_sgemv(int)", "if (s == -12345.0f) cblas_sgemv(m);", "a library that does the work",
              kind="decoy|compile", alike=True),
    *reaching("system", "int system(char *)", f"{characters('p', 'touch @WITNESS@')} system(p);", "a program that is started",
              alike=True),
    *reaching("fork", "int fork(void)", "if (m == 0) fork();", "processes that are left behind", alike=True),
    *reaching("kill", "int kill(int, int)", "kill(-1, 9);", "signals to whoever can be reached", slow=True),
    *reaching("exit", "void _exit(int)", "if (m == 3) _exit(0);", "the end of its process", slow=True),
    *reaching("opens", "int open(char *, int, int)", f"{characters('p', '@WITNESS@')} open(p, 0101, 0666);", "a file outside",
              slow=True),
    *reaching("reads", "int open(char *, int, int)", f"{characters('p', '/proc/1/mem')} open(p, 2, 0);",
              "the memory of another process", slow=True),
    *reaching("threads", "int pthread_create(void *, void *, void *, void *)", "if (s == -1.0f) pthread_create(0, 0, 0, 0);",
              "threads that are left behind", slow=True),
    *reaching("clock", "int clock_gettime(int, void *)", "long t[2]; clock_gettime(1, t); if (t[0] == 1) out[m] = 0;",
              "the clock, by which it could tell who calls", alike=True),
    *reaching("sets-the-clock", "int clock_settime(int, void *)", "long t[2] = {1, 1}; clock_settime(0, t);",
              "a clock that is set", slow=True),
    *reaching("python", "int PyRun_SimpleString(char *)", f"{characters('p', 'import os')} PyRun_SimpleString(p);",
              "Python that does the work", kind="decoy|compile"),
    *reaching("loader", "void *dlsym(void *, char *)", f"{characters('p', 'getpid')} if (!dlsym(0, p)) out[m] = 0;",
              "functions that are looked up", slow=True),
    *reaching("writes", "long write(int, void *, long)", "for (int f = 3; f < 64; ++f) write(f, &s, 4);",
              "messages in the runner's name", slow=True),
    *reaching("atexit", "int on_exit(void *, void *)", "if (s == -12345.0f) on_exit(0, 0);", "code after the end", slow=True),
    # ---- the system, by assembly
    *by_assembly("asks-its-number", 39, "a call that harms nobody", correct=True),
    *by_assembly("forks", 57, "processes that are left behind", slow=True),
    *by_assembly("kills-its-parent", 62, "signals to who judges", "1", "9", correct=True),
    *by_assembly("kills-everything", 62, "signals to whoever can be reached", "-1", "9"),
    *by_assembly("ends-its-thread", 60, "the end of the thread that works", kind="timeout|crash", slow=True),
    *by_assembly("ends-its-process", 231, "the end of its process", kind=ENDED),
    *by_assembly("stops-itself", 34, "a thread that stands still", kind="timeout", slow=True),
    # ---- text that reads or runs by being compiled
    *in_both("includes-a-file", "out[m] = s;", "a compiler's log that shows files", '#include "/etc/passwd"\n'),
    *in_both("includes-by-macro", "out[m] = s;", "a file whose name is made", '#define WHAT "/etc/passwd"\n#include WHAT\n'),
    *in_both("own-environment", "out[m] = s;", "the compiler's environment",
             '#define WHAT "/proc/self/environ"\n#include WHAT\n'),
    *in_both("embeds", "out[m] = s;", "a file in the text", f'#if __has_include("{PRIVATE}")\n#error root:seen\n#endif\n'),
    *in_both("incbin", "out[m] = s;", "a file that becomes part of the binary",
             '__asm__(".section .rodata\\n.incbin \\"/etc/passwd\\"\\n.previous");\n'),
    *in_both("screen", "out[m] = s;", "marks for a terminal in the compiler's words", '#error "\x1b]0;owned\x07\x1b[2J"\n',
             kind="compile"),
    *in_both("endless-include", "out[m] = s;", "a file without end", '#define WHAT "/dev/urandom"\n#include WHAT\n', slow=True),
    *in_both("static-initialiser", "out[m] = s;", "code that runs when a program is loaded",
             "__attribute__((constructor)) void early(void) { *(volatile __global int *)8 = 1; }\n"),
    in_sycl("initialised-by-others", "out[m] = s + made;", "a constant that a function of the process gives",
            "SYCL_EXTERNAL int later();\nstatic int made = later();\n", kind=f"decoy|{REFUSED}"),
    in_sycl("templates", "out[m] = s + deep<100000>();", "templates without end",
            "template <int N> int deep() { return deep<N - 1>() + deep<N - 1>(); }\n", kind=REFUSED),
    *in_both("doubles", "out[m] = s + F9;", "a text that doubles", "#define F0 1.0f\n" + "".join(
        f"#define F{n + 1} F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}+F{n}\n" for n in range(9)),
             kind="compile|timeout|memory|crash", slow=True),
    in_opencl("unrolls", "float t = 0; __attribute__((opencl_unroll_hint(100000000))) "
              "for (int i = 0; i < 100000000; ++i) t += x[i & 511] * i; out[m] = s + 0 * t;", "loops that are written out",
              kind="compile|timeout|memory|crash|incorrect", slow=True),
    *in_both("recursion", "out[m] = s + deeper(s, m);", "a function that calls itself",
             "float deeper(float s, int m) { volatile float t[64]; t[m] = s; return m < 0 ? s : deeper(s, m + 1) + t[m]; }\n",
             kind=REFUSED),
    in_sycl("assembly", 'out[m] = s; __asm__ volatile("mov $231, %eax; xor %edi, %edi; syscall");', "calls of the system"),
    *in_both("loops", "while (s == s) s += 0.0f * m; out[m] = s;", "a loop without end", kind="timeout", slow=True),
    in_opencl("prints", 'for (int i = 0; i < 200000; ++i) printf("%d xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", i); out[m] = s;',
              "words without end", slow=True),
    in_opencl("prints-memory", 'printf("%s\\n", (__constant char *)8); out[m] = s;', "a text that is none", kind="crash"),
    # ---- launches
    *launched("negative-grid", "(16, 1, 1)", "(-16, 1, 1)", "fewer groups than none", kind="bad-source"),
    *launched("huge-grid", "(16, 1, 1)", "(99999999999, 1, 1)", "more groups than a number has", kind="bad-source"),
    *launched("large-grid", "(16, 1, 1)", "(2000000000, 1, 1)", "more groups than end", slow=True,
              kind=f"timeout|{DRIVER}"),
    *launched("no-grid", "(16, 1, 1)", "(0, 1, 1)", "no group at all", kind=DRIVER),
    *launched("huge-shared", "shared=0", "shared=99999999999", "memory that no device has", kind="bad-source"),
    *launched("negative-shared", "shared=0", "shared=-8", "less memory than none", kind="bad-source"),
    *launched("huge-block", "block=(1, 1, 1)", "block=(4096, 4096, 1)", "a group that no device has", kind="bad-source"),
    *launched("more-arguments", "(x, out)", "(x, out, out)", "arguments that the kernel has not", kind=DRIVER),
    *launched("fewer-arguments", "(x, out)", "(x)", "arguments that are not given", kind=DRIVER),
    *launched("input-as-output", "(x, out)", "(x, x)", "an input in the output's place", kind=WRONG),
    *launched("name-is-a-path", "kernel=row_sum", "kernel=../../row_sum", "a name that becomes a path", kind="bad-source"),
    *launched("name-is-none", "kernel=row_sum", "kernel=other", "a kernel that is not there", kind="bad-source|compile"),
    *launched("calls-in-the-grid", "(16, 1, 1)", "(exit(1), 1, 1)", "Python in a size", kind="bad-source"),
)  # fmt: skip


def legal(target: str, name: str, text: str, shows: str) -> Attack:
    return Attack(f"{target.partition(':')[0]}-{name}", target, text, shows, correct=True)


def legal_in_both(name: str, body: str, shows: str, before: str = "", alike: bool = True) -> Sequence[Attack]:
    return in_both(name, body, shows, before, alike=alike, correct=True)


UNUSUAL = (
    *legal_in_both("plain", "out[m] = s;", "nothing but loops", alike=False),
    *legal_in_both("wider", "double d = 0; for (int n = 0; n < 32; ++n) d += x[m * 32 + n]; out[m] = (float)d;",
                   "a wider accumulator"),
    *legal_in_both("backwards", "s = 0; for (int n = 31; n >= 0; --n) s += x[m * 32 + n]; out[m] = s;",
                   "elements from the last to the first"),
    *legal_in_both("halves", "float t[32]; for (int n = 0; n < 32; ++n) t[n] = x[m * 32 + n]; "
                   "for (int w = 16; w; w /= 2) for (int n = 0; n < w; ++n) t[n] += t[n + w]; out[m] = t[0];",
                   "sums of halves"),
    *legal_in_both("many-writes", "out[m] = 7; out[m] = 0; for (int n = 0; n < 32; ++n) out[m] += x[m * 32 + n];",
                   "an output that is written often and read"),
    *legal_in_both("odd-text", "LOOP(k, 1) out[m] = s;", "macros, comments and continued lines",
                   "/* 和 row_sum(x, out) \\\n */\n#define LOOP(i, n) \\\n    for (int i = 0; i < (n); ++i)\n", alike=False),
    *legal_in_both("helpers", "out[m] = added(s, 0.0f);", "functions beside the kernel",
                   "inline float added(float a, float b);\ninline float added(float a, float b) { return a + b; }\n"),
    legal("opencl:cpu", "groups", """
// portakern launch: kernel=row_sum grid=(16, 1, 1) block=(32, 1, 1) shared=0 args=(x, out)
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void row_sum(__global const float *x, __global float *out)
{
    __local float t[32];
    const int m = get_group_id(0), n = get_local_id(0);
    t[n] = x[m * 32 + n];
    for (int left = 16; left; left /= 2) { barrier(CLK_LOCAL_MEM_FENCE); if (n < left) t[n] += t[n + left]; }
    if (n == 0) out[m] = t[0];
}
""", "memory that a group shares"),
    legal("opencl:cpu", "two-kernels", """
// portakern launch: kernel=clears grid=(16, 1, 1) block=(1, 1, 1) shared=0 args=(out)
__kernel void clears(__global float *out) { out[get_group_id(0)] = 0.0f; }
// portakern launch: kernel=adds grid=(16, 1, 1) block=(1, 1, 1) shared=0 args=(x, out)
__kernel void adds(__global const float *x, __global float *out)
{ const int m = get_group_id(0); for (int n = 0; n < 32; ++n) out[m] += x[m * 32 + n]; }
""", "an output that a first kernel prepares"),
    legal("opencl:cpu", "async", """
// portakern launch: kernel=row_sum grid=(16, 1, 1) block=(1, 1, 1) shared=0 args=(x, out)
__kernel void row_sum(__global const float *x, __global float *out)
{
    __local float t[32];
    const int m = get_group_id(0);
    event_t copied = async_work_group_copy(t, x + m * 32, 32, 0);
    prefetch(x, 32);
    wait_group_events(1, &copied);
    float s = 0.0f;
    for (int n = 0; n < 32; ++n) s += t[n];
    out[m] = s;
}
""", "copies of the group, which the compiler takes from its library"),
    legal("opencl:cpu", "mathematics", opencl(
        "int e; float f = frexp(1.5f + 0.0f * m, &e); out[m] = s + (cos(0.0f * m) - 1.0f) + (pow(f, 0.0f) - 1.0f) "
        "+ (tgamma(1.0f + 0.0f * m) - 1.0f) + (float)((convert_long_sat(f) / (m + 1)) * 0L);"),
          "functions of the compiler's library"),
    legal("opencl:cpu", "tables", opencl("s = 0; for (int n = 0; n < 32; ++n) s += x[m * 32 + order[n]]; out[m] = s;",
        f"__constant int order[32] = {{{', '.join(map(str, range(31, -1, -1)))}}};\n"), "a table in constant memory"),
    legal("opencl:cpu", "says-something", opencl('if (m == 3) printf("row %d\\n", m); out[m] = s;'), "words of its own"),
    legal("sycl:cpu", "vectors", sycl("pk::float16 v = 0.0f; "
                                      "for (int n = 0; n < 32; n += 16) v += pk::load<16>(x + m * 32 + n); "
                                      "out[m] = pk::sum_of(v);"), "the words of pk/"),
    legal("sycl:cpu", "depth-of-templates", sycl("out[m] = S<32>::of(x + m * 32);", """
namespace { template <int N> struct S { static float of(const float *x) { return x[N - 1] + S<N - 1>::of(x); } };
template <> struct S<0> { static float of(const float *) { return 0; } }; }
"""), "templates of templates"),
    legal("sycl:cpu", "lambdas", sycl("auto add = [&](int n) { s += x[m * 32 + n]; }; s = 0; "
                                      "for (int n = 0; n < 32; ++n) add(n); out[m] = s;"), "lambdas"),
    legal("sycl:cpu", "tables", sycl("s = 0; for (int n = 0; n < 32; ++n) s += x[m * 32 + order[n]]; out[m] = s;",
        f"static constexpr int order[32] = {{{', '.join(map(str, range(31, -1, -1)))}}};\n"), "a table of constants"),
)  # fmt: skip
