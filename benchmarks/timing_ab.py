"""How often timing is right: a kernel against itself, and against one that takes 2% less.

    python benchmarks/timing_ab.py --driver host|cuda [--runs 200] [--cache cold|warm]

Prints how many measurements ended in each verdict.  A kernel against itself should be SAME or UNDECIDED in 97% of them, one
that takes 2% more should be found SLOWER in 90%.  Exit status 1 if not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from portakern import native
from portakern.timing import Contender, Options, measure, median

SLOWDOWN = 1.02
WANTED_US = 100.0

PTX = b"""
.version 7.0
.target sm_70
.address_size 64

// Waits for a number of cycles of the multiprocessor's clock.
.visible .entry spin(.param .u64 cycles)
{
    .reg .pred %p;
    .reg .u64 %r<4>;
    ld.param.u64 %r1, [cycles];
    mov.u64 %r2, %clock64;
again:
    mov.u64 %r3, %clock64;
    sub.u64 %r3, %r3, %r2;
    setp.lt.u64 %p, %r3, %r1;
    @%p bra again;
    ret;
}

// Copies n pieces of 16 bytes.
.visible .entry copy(.param .u64 to, .param .u64 from, .param .u64 n)
{
    .reg .pred %p;
    .reg .b32 %v<8>;
    .reg .u64 %r<10>;
    ld.param.u64 %r1, [to];
    ld.param.u64 %r2, [from];
    ld.param.u64 %r3, [n];
    mov.u32 %v0, %ctaid.x;
    mov.u32 %v1, %ntid.x;
    mov.u32 %v2, %tid.x;
    mad.lo.u32 %v2, %v0, %v1, %v2;
    cvt.u64.u32 %r4, %v2;
    mov.u32 %v3, %nctaid.x;
    mul.lo.u32 %v3, %v3, %v1;
    cvt.u64.u32 %r5, %v3;
again:
    setp.ge.u64 %p, %r4, %r3;
    @%p ret;
    shl.b64 %r6, %r4, 4;
    add.u64 %r7, %r2, %r6;
    add.u64 %r8, %r1, %r6;
    ld.global.v4.b32 {%v4, %v5, %v6, %v7}, [%r7];
    st.global.v4.b32 [%r8], {%v4, %v5, %v6, %v7};
    add.u64 %r4, %r4, %r5;
    bra again;
}
\0"""


@dataclass(frozen=True)
class Kernel:
    """``make(n)`` prepares a call whose time grows with n; ``n`` takes about 100 us."""

    name: str
    make: Callable[[int], native.Call]
    n: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", choices=sorted(KERNELS), default="host")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--cache", choices=("cold", "warm"), help="cold on a device, warm on the host")
    args = parser.parse_args()
    device = native.open_device(args.driver)
    cache = args.cache or ("warm" if device.facts.blocking else "cold")
    print(f"{device.facts.name}, driver {device.driver} {device.facts.version}, {args.runs} runs each, caches {cache}")
    good = True
    for kernel in KERNELS[args.driver](device, cache):
        good &= trial(device, kernel, 1.0, args.runs, cache)
        good &= trial(device, kernel, SLOWDOWN, args.runs, cache)
    print("as required" if good else "NOT as required")
    return 0 if good else 1


def trial(device: native.Device, kernel: Kernel, slowdown: float, runs: int, cache: str) -> bool:
    """Base (slowed down) against the kernel, over and over.  Whether the verdicts are as they should be."""
    slow, plain = kernel.make(round(kernel.n * slowdown)), kernel.make(kernel.n)
    verdicts: Counter[str] = Counter()
    times, ratios, widths, samples, overheads = [], [], [], 0, []
    begun = time.monotonic()
    for run in range(runs):
        options = Options(cache=cache, seed=run, budget_s=0.5, warm_up_s=0.1 if run == 0 else 0.005)  # type: ignore[arg-type]
        found = measure(device, [Contender("base", slow), Contender("plain", plain)], options)
        (compared,) = found.comparisons()
        verdicts[compared.verdict] += 1
        times.append(found.timings[1].median_us)
        ratios.append(compared.ratio)
        widths.append(compared.ci_high - compared.ci_low)
        overheads.append(found.timings[1].overhead_us)
        samples += found.blocks
    share = (verdicts["SAME"] + verdicts["UNDECIDED"] if slowdown == 1 else verdicts["SLOWER"]) / runs
    wanted = 0.97 if slowdown == 1 else 0.90
    what = "itself" if slowdown == 1 else f"{100 * (slowdown - 1):.0f}% slower"
    counts = " ".join(f"{name} {verdicts[name]}" for name in ("FASTER", "SAME", "UNDECIDED", "SLOWER"))
    print(f"{kernel.name:8s} {median(times):8.2f} us against {what:10s}: {counts}; {share:.1%} (wanted {wanted:.0%})\n"
          f"         ratio {median(ratios):.4f}, interval {median(widths):.4f} wide, {samples / runs:.0f} samples a run, "
          f"overhead {median(overheads):.1f} us per sample, {(time.monotonic() - begun) / runs * 1e3:.0f} ms a run", flush=True)
    return share >= wanted


def of_about(name: str, device: native.Device, make: Callable[[int], native.Call], start: int, cache: str) -> Kernel:
    """The n at which the kernel takes about the wanted time, by proportion."""
    n = start
    for _ in range(2):
        options = Options(cache=cache, max_samples=20, budget_s=0.2)  # type: ignore[arg-type]
        n = max(1, round(n * WANTED_US / measure(device, [Contender(name, make(n))], options).timings[0].median_us))
    return Kernel(name, make, n)


def host_kernels(device: native.Device, cache: str) -> list[Kernel]:
    from numba import cfunc

    @cfunc("void(CPointer(int64), int64)")
    def spin(state, n):  # type: ignore[no-untyped-def]
        x = state[0]
        for _ in range(n):
            x = x * 6364136223846793005 + 1442695040888963407
        state[0] = x

    function = device.load(b"").kernel(hex(spin.address))  # pyright: ignore[reportArgumentType]
    state = device.allocate(64)

    def make(n: int) -> native.Call:
        args = [native.pointer(state), native.scalar("i64", n)]
        call = device.call([native.LaunchSpec(function, (1, 1, 1), (1, 1, 1), args)])
        call.keep(spin)
        return call

    return [of_about("spin", device, make, 100_000, cache)]


def cuda_kernels(device: native.Device, cache: str) -> list[Kernel]:
    module = device.load(PTX)
    spin, copy = module.kernel("spin"), module.kernel("copy")
    size = 1 << 30
    to, from_ = device.allocate(size), device.allocate(size)
    device.fill(from_, 1, size)
    blocks = 8 * (device.facts.units or 100)

    def make_spin(n: int) -> native.Call:
        return device.call([native.LaunchSpec(spin, (1, 1, 1), (32, 1, 1), [native.scalar("u64", n)])])

    def make_copy(n: int) -> native.Call:
        args = [native.pointer(to), native.pointer(from_), native.scalar("u64", min(n, size // 16))]
        return device.call([native.LaunchSpec(copy, (blocks, 1, 1), (512, 1, 1), args)])

    return [of_about("spin", device, make_spin, 100_000, cache), of_about("copy", device, make_copy, 1 << 23, cache)]


KERNELS = {"host": host_kernels, "cuda": cuda_kernels}

if __name__ == "__main__":
    sys.exit(main())
