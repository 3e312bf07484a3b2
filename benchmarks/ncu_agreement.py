"""Our times beside the profiler's: ten kernels between 3 us and 2 ms, by portakern.timing and by ncu.

    python benchmarks/ncu_agreement.py                 the ten kernels; exit status 1 where one is too far off
    python benchmarks/ncu_agreement.py --calibrate     short known kernels, and the figure for the empty one

Both see the same prepared calls with cold caches: ours flushed by the driver table, ncu's by ncu itself.  ncu runs with
`--clock-control none`, so that neither fixes the clocks.  A median agrees within the larger of 2% and 0.3 us.  Needs an
NVIDIA GPU, torch and ncu; takes about a minute.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import portakern as pk
from portakern import native
from portakern.registry import registry
from portakern.timing import Contender, Options, measure, median

WARM_UP, LAUNCHES = 3, 15
"""Of every kernel under ncu: launches that are not profiled, and those whose median counts."""

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("add_relu", "bf16", {"M": 1024, "N": 1024}), ("softmax", "bf16", {"M": 256, "N": 1024}),
    ("rms_norm", "bf16", {"M": 1024, "N": 4096}), ("row_sum", "f32", {"M": 2048, "N": 4096}),
    ("transpose", "bf16", {"M": 2048, "N": 2048}), ("matmul", "bf16", {"M": 1024, "N": 1024, "K": 1024}),
    ("layer_norm", "bf16", {"M": 4096, "N": 8192}), ("silu_mul", "bf16", {"M": 8192, "N": 8192}),
    ("matmul", "bf16", {"M": 4096, "N": 4096, "K": 4096}), ("add_relu", "bf16", {"M": 32768, "N": 32768}),
]  # fmt: skip

SPIN_CYCLES = (2_000, 8_000, 40_000, 180_000)
COPY_BYTES = (1 << 20, 8 << 20, 64 << 20)
PTX = """
.version 7.0
.target sm_80
.address_size 64

.visible .entry spin(.param .u64 cycles)
{
    .reg .pred %more;
    .reg .b64 %wanted, %begin, %now;
    ld.param.u64 %wanted, [cycles];
    mov.u64 %begin, %clock64;
WAIT:
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %more, %now, %wanted;
    @%more bra WAIT;
    ret;
}

.visible .entry copy(.param .u64 to, .param .u64 from)
{
    .reg .b32 %a, %b, %c, %v0, %v1, %v2, %v3;
    .reg .b64 %to, %from, %at, %offset;
    ld.param.u64 %to, [to];
    ld.param.u64 %from, [from];
    mov.u32 %a, %ctaid.x;
    mov.u32 %b, %ntid.x;
    mov.u32 %c, %tid.x;
    mul.wide.u32 %at, %a, %b;
    cvt.u64.u32 %offset, %c;
    add.u64 %at, %at, %offset;
    shl.b64 %at, %at, 4;
    add.u64 %to, %to, %at;
    add.u64 %from, %from, %at;
    ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%from];
    st.global.v4.u32 [%to], {%v0, %v1, %v2, %v3};
    ret;
}

.visible .entry empty() { ret; }
"""

Named = tuple[str, native.Call]


# ---- what is timed


def operators(device: native.Device) -> Iterator[Named]:
    """The library's operators as prepared calls, one at a time, since some are large."""
    import torch

    torch.manual_seed(0)
    target = f"cuda:{native_isa(device)}"
    for name, dtype, sizes in CASES:
        built = pk.build(name, target=target, dtype=dtype, **sizes)
        kinds = {"bf16": torch.bfloat16, "f32": torch.float32, "f16": torch.float16}
        inputs = []
        for array in built.program.by_role("input"):
            shape = built.program.shape(array.name, sizes)
            inputs.append(torch.randn(shape, device=f"cuda:{device.ordinal}").to(kinds[array.dtype]))
        call = built.prepare(*inputs).call
        assert call is not None
        torch.cuda.synchronize()
        yield f"{name} {dtype} {'x'.join(map(str, sizes.values()))}", call


def build_all(device: native.Device) -> None:
    """So that nobody waits for a compiler between kernels: a GPU that idles is slower for a while."""
    for name, dtype, sizes in CASES:
        _ = pk.build(name, target=f"cuda:{native_isa(device)}", dtype=dtype, **sizes).binary


def native_isa(device: native.Device) -> str:
    """The instruction set that our kernels are built for here."""
    language = registry().language("cuda")
    assert language.runtime is not None
    for name in language.targets:
        target = registry().target(f"cuda:{name}")
        if language.runtime.available(target) and name.startswith(device.facts.arch or "?"):
            return name
    raise SystemExit(f"no target of portakern is a {device.facts.name} ({device.facts.arch})")


