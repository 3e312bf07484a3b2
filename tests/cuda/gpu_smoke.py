"""Compiles and runs every sample on the GPU that is here and prints a line for each.

    python tests/cuda/gpu_smoke.py [NAME ...]

Each sample runs in a process of its own, so that a fault costs one line.  The error is a share of the tolerance, at most 1.
Exits with 1 if any sample failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

TARGET = "cuda:sm_90a"
TIMEOUT_S = 90


def one(name: str) -> str:
    """Everything about one sample, in one line."""
    from portakern.registry import registry
    from tests.cuda import references
    from tests.cuda.variants import all_variants

    target = registry().target(os.environ.get("PORTAKERN_SMOKE_TARGET", TARGET))
    language = registry().language("cuda")
    assert language.toolchain is not None and language.runtime is not None
    program = all_variants()[name]
    source = language.emitter.emit(program, target)
    started = time.monotonic()
    binary = language.toolchain.compile(source)
    compiled = time.monotonic() - started
    buffers = references.make_buffers(program)
    before = {n: b.array.copy() for n, b in buffers.items()}
    executable = language.runtime.load(source, binary)
    executable.run(buffers, references.SIZES)
    ratio = references.error_ratio(program, buffers)
    guards = all(map(references.guards_intact, buffers.values()))
    unchanged = all((buffers[a.name].array.tobytes() == before[a.name].tobytes()) for a in program.by_role("input"))
    called = [call_with(library, executable, program, buffers, references.SIZES) for library in ("torch", "cupy")]
    r = binary.resources[0]
    verdict = "ok" if ratio <= 1 and guards and unchanged and all(x.endswith("same") for x in called) else "FAILED"
    return (f"{verdict:7} error {ratio:9.4f}  guards {'ok' if guards else 'BROKEN':6} "
            f"inputs {'ok' if unchanged else 'CHANGED':7} "
            f"regs {r.registers:3} spills {r.spills} shared {r.shared_bytes:6} {compiled:.2f} s  {', '.join(called)}")


def call_with(library: str, executable: Any, program: Any, buffers: Any, sizes: Any) -> str:
    """Whether a call with arrays of ``library`` gives, bit for bit, what the run on host data gave."""
    try:
        outputs = executable.call([to_device(library, buffers[a.name].array) for a in program.by_role("input")], sizes)
    except Exception as error:
        return f"{library} {type(error).__name__}: {str(error)[:120]}"
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    names = [a.name for a in program.by_role("output")]
    same = all(to_bytes(library, x) == buffers[n].array.tobytes() for n, x in zip(names, outputs, strict=True))
    return f"{library} {'same' if same else 'DIFFERS'}"


def to_device(library: str, array: Any) -> Any:
    import numpy as np

    if library == "cupy":
        import cupy

        return cupy.asarray(array)
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array)).cuda()


def to_bytes(library: str, array: Any) -> bytes:
    if library == "cupy":
        return array.get().tobytes()
    import torch

    return array.contiguous().view(torch.uint8).cpu().numpy().tobytes()


def in_child(name: str) -> str:
    try:
        run = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"FAILED  no end after {TIMEOUT_S} s"
    if run.returncode == 0:
        return run.stdout.strip().splitlines()[-1]
    lines = [x for x in run.stderr.strip().splitlines() if x.strip()]
    return f"FAILED  exit status {run.returncode}: {' | '.join(lines[-2:])[:400]}"


def main(names: list[str]) -> int:
    from tests.cuda.variants import all_variants

    names = names or list(all_variants())
    with ThreadPoolExecutor(4) as pool:
        lines = list(pool.map(in_child, names))
    for name, line in zip(names, lines, strict=True):
        print(f"{name:22} {line}", flush=True)
    bad = sum(not line.startswith("ok") for line in lines)
    print(f"{len(names) - bad} of {len(names)} ok")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(one(sys.argv[2]))
        sys.exit(0)
    sys.exit(main(sys.argv[1:]))
