"""What kernels of the measured table wait for: Nsight Compute's figures, ours beside PyTorch's, one block of lines a kernel.

    python benchmarks/ncu_profile.py                                       the cases that fall short of their bars
    python benchmarks/ncu_profile.py --pick "gemv=cuda,eager" --pick "rms_norm=triton,compile"

A pick names cases (as `--only` of benchmarks/nvidia.py does) and what to launch for them: `cuda`, `triton`, or any language
that has an `h200`; `eager` (for attention every backend), `compile`.  Everything is compiled in a first process without the
profiler, and launched once in a second one under ncu, with cold caches and the clocks as they are (`--clock-control none`).
Figures are chosen from those that this ncu has on this GPU; one that it lacks is left out, and named.  Needs an NVIDIA GPU,
torch and ncu.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: `import nvidia`, by which other packages look for CUDA's libraries, would find a file there.
sys.path[:] = [str(HERE / "bars"), *(p for p in sys.path if Path(p or ".").resolve() not in (HERE, HERE / "bars"))]

import argparse  # noqa: E402
import csv  # noqa: E402
import io  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable, Iterator, Mapping, Sequence  # noqa: E402
from functools import partial  # noqa: E402
from typing import Any  # noqa: E402

import bar_checks as checks  # noqa: E402
import bar_peers  # noqa: E402
from bar_cases import Case, selected  # noqa: E402

import portakern as pk  # noqa: E402

PICKS = (
    "rms_norm=cuda,triton,compile", "gemv=cuda,triton,eager", "matmul 4000x4104x4072=cuda,triton,eager",
    "matmul 3000x5000x2000=cuda,triton,eager", "matmul 1000=cuda,triton,eager", "matmul 4095=cuda,triton,eager",
    "attention=triton,eager",
)  # fmt: skip
"""What benchmarks/journals/nvidia.md says falls short, with the peer that is faster or near."""

PRODUCT = "h200"
WARM_UP = 2

FIGURES = {
    "us": ("gpu__time_duration.sum", 1e-3),  # base units: ns
    "grid": ("launch__grid_size", 1), "block": ("launch__block_size", 1), "waves": ("launch__waves_per_multiprocessor", 1),
    "regs": ("launch__registers_per_thread", 1), "shared KB": ("launch__shared_mem_per_block", 1 / 1024),
    "MHz": ("sm__cycles_elapsed.avg.per_second", 1e-6),
    "dram %": ("dram__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "read MB": ("dram__bytes_read.sum", 1e-6), "written MB": ("dram__bytes_write.sum", 1e-6),
    "L2 %": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 1), "L2 hit %": ("lts__t_sector_hit_rate.pct", 1),
    "L1 %": ("l1tex__throughput.avg.pct_of_peak_sustained_elapsed", 1), "L1 hit %": ("l1tex__t_sector_hit_rate.pct", 1),
    "SM %": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "tensor %": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 1),
    "gmma inst %": ("sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_elapsed", 1),
    "hmma inst %": ("sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_elapsed", 1),
    "fma %": ("sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed", 1),
    "SMs busy %": ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", 1),
    "occupancy %": ("sm__warps_active.avg.pct_of_peak_sustained_active", 1),
    "blocks/SM by regs": ("launch__occupancy_limit_registers", 1),
    "by shared": ("launch__occupancy_limit_shared_mem", 1),
    "IPC": ("sm__inst_executed.avg.per_cycle_active", 1), "issue %": ("sm__inst_issued.avg.pct_of_peak_sustained_active", 1),
    "bank conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", 1),
    "local sectors": ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 1),
}  # fmt: skip
"""Printed name: ncu's metric, and what it is multiplied by (the log is in base units)."""

STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active")
"""Warps that wait for a reason, on average, whenever an instruction is issued (ncu, Warp State Statistics)."""

REASONS = 5
RANGE = re.compile(r"\[\[(.*?)\]\]")


# ---- launching


def picked(picks: Sequence[str]) -> Iterator[tuple[Case, str]]:
    for pick in picks:
        words, _, whats = pick.partition("=")
        cases = selected([words])
        if not cases or not whats:
            raise SystemExit(f"--pick {pick!r}: wanted CASE=WHAT,.. where CASE is part of a case's name")
        yield from ((case, what) for case in cases for what in whats.split(","))


