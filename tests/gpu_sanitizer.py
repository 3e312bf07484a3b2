"""Every family of kernels under compute-sanitizer, in CUDA C++ and Triton, on the GPU that is here; prints a table.

    python tests/gpu_sanitizer.py [--targets cuda:h200,triton:h200] [--only matmul] [--tools memcheck,racecheck,synccheck]

Each case runs in a process of its own under each tool, as many at once as there are cores.  Everything is compiled by a first
round without a tool.  Arrays are allocations of their own, so that memcheck knows their ends.  A column is a tool: 0, or how
many errors it found (``+n api`` for failed calls of the CUDA API), or why there is no answer.  The last rows are kernels
with a planted fault: a tool that misses its own proves nothing about the others.  Exit status 1 for an error, a missing
answer, or a planted fault that was missed.  Needs compute-sanitizer, torch, and for the planted faults cuda-core.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

TOOLS = ("memcheck", "racecheck", "synccheck")
CASE_S = 100.0
"""At most, for one case under one tool."""


@dataclass(frozen=True)
class Case:
    family: str
    operator: str
    dtype: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.family}: {self.operator} {self.dtype} {'x'.join(str(v) for v in self.values.values())}"


def _product(family: str, m: int, n: int, k: int, dtype: str = "bf16", operator: str = "matmul") -> Case:
    return Case(family, operator, dtype, {"M": m, "N": n, "K": k})


def _attention(family: str, heads: int, groups: int, length: int, width: int, causal: bool) -> Case:
    dims = {"B": 1, "H": heads, "G": groups, "SQ": length, "SK": length, "D": width, "causal": causal}
    return Case(family, "attention", "bf16", dims)


CASES = (
    _product("tensor cores, several tiles a block", 4096, 2048, 128), _product("tensor cores, wide tiles", 2048, 2048, 256),
    _product("tensor cores", 1024, 1024, 256), _product("tensor cores, small", 256, 256, 256),
    _product("tensor cores, ragged", 264, 136, 328), _product("tensor cores, ragged and wide", 2056, 2056, 136),
    _product("tensor cores, unaligned rows", 1025, 1027, 131), _product("tensor cores, tiny", 65, 67, 33),
    _product("tensor cores, epilogue", 1024, 1024, 256, operator="matmul_bias_gelu"),
    _product("tensor cores, packed and rows anywhere", 4095, 4095, 511), _product("tensor cores, split K", 256, 256, 4096),
    _product("tensor cores, few rows, split K", 48, 1024, 4096),
    _product("tensor cores, f16", 256, 384, 128, dtype="f16"), _product("f32 product", 200, 264, 136, dtype="f32"),
    _product("row times matrix", 1, 8192, 1024),
    Case("row times rows", "matmul", "bf16", {"M": 1, "N": 8192, "K": 1024, "transpose_b": True}),
    _product("few rows", 16, 512, 512), _product("few rows, several blocks a sum", 5, 1024, 4096),
    Case("few rows times rows", "matmul", "bf16", {"M": 11, "N": 1024, "K": 1024, "transpose_b": True}),
    _attention("attention, causal", 2, 1, 512, 128, True), _attention("attention, ragged", 2, 2, 200, 64, False),
    Case("elementwise", "add_relu", "bf16", {"M": 33, "N": 1000}),
    Case("elementwise, ragged", "silu_mul", "f32", {"M": 17, "N": 515}),
    Case("transpose", "transpose", "bf16", {"M": 130, "N": 1000}),
    Case("rows in registers", "softmax", "bf16", {"M": 65, "N": 1024}),
    Case("rows in pieces", "softmax", "f32", {"M": 5, "N": 20000}),
    Case("rows over several blocks", "softmax", "f32", {"M": 2, "N": 1000003}),
    Case("rows over several blocks, two statistics", "layer_norm", "bf16", {"M": 1, "N": 1000003}),
    Case("rows, two inputs", "rms_norm", "bf16", {"M": 9, "N": 8192}),
    Case("rows, ragged", "layer_norm", "f16", {"M": 9, "N": 1001}),
    Case("reduction", "row_sum", "f32", {"M": 16, "N": 8192}),
    Case("reduction over several blocks", "row_sum", "f32", {"M": 2, "N": 1000003}),
    Case("two kernels", "cross_entropy", "f32", {"M": 64, "N": 5000}),
    Case("scan", "cumsum", "f32", {"M": 16, "N": 5000}),
    Case("rows picked", "embedding", "bf16", {"V": 130, "D": 770, "B": (33,)}),
    Case("elements picked", "interpolate", "f32", {"N": 2, "C": 5, "H": 9, "W": 13, "height": 17, "width": 11}),
    Case("windows", "conv2d", "bf16", {"N": 2, "H": 9, "W": 13, "C": 17, "O": 40}),
    Case("windows, epilogue", "conv2d_bias_relu", "f16", {"N": 2, "H": 9, "W": 13, "C": 16, "O": 33}),
    Case("windows, each channel", "depthwise_conv", "bf16", {"N": 2, "H": 9, "W": 13, "C": 70}),
    Case("windows of planes", "conv2d", "f32", {"N": 2, "H": 9, "W": 13, "C": 17, "O": 40, "layout": "NCHW"}),
    Case("windows of planes, few channels", "conv2d", "f32",
         {"N": 2, "H": 19, "W": 23, "C": 3, "O": 16, "stride": 2, "layout": "NCHW"}),
    Case("windows of planes, whole tiles", "conv2d", "f32", {"N": 2, "H": 16, "W": 16, "C": 32, "O": 128, "layout": "NCHW"}),
    Case("windows of f32, phases", "conv_transpose2d", "f32", {"N": 1, "H": 9, "W": 7, "C": 17, "O": 20}),
    Case("windows, phases in pieces", "conv_transpose2d", "bf16", {"N": 1, "H": 9, "W": 7, "C": 17, "O": 20}),
    Case("windows, largest", "max_pool", "bf16", {"N": 2, "H": 9, "W": 13, "C": 70}),
    Case("windows, mean", "avg_pool", "f32", {"N": 2, "H": 9, "W": 13, "C": 70}),
    Case("sums over several axes", "batch_norm", "bf16", {"N": 9, "C": 17, "H": 7, "W": 13}),
    Case("sums over the last axes", "group_norm", "bf16", {"N": 9, "C": 5, "H": 7, "W": 13, "groups": 3}),
    Case("pieces", "rope", "bf16", {"B": 2, "S": 33, "H": 3, "D": 20}),
    Case("order", "top_k", "f32", {"M": 9, "N": 300}),
    Case("whole rows in order", "sort", "f32", {"M": 9, "N": 300}),
    Case("rows in order, in runs", "sort", "f32", {"M": 2, "N": 5000}),
    Case("sums by index", "scatter_add", "f32", {"V": 37, "D": 70, "M": 130}),
    Case("rows by group", "moe_grouped_matmul", "bf16", {"P": 130, "K": 72, "N": 70, "G": 9}),
    Case("segments of rows", "segment_sum", "bf16", {"P": 130, "D": 70, "N": 9}),
    Case("a sparse matrix times a dense one", "spmm", "bf16", {"M": 9, "K": 31, "N": 70, "P": 130}),
    Case("products at places", "sddmm", "bf16", {"M": 9, "N": 31, "K": 70, "P": 130}),
    Case("attention, lengths of its own", "attention_varlen", "bf16",
         {"B": 3, "H": 2, "G": 2, "SQ": 65, "SK": 129, "D": 64}),
    Case("a loop over kernels, two states", "lstm", "bf16", {"T": 5, "B": 3, "I": 33, "H": 40}),
    Case("a loop over kernels", "gru", "f32", {"T": 5, "B": 3, "I": 33, "H": 40}),
    Case("random bits", "dropout", "bf16", {"M": 33, "N": 1000}),
    Case("scan by a function", "linear_recurrence", "f32", {"B": 3, "T": 200, "D": 70}),
    Case("products with roots", "fft", "f32", {"M": 5, "N": 384}),
)  # fmt: skip

PLANTED = {
    "memcheck": ("beyond", "x[n + (1 << 28)] = 1;"),
    "racecheck": ("race", "__shared__ float s[64]; s[n] = n; x[n] = s[63 - n];"),
    "synccheck": ("divergent", "if (n < 16) __syncthreads(); x[n] = n;"),
}
"""By tool: the name and the body of a kernel of 64 threads that has the fault."""


# ---- in the child


def run(case: Case, target: str) -> None:
    """Twice on the same arrays, which are made on the host: no other kernel runs."""
    import torch

    import portakern as pk

    kernel = pk.build(case.operator, target=target, dtype=case.dtype, **case.values)
    place = "cpu" if target.endswith(":cpu") else "cuda"
    call = kernel.prepare(*(x.to(place) if hasattr(x, "to") else x for x in inputs(case)))
    for _ in range(2):
        call()
        if place == "cuda":
            torch.cuda.synchronize()
    outputs = call.outputs if isinstance(call.outputs, tuple | list) else (call.outputs,)
    if not all(bool(torch.isfinite(x.cpu().float()).all()) for x in outputs):
        raise SystemExit(f"{case} on {target}: outputs are not finite")


def inputs(case: Case) -> list[Any]:
    """Data of the families that the operator says, on the host."""
    from portakern.spec.inputs import at_sizes, make_inputs
    from portakern.spec.load import load_operator
    from portakern.timing.inputs import from_numpy

    operator = load_operator(case.operator)
    params = {k: v for k, v in case.values.items() if k in operator.params}
    dims = {k: v for k, v in case.values.items() if k not in params}
    made = make_inputs(operator.program(dims, params, case.dtype), at_sizes(operator.families, dims))
    return [x.item() if x.ndim == 0 else from_numpy(x) for x in made.values()]


def run_planted(tool: str) -> None:
    from portakern import native

    core = import_module("cuda.core")
    name, body = PLANTED[tool]
    device = native.open_device("cuda")
    arch = "sm_90" if (device.facts.arch or "").startswith("sm_90") else device.facts.arch
    text = f'extern "C" __global__ void {name}(float* x) {{ const int n = threadIdx.x; {body} }}'
    code = core.Program(text, "c++", core.ProgramOptions(arch=arch)).compile("cubin").code
    place = device.allocate(256)
    args = (native.pointer(place),)
    device.call([native.LaunchSpec(device.load(code).kernel(name), (1, 1, 1), (64, 1, 1), args)])()
    device.synchronize()


# ---- in the parent


@dataclass(frozen=True)
class Answer:
    errors: int | None
    api: int = 0
    note: str = ""

    def __str__(self) -> str:
        if self.errors is None:
            return self.note
        return f"{self.errors}{f' +{self.api} api' if self.api else ''}"


def child(tool: str, task: Sequence[str], limit: float, log: Path) -> Answer:
    """One process, under a tool or (``""``) under none."""
    command = [sys.executable, __file__, *task]
    if tool:
        # By hazard: reporting by analysis took the process down where there was a race (compute-sanitizer of CUDA 13.0).
        extra = {"memcheck": ["--padding", "256"], "racecheck": ["--racecheck-report", "hazard"]}.get(tool, [])
        command = [sanitizer(), "--tool", tool, "--target-processes", "application-only", *extra, *command]
    env = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "OMP_NUM_THREADS": "1"}
    if limit < 1:
        return Answer(None, note="no time left")
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=env)
    except subprocess.TimeoutExpired as stopped:
        log.write_text(str(stopped.stdout))
        return Answer(None, note=f"over {limit:.0f} s")
    log.write_text(ran.stdout + ran.stderr)
    if not tool:
        last = " ".join(ran.stderr.split())[-200:]
        return Answer(0) if ran.returncode == 0 else Answer(None, note=f"does not run: {last}")
    return answer(ran.stdout)


def answer(text: str) -> Answer:
    """What a tool's summary says; hazards that racecheck calls warnings count, too.  0 counts only of what ended well."""
    if found := re.search(r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)", text):
        errors, api = int(found[2]) + int(found[3]), 0
    elif found := re.search(r"ERROR SUMMARY: (\d+) errors?", text):
        api = len(re.findall(r"Program hit \w+", text))
        errors = int(found[1]) - api
    else:
        return Answer(None, note="no summary")
    if not errors and re.search(r"process didn't terminate successfully|Target application returned an error", text):
        return Answer(None, note="process died")
    return Answer(errors, api)


