"""What a call costs the host: ours prepared and not, beside torch's own operator, cupy's raw kernel and Triton's launch.

    python benchmarks/launch_overhead.py [--target cuda:sm_90a]

Microseconds per call on the calling thread, median of blocks of calls that only queue (the kernels are small, and the device
is waited for between blocks).  A prepared call of one kernel may cost at most 3 us.  Needs an NVIDIA GPU and torch; cupy and
Triton are left out, and named, where they are missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import portakern as pk
from portakern import native
from portakern.timing import median

SHAPE: dict[str, Any] = {"M": 64, "N": 1024}
BLOCKS, CALLS = 61, 200
LIMIT_US = 3.0

Row = tuple[str, Callable[[], Any]]


def median_us(call: Callable[[], Any], wait: Callable[[], Any]) -> tuple[float, float]:
    """(median, fastest block) of the host's time per call."""
    for _ in range(3 * CALLS):
        call()
    wait()
    taken = []
    for _ in range(BLOCKS):
        begin = native.now_ns()
        for _ in range(CALLS):
            call()
        taken.append((native.now_ns() - begin) / 1e3 / CALLS)
        wait()
    return median(taken), min(taken)


def ours(target: str) -> Iterator[Row]:
    import torch

    built = pk.build("rms_norm", target=target, dtype="bf16", **SHAPE)
    x = torch.randn(SHAPE["M"], SHAPE["N"], device="cuda").bfloat16()
    w = torch.randn(SHAPE["N"], device="cuda").bfloat16()
    prepared = built.prepare(x, w)
    call = prepared.call
    assert call is not None
    yield f"portakern: prepared, native call ({len(call)} kernel)", call
    yield "portakern: prepared()", prepared
    yield "portakern: k(x, w) on torch", lambda: built(x, w)
    operator = built.as_torch_op()
    yield "portakern: as_torch_op", lambda: operator(x, w)
    try:
        import cupy
    except ImportError:
        return
    f32 = pk.build("row_sum", target=target, dtype="f32", **SHAPE)
    a = cupy.random.standard_normal((SHAPE["M"], SHAPE["N"]), dtype=cupy.float32)  # pyright: ignore[reportArgumentType]
    yield "portakern: row_sum k(x) on cupy", lambda: f32(a)


def others() -> Iterator[Row]:
    import torch
    import torch.nn.functional as F

    x = torch.randn(SHAPE["M"], SHAPE["N"], device="cuda").bfloat16()
    w = torch.randn(SHAPE["N"], device="cuda").bfloat16()
    yield "torch.empty_like", lambda: torch.empty_like(x)
    yield "torch: x + x", lambda: x + x
    yield "torch: F.rms_norm", lambda: F.rms_norm(x, (SHAPE["N"],), w, 1e-6)
    compiled = torch.compile(lambda x, w: F.rms_norm(x, (SHAPE["N"],), w, 1e-6))
    yield "torch.compile: F.rms_norm", lambda: compiled(x, w)


def with_cupy() -> Iterator[Row]:
    import cupy

    a = cupy.zeros((SHAPE["M"], SHAPE["N"]), dtype=cupy.float32)
    kernel = cupy.RawKernel('extern "C" __global__ void nothing(const float *x, float *y) {}', "nothing")
    yield "cupy: RawKernel launch", lambda: kernel((64,), (128,), (a, a))
    yield "cupy: a + a", lambda: a + a


def with_triton() -> Iterator[Row]:
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def nothing(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

    x = torch.zeros(SHAPE["M"] * SHAPE["N"], device="cuda")
    y = torch.empty_like(x)
    grid = (SHAPE["M"],)
    launcher: Any = nothing
    yield "triton: kernel[grid](...)", lambda: launcher[grid](x, y, x.numel(), BLOCK=1024)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda:sm_90a")
    given = parser.parse_args()
    import torch

    device = native.open_device("cuda")
    print(f"{device.facts.name}, torch {torch.__version__}; host us per call: median (fastest block)")
    first = 0.0
    for rows in (lambda: ours(given.target), others, with_cupy, with_triton):
        try:
            for name, call in rows():
                middle, least = median_us(call, lambda: device.synchronize(30.0))
                first = first or middle
                print(f"{name:48} {middle:8.2f} ({least:.2f})", flush=True)
        except ImportError as error:
            print(f"left out: {error}")
    print(f"a prepared native call takes {first:.2f} us of {LIMIT_US}")
    return int(first > LIMIT_US)


if __name__ == "__main__":
    sys.exit(main())