def calls(case: Case, what: str, inputs: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    if what not in ("eager", "compile"):
        kernel = pk.build(case.operator, target=f"{what}:{PRODUCT}", dtype=case.dtype, **case.values)
        return {what: kernel.prepare(*inputs)}
    subject = bar_peers.subject_of(bar_peers.work_of(case, f"cuda:{PRODUCT}"))
    made = bar_peers.eager(case, subject) if what == "eager" else {what: lambda: bar_peers.compiled(case, subject)}
    return {name: partial(make(), *inputs) for name, make in made.items()}


def launch(picks: Sequence[str], profiled: bool) -> None:
    """Every pick: warm-up, then one call between cuProfilerStart and Stop in a range that names it.  A failure is printed."""
    import torch

    held: tuple[str, list[Any]] = ("", [])
    for case, what in picked(picks):
        if held[0] != case.name:
            program = bar_peers.work_of(case, f"cuda:{PRODUCT}").program
            made = checks.make_inputs(case, program, "cuda:0", 0)
            held = (case.name, [g.array for g in made.values()])
        try:
            for name, call in calls(case, what, held[1]).items():
                for _ in range(WARM_UP):
                    call()
                torch.cuda.synchronize()
                if profiled:
                    torch.cuda.profiler.start()
                    torch.cuda.nvtx.range_push(f"[[{case.name}|{name}]]")
                    call()
                    torch.cuda.synchronize()
                    torch.cuda.nvtx.range_pop()
                    torch.cuda.profiler.stop()
        except Exception as error:
            print(f"{case.name} {what}: {' '.join(str(error).split())[:300]}", file=sys.stderr, flush=True)


# ---- ncu


def ncu() -> str:
    found = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not Path(found).exists():
        raise SystemExit("ncu is not installed; it comes with the CUDA toolkit (Nsight Compute)")
    return found


def known_metrics() -> set[str]:
    """Base names that this ncu has on this GPU; those of launches are always there and not listed."""
    text = subprocess.run([ncu(), "--query-metrics"], capture_output=True, text=True, timeout=120).stdout
    return {line.split()[0] for line in text.splitlines() if re.match(r"[a-z0-9]+__\w+\s", line)}


def wanted(known: set[str]) -> tuple[dict[str, str], list[str]]:
    """(metrics by printed name, names left out)."""
    here = {n: m for n, (m, _) in FIGURES.items() if m.startswith("launch__") or m.split(".")[0] in known}
    stalls = {f"~{found[1]}": f"{name}.ratio" for name in sorted(known) if (found := STALL.fullmatch(name))}
    return here | stalls, [n for n in FIGURES if n not in here]


def profile(picks: Sequence[str], metrics: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        command = [ncu(), "--profile-from-start", "off", "--clock-control", "none", "--nvtx", "--target-processes",
                   "application-only", "--metrics", ",".join(metrics), "--csv", "--page", "raw", "--print-units", "base",
                   "--log-file", str(log), *own(picks, "--profiled")]  # fmt: skip
        ran = subprocess.run(command, text=True, timeout=540)
        text = log.read_text() if log.exists() else ""
    if ran.returncode or '"ID"' not in text:
        raise SystemExit(f"ncu failed with status {ran.returncode}:\n{text[-3000:]}")
    return text


def own(picks: Sequence[str], flag: str) -> list[str]:
    return [sys.executable, __file__, flag, *(x for p in picks for x in ("--pick", p))]


# ---- the table


def kernels(text: str) -> Iterator[tuple[str, str, dict[str, float]]]:
    """(range, kernel, figures by metric) of every profiled launch in ncu's raw page."""
    lines = [x for x in text.splitlines() if x.startswith('"')]
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        if not row.get("ID"):
            continue  # the line of units
        where = RANGE.search(" ".join(str(v) for v in row.values()))
        yield where[1] if where else "?", row["Kernel Name"], {k: v for k, x in row.items() if (v := number(x)) is not None}


def number(text: Any) -> float | None:
    try:
        return float(str(text).replace(",", ""))
    except ValueError:
        return None


def block(where: str, kernel: str, figures: Mapping[str, float], metrics: Mapping[str, str]) -> str:
    told = [f"{n} {short(figures[m] * FIGURES[n][1])}" for n, m in metrics.items() if n in FIGURES and m in figures]
    stalls = sorted(((figures[m], n[1:]) for n, m in metrics.items() if n.startswith("~") and m in figures), reverse=True)
    total = sum(v for v, _ in stalls) or 1.0
    waits = ", ".join(f"{n} {100 * v / total:.0f}%" for v, n in stalls[:REASONS])
    return f"{where}: {kernel[:70]}\n    {'; '.join(told)}\n    warps are: {waits}"


def short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pick", action="append", metavar="CASE=WHAT,..", help="what to launch for which cases")
    parser.add_argument("--raw", type=Path, help="ncu's CSV is kept in this file")
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    picks = given.pick or PICKS
    if given.warm or given.profiled:
        launch(picks, given.profiled)
        return 0
    list(picked(picks))
    metrics, missing = wanted(known_metrics())
    subprocess.run(own(picks, "--warm"), timeout=540, check=True)
    text = profile(picks, list(metrics.values()))
    if given.raw:
        given.raw.write_text(text)
    for where, kernel, figures in kernels(text):
        print(block(where, kernel, figures, metrics), flush=True)
    if missing:
        print(f"this ncu has not: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