def sanitizer() -> str:
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(found).exists():
        raise SystemExit("compute-sanitizer is not installed; it comes with the CUDA toolkit")
    return found


def task_of(n: int, target: str) -> list[str]:
    return ["--one", str(n), "--targets", target]


def main() -> int:
    given = arguments()
    if given.planted:
        run_planted(given.planted)
        return 0
    if given.one is not None:
        run(CASES[given.one], given.targets)
        return 0
    sanitizer()
    begun = time.monotonic()
    tools, logs = given.tools.split(","), Path(given.logs or tempfile.mkdtemp(prefix="sanitizer-"))
    logs.mkdir(parents=True, exist_ok=True)
    pairs = [(n, t) for n, c in enumerate(CASES) if given.only in str(c) for t in given.targets.split(",")]

    def left() -> float:
        return min(CASE_S, given.limit - (time.monotonic() - begun))

    def asked(tool: str, task: list[str], name: str) -> Answer:
        return child(tool, task, left(), logs / f"{name}-{tool or 'alone'}.txt")

    with ThreadPoolExecutor(given.jobs) as pool:
        alone = dict(zip(pairs, pool.map(lambda p: asked("", task_of(*p), _file(*p)), pairs), strict=True))
        built_s = time.monotonic() - begun
        good = [p for p in pairs if alone[p].errors == 0]
        jobs = {(p, tool): pool.submit(asked, tool, task_of(*p), _file(*p)) for p in good for tool in tools}
        planted = {tool: pool.submit(asked, tool, ["--planted", tool], "planted") for tool in tools}
    print(f"{'case':62} {'target':14}" + "".join(f"{t:>14}" for t in tools))
    clean = True
    for p in pairs:
        found = [jobs[p, t].result() if p in good else alone[p] for t in tools]
        clean &= all(a.errors == 0 and not a.api for a in found)
        told = [str(a) for a in found] if p in good else [str(alone[p])]
        print(f"{CASES[p[0]]!s:62} {p[1]:14}" + "".join(f"{t:>14}" for t in told))
    for tool, job in planted.items():
        seen = job.result()
        clean &= bool(seen.errors)
        print(f"{f'planted for {tool}: {PLANTED[tool][0]}':77}{seen!s:>14}  {'found' if seen.errors else 'MISSED'}")
    print(f"{len(pairs)} cases, {len(tools)} tools; compiled and run alone in {built_s:.0f} s, "
          f"in all {time.monotonic() - begun:.0f} s; {'clean' if clean else 'NOT clean'}, output in {logs}")  # fmt: skip
    return 0 if clean else 1


def _file(n: int, target: str) -> str:
    return f"{n:02}-{CASES[n].operator}-{target.partition(':')[0]}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cuda:h200,triton:h200")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--only", default="", help="cases whose line contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--limit", type=float, default=600, help="seconds for everything")
    parser.add_argument("--logs", help="folder for what the tools print")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--planted", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
