"""Products of f32 on an NVIDIA GPU by each way that CUDA C++ has, beside PyTorch's (cuBLAS, without tf32), in one process.

    python benchmarks/f32_products.py cuda:h100-sxm [--size M,N,K] [--schedule m=128,n=128,k=32,warps=8,stages=3 ...]

For each: microseconds (the least of four means of twelve calls, by events of the stream), TFLOP/s, PyTorch's time over it, and
the largest error of the result as a share of the mean of its absolute values, against float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import portakern as pk

SCHEDULES = (
    "m=128,n=256,k=16,warps=8,stages=3,mma=fma",
    "m=128,n=128,k=32,warps=8,stages=3,mma=bf16x6-wgmma",
    "m=128,n=128,k=16,warps=4,stages=3,mma=bf16x6",
    "m=64,n=64,k=32,warps=4,stages=3,mma=bf16x6",
)


def microseconds(call: Callable[[], Any], calls: int = 12, means: int = 4) -> float:
    import torch

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    found = []
    for _ in range(means):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / calls * 1e3)
    return min(found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--size", default="4096,4096,4096", help="M,N,K")
    parser.add_argument("--schedule", action="append", help="in place of those listed; may be repeated")
    asked = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        parser.error("this needs an NVIDIA GPU and a PyTorch that sees it")
    torch.backends.cuda.matmul.allow_tf32 = False
    m, n, k = map(int, asked.size.split(","))
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    exact = a.double() @ b.double()

    def line(name: str, call: Callable[[], Any]) -> float:
        error = float((call().double() - exact).abs().max() / exact.abs().mean())
        us = microseconds(call)
        print(f"{name:<52}{us:>9.0f} us{2 * m * n * k / us / 1e6:>8.1f} TFLOP/s  {(peer or us) / us:5.2f}x  error {error:.2e}",
              flush=True)  # fmt: skip
        return us

    peer = 0.0
    peer = line("torch.matmul", lambda: torch.matmul(a, b))
    for schedule in asked.schedule or SCHEDULES:
        try:
            built = pk.build("matmul", asked.target, dtype="f32", schedule=schedule, M=m, N=n, K=k)
        except pk.PortakernError as error:
            print(f"{schedule:<52} {error.message.splitlines()[0]}")
            continue
        line(schedule, partial(built, a, b))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