def known_kernels(device: native.Device) -> Iterator[Named]:
    """Kernels whose time is known to be flat: nothing, waiting, copying."""
    module = device.load(PTX.encode())
    spec = native.LaunchSpec
    yield "empty", device.call([spec(module.kernel("empty"), (1, 1, 1), (32, 1, 1), ())])
    for blocks in (1, 8 * (device.facts.units or 1)):
        for cycles in SPIN_CYCLES if blocks == 1 else SPIN_CYCLES[:2]:
            args = (native.scalar("u64", cycles),)
            yield f"spin {cycles} x{blocks}", device.call([spec(module.kernel("spin"), (blocks, 1, 1), (128, 1, 1), args)])
    for count in COPY_BYTES:
        to, from_ = device.allocate(count), device.allocate(count)
        device.fill(from_, 1, count)
        args = (native.pointer(to), native.pointer(from_))
        launch = spec(module.kernel("copy"), (count // 16 // 256, 1, 1), (256, 1, 1), args)
        yield f"copy {count >> 20} MB", device.call([launch])
        device.synchronize()
        device.free(to)
        device.free(from_)


def cases(device: native.Device, calibrate: bool) -> Iterator[Named]:
    return known_kernels(device) if calibrate else operators(device)


# ---- under ncu


def profiled(calibrate: bool) -> None:
    """Launch every case a few times on a stream of our own, as we time it, and nothing else that the profiler counts."""
    device = native.open_device("cuda")
    stream, profiler = device.stream(), Profiler()
    for _, call in cases(device, calibrate):
        for n in range(WARM_UP + LAUNCHES):
            if n >= WARM_UP:
                profiler.start()
            call(stream)
            device.synchronize()
            if n >= WARM_UP:
                profiler.stop()


class Profiler:
    """The switch that `--profile-from-start off` waits for (cuProfilerStart, CUDA Driver API)."""

    def __init__(self) -> None:
        import torch

        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.start, self.stop = torch.cuda.profiler.start, torch.cuda.profiler.stop


def ncu_times(calibrate: bool) -> list[list[float]]:
    """Microseconds of every launch, in order: one list per kernel launch in the cases' calls."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    with tempfile.TemporaryDirectory() as folder:
        command = [ncu, "--profile-from-start", "off", "--clock-control", "none", "--metrics", "gpu__time_duration.sum",
                   "--csv", "--print-units", "base", "--log-file", f"{folder}/log.csv", sys.executable, __file__, "--profiled",
                   *(["--calibrate"] if calibrate else [])]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        text = Path(f"{folder}/log.csv").read_text() if Path(f"{folder}/log.csv").exists() else ""
    if ran.returncode:
        raise SystemExit(f"ncu failed with status {ran.returncode}:\n{text[-2000:]}\n{ran.stderr[-2000:]}")
    lines = [x for x in text.splitlines() if x.startswith('"')]
    rows = [r for r in csv.DictReader(io.StringIO("\n".join(lines))) if r.get("Metric Name") == "gpu__time_duration.sum"]
    scale = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
    found = [float(r["Metric Value"].replace(",", "")) * scale[r["Metric Unit"]] for r in rows]
    return [found[n : n + LAUNCHES] for n in range(0, len(found), LAUNCHES)]


# ---- by portakern.timing, and side by side


def ours(device: native.Device, calibrate: bool) -> list[tuple[str, Any]]:
    """Names and timings with cold caches, on a stream of our own."""
    stream = device.stream()
    options = Options(budget_s=1.0, min_samples=60, max_samples=200, width=0.002)
    found = []
    for name, call in cases(device, calibrate):
        if len(call) != 1:
            raise SystemExit(f"{name} is {len(call)} launches, and the comparison is of single kernels")
        if not found:  # the GPU has been idle
            measure(device, [Contender(name, [call], stream.handle)], options)
        found.append((name, measure(device, [Contender(name, [call], stream.handle)], options).timings[0]))
    return found


def table(calibrate: bool) -> int:
    device = native.open_device("cuda")
    facts = device.facts
    print(f"{facts.name}, driver {facts.version}, flush {facts.flush_bytes} bytes, empty kernel {facts.empty_kernel_ns} ns\n")
    if not calibrate:
        build_all(device)
    theirs = ncu_times(calibrate)
    mine = ours(device, calibrate)
    if len(theirs) != len(mine):
        raise SystemExit(f"ncu saw {len(theirs)} kernels, {len(mine)} were launched")
    print(f"{'kernel':36} {'ours us':>9} {'interval':>19} {'ncu us':>9} {'diff us':>8} {'diff %':>7} {'pair us':>8}  agrees")
    bad, extra = 0, []
    for (name, timing), launches in zip(mine, theirs, strict=True):
        reference = median(launches)
        difference = timing.median_us - reference
        agrees = abs(difference) <= max(0.02 * reference, 0.3)
        bad += not agrees
        pair = timing.median_us + timing.correction_us
        extra.append(pair - reference)
        print(f"{name:36} {timing.median_us:9.3f} {timing.ci_low_us:9.3f}-{timing.ci_high_us:9.3f} {reference:9.3f} "
              f"{difference:+8.3f} {100 * difference / reference:+7.2f} {pair:8.3f}  {'yes' if agrees else 'NO'}"
              f"{'  ' + '; '.join(timing.suspicions) if timing.suspicions else ''}")
    print(f"\n{len(mine) - bad} of {len(mine)} agree within the larger of 2% and 0.3 us; {mine[0][1].mode}")
    if calibrate:
        empty_pair = mine[0][1].median_us + mine[0][1].correction_us
        beyond = median(extra[1:])
        print(f"an event pair shows {beyond:.3f} us more than ncu (median over the kernels above but the empty one); the empty "
              f"launch's pair is {empty_pair:.3f} us, so empty_kernel_ns = {1000 * (empty_pair - beyond):.0f} "
              f"(ncu's own figure for it: {1000 * (empty_pair - extra[0]):.0f})")
    return 1 if bad and not calibrate else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibrate", action="store_true", help="short known kernels instead of operators")
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.profiled:
        profiled(given.calibrate)
        return 0
    return table(given.calibrate)


if __name__ == "__main__":
    sys.exit(main())
