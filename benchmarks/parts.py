# ruff: noqa: F821  (dims are strings)
# pyright: reportUndefinedVariable=false, reportInvalidTypeForm=false, reportGeneralTypeIssues=false
"""Rows and convolutions in parts on an NVIDIA GPU, beside other numbers of parts or none, in one process.

    python benchmarks/parts.py rows [--target triton:h200]       # the default, and those numbers of parts
    python benchmarks/parts.py convolutions [--target triton:h200] [--dtype bf16]

A time is the median of seven replays of a CUDA graph of five calls, over five, with caches as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import portakern as pk
from portakern.emit import shares


@pk.operator
def divergence(p: pk.Tensor["M", "N"], t: pk.Tensor["M", "N"]):
    """Kullback and Leibler's, of all rows together."""
    return pk.sum(pk.where(t == 0, 0, t * pk.log(t)) - t * pk.log(p)) / t.shape[0]


@pk.operator
def hinge(x: pk.Tensor["M", "N"], t: pk.Tensor["N"]):
    return pk.mean(pk.maximum(1 - x * t, 0))


@pk.operator
def convolution(x: pk.Tensor["N", "H", "W", "C"], w: pk.Tensor[3, 3, "C", "O"]):
    return pk.relu(pk.conv(x, w, padding=1))


ROWS = (
    (divergence, "f32", 16384, 16384, (264, 297, 396, 528)), (hinge, "f32", 32768, 32768, (264, 297, 396, 528)),
    ("row_sum", "f32", 1, 1 << 26, (264, 297, 528)), ("row_sum", "f32", 4, 1 << 22, (66, 75, 128)),
    ("row_sum", "f32", 4, 1 << 20, (32,)), ("row_sum", "bf16", 64, 1_000_000, (4, 5, 8)),
    ("row_sum", "f32", 64, 1 << 20, (4, 5, 8)), ("layer_norm", "f32", 16, 1 << 22, (16, 19, 33)),
    ("layer_norm", "bf16", 16, 1 << 22, (16, 19, 33)), ("layer_norm", "f32", 4, 1 << 20, (32,)),
    ("softmax", "f32", 64, 1 << 20, (4, 5, 8)), ("softmax", "bf16", 16, 1 << 20, (16, 19)),
)  # fmt: skip
"""Operator, dtype, M, N, and parts of each row."""

CONVOLUTIONS = ((2, 7, 512, 512), (2, 14, 256, 256), (2, 28, 128, 128), (2, 56, 64, 64), (8, 14, 256, 256), (1, 14, 1024, 512),
                (32, 7, 512, 512))  # fmt: skip
"""Images, rows and columns of each, channels and output channels."""


def microseconds(call: Callable[[], Any]) -> float:
    import torch

    call()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(5):
                call()
    found = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / 5 * 1e3)
    return median(found)


def rows(target: str, _: str) -> None:
    import torch

    for op, dtype, m, n, parts in ROWS:
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
        sides = {"layer_norm": ((m, n), (n,), (n,)), divergence: ((m, n), (m, n)), hinge: ((m, n), (n,))}.get(op, ((m, n),))
        arrays = [torch.rand(*s, device="cuda").to(kind) for s in sides]
        for asked in (None, *({"split_k": p} for p in parts)):
            built = pk.build(op, target, dtype, asked, M=m, N=n)
            us = microseconds(lambda built=built, arrays=arrays: built(*arrays))
            name, parts_asked = op if isinstance(op, str) else op.name, str(asked or "default")
            print(f"{name:<12}{dtype:<5}{m:>6} x {n:<10}{parts_asked:<18}{us:>9.1f} us", flush=True)


def convolutions(target: str, dtype: str) -> None:
    import torch

    kind, gain = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype], shares.GAIN
    for n, side, channels, out in CONVOLUTIONS:
        x = torch.randn(n, side, side, channels, device="cuda", dtype=kind)
        w = torch.randn(3, 3, channels, out, device="cuda", dtype=kind)
        for what, least in (("default", gain), ("whole", 0.0)):  # parts that promise nothing are never chosen
            shares.GAIN = least
            built = pk.build(convolution, target, dtype, N=n, H=side, W=side, C=channels, O=out)
            us = microseconds(lambda built=built, x=x, w=w: built(x, w))
            print(f"{n} x {side} x {side} x {channels} to {out}, {dtype:<5}{what:<8}{us:>9.1f} us", flush=True)
        shares.GAIN = gain


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("rows", "convolutions"))
    parser.add_argument("--target", default="cuda:h200")
    parser.add_argument("--dtype", default="f32", choices=("f32", "bf16"), help="of convolutions")
    asked = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        parser.error("this needs an NVIDIA GPU and a PyTorch that sees it")
    {"rows": rows, "convolutions": convolutions}[asked.what](asked.target, asked.dtype)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
