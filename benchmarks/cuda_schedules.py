"""Times CUDA C++ schedules on the GPU that is here, beside torch in the same process.

    python benchmarks/cuda_schedules.py [OPERATOR ...]

Medians of runs on random normal data with the L2 cache flushed before each, by events of the driver.  A quick look for
choosing default schedules, not a verdict: `portakern bench` gives confidence intervals.  Results are compared with torch's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

Case = tuple[dict[str, int], str, list[dict[str, Any]]]
SQUARE = {"M": 8192, "N": 8192}
PRODUCT: list[dict[str, Any]] = [
    {"mma": "sync"}, {"mma": "wgmma"}, {"mma": "wgmma", "stages": 4}, {"mma": "sync", "k": 32, "stages": 4},
    {"mma": "wgmma", "n": 256, "stages": 3}, {"mma": "wgmma", "m": 64, "n": 256, "stages": 4}, {"mma": "sync", "warps": 4},
]  # fmt: skip
CASES: dict[str, list[Case]] = {
    "matmul": [({"M": 4096, "N": 4096, "K": 4096}, "bf16", PRODUCT), ({"M": 8192, "N": 8192, "K": 8192}, "bf16", PRODUCT[:3]),
               ({"M": 4096, "N": 4096, "K": 4096}, "f32", [{}, {"stages": 3}, {"k": 32}])],
    "matmul_bias_gelu": [({"M": 4096, "N": 4096, "K": 4096}, "bf16", PRODUCT[:2])],
    "attention": [({"B": 4, "H": 8, "G": 4, "SQ": 4096, "SK": 4096, "D": 128}, "bf16", [{}, {"m": 64, "warps": 4}])],
    "softmax": [(SQUARE, "bf16", [{}, {"warps": 8}])],
    "rms_norm": [(SQUARE, "bf16", [{}, {"warps": 8}])],
    "layer_norm": [(SQUARE, "bf16", [{}, {"warps": 8}])],
    "add_relu": [(SQUARE, "bf16", [{}])],
    "silu_mul": [(SQUARE, "bf16", [{}])],
    "row_sum": [(SQUARE, "f32", [{}, {"warps": 8}])],
    "transpose": [(SQUARE, "bf16", [{}, {"warps": 4}])],
}  # fmt: skip


def peers(name: str) -> Callable[..., Any]:
    import torch
    import torch.nn.functional as F

    def attention(q: Any, k: Any, v: Any) -> Any:
        b, h, g, s, d = q.shape
        wide = [x.unsqueeze(2).expand(b, h, g, s, d).reshape(b, h * g, s, d) for x in (k, v)]
        return F.scaled_dot_product_attention(q.reshape(b, h * g, s, d), *wide, is_causal=True).reshape(q.shape)

    return {
        "matmul": torch.matmul, "matmul_bias_gelu": lambda a, b, c: F.gelu((a @ b).float() + c.float(), approximate="tanh"),
        "attention": attention, "softmax": lambda x: torch.softmax(x, -1), "add_relu": lambda x, y: torch.relu(x + y),
        "rms_norm": lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-6),
        "layer_norm": lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b, 1e-5), "silu_mul": lambda x, y: F.silu(x) * y,
        "row_sum": lambda x: x.sum(-1), "transpose": lambda x: x.t().contiguous(),
    }[name]  # fmt: skip


def median_us(call: Callable[[], Any], runs: int = 20) -> float:
    import torch

    flush = torch.empty(128 << 20, dtype=torch.int8, device="cuda")
    times = []
    for n in range(runs + 3):
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        if n >= 3:
            times.append(start.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


def inputs(program: Any, sizes: dict[str, int]) -> list[Any]:
    import torch

    from portakern.ir.size import evaluate

    kinds = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    torch.manual_seed(0)
    return [torch.randn([evaluate(n, sizes) for n in a.type.shape], device="cuda").to(kinds[a.dtype])
            for a in program.arrays if a.role == "input"]  # fmt: skip


def run(name: str, sizes: dict[str, int], dtype: str, schedule: dict[str, Any]) -> str:
    from portakern.backends.cuda.runtime import CudaRuntime

    import portakern as pk
    from portakern.registry import registry

    params = {"causal": True} if name == "attention" else {}
    built = pk.build(name, "cuda:sm_90a", dtype, schedule=schedule, **sizes, **params)
    given = inputs(built.program, sizes)
    executable = CudaRuntime().load(registry().language("cuda").emitter.emit(built.program, built.target), built.binary)
    got, want = executable.call(given, sizes), peers(name)(*given)
    off = ((got.float() - want.float()).abs() / (want.float().abs() + want.float().abs().mean())).max().item()
    ours, theirs = median_us(lambda: executable.call(given, sizes)), median_us(lambda: peers(name)(*given))
    used = built.binary.resources[0]
    return (f"{ours:9.1f} us  torch {theirs:9.1f}  ratio {theirs / ours:5.2f}  off {off:.1e}  regs {used.registers} "
            f"spills {used.spills} shared {used.shared_bytes} occ {used.occupancy:.2f}")


def main(names: list[str]) -> None:
    for name in names or CASES:
        for sizes, dtype, schedules in CASES[name]:
            for schedule in schedules:
                try:
                    line = run(name, sizes, dtype, schedule)
                except Exception as error:  # one schedule that does not fit must not hide the others
                    line = f"{type(error).__name__}: {str(error)[:200]}"
                print(f"{name:17} {'x'.join(map(str, sizes.values())):16} {dtype:5} {schedule!s:46} {line}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
