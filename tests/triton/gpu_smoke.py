"""Runs every sample and library operator on the GPU of this machine, each in a child process, and prints a table.

    python tests/triton/gpu_smoke.py [name ...]

Columns: name, what happened (``ok``, ``WRONG``, an error), the worst error against float64-ish references in units of a
generous bound (below 1 is right), guard bands, and the median device time of 20 launches by CUDA events (not a
benchmark: caches warm, one stream).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from portakern.backend import Source, Target
from portakern.device import load_devices
from portakern.dtypes import numpy_dtype
from portakern.errors import PortakernError
from portakern.ir.program import Program
from portakern.tools.workers import WorkerPool

TIMEOUT_S = 120.0


def run_on_gpu(source: Source, inputs: dict[str, Any], sizes: dict[str, int]) -> tuple[Any, float]:
    """In the child: run once with guard bands, then time 20 launches on copies; outputs and microseconds."""
    import numpy as np
    import torch

    from portakern.backends.triton import triton_language
    from tests.triton import support

    assert triton_language.runtime is not None
    ran = support.execute_with(triton_language.runtime, source, inputs, sizes)
    executable: Any = triton_language.runtime.load(source, None)
    arguments: list[Any] = []
    for a in source.by_role("input") + source.by_role("scalar") + source.by_role("output"):
        shape = support._shape(a.type, sizes)
        buffer = support.guarded(a.name, shape, numpy_dtype(a.dtype), inputs.get(a.name))
        from portakern.backends.triton.launch.executable import _view

        is_scalar = a.role == "scalar"
        arguments.append(buffer.array.item() if is_scalar else _view(torch.from_numpy(buffer.storage).cuda(), buffer, a))
    times = []
    for _ in range(20):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        executable.function(*arguments)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return ran, float(np.median(times))


def programs(target: Target) -> Iterator[tuple[str, Program]]:
    from portakern.lower import lower_for
    from portakern.spec.load import library
    from tests import samples

    yield from ((f"sample {name}", p) for name, p in samples.all_samples().items())
    for op in library():
        for case in op.cases:
            size = 1
            for v in case.dims.values():
                size *= v if isinstance(v, int) else 1
            if size < 1 << 22:
                bound = op.program(case.dims, params=case.params, dtype="bf16")
                yield f"{op.name} {case.name}", lower_for(bound, target, triton_language)


def main(only: list[str]) -> int:
    from portakern.backends.triton import backend, triton_language
    from tests.triton.support import random_inputs, sizes_of, worst_error

    devices = load_devices(backend.devices)
    target = next((Target("triton", d) for d in devices.values() if not d.product
                   and triton_language.runtime and triton_language.runtime.available(Target("triton", d))), None)  # fmt: skip
    if target is None:
        print("no GPU here that Triton and this backend know")
        return 1
    assert triton_language.runtime is not None
    print(f"{target}: {triton_language.runtime.available(target).detail}")
    failed = 0
    with WorkerPool(1, env=dict(triton_language.environment), preload=("torch", "triton")) as pool:
        for name, program in programs(target):
            if only and not any(word in name for word in only):
                continue
            started = time.monotonic()
            try:
                sizes = sizes_of(program)
                inputs = random_inputs(program, sizes)
                source = triton_language.emitter.emit(program, target)
                ran, micro = pool.call(f"{__spec_name__}:run_on_gpu", source, inputs, sizes, timeout_s=TIMEOUT_S)
                error = worst_error(program, ran.outputs, inputs, sizes)
                good = error < 1 and not ran.broken
                failed += not good
                text = f"{'ok' if good else 'WRONG':6s} error {error:6.3f} {micro:9.1f} us  guards {ran.broken or 'intact'}"
            except PortakernError as fault:
                failed += 1
                text = f"FAILED {fault.kind}: {str(fault)[:200]} {getattr(fault, 'log', '')[-400:]}"
            print(f"{name:36s} {text}  ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"{failed} failed")
    return int(failed > 0)


__spec_name__ = "tests.triton.gpu_smoke"

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
