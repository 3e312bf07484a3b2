"""On a GPU: arrays of more than 2^31 elements, compared with torch at both ends and about the 2^31st element.

Takes some two minutes and up to 30 GB of the device's memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import portakern as pk

pytestmark = pytest.mark.gpu

TARGETS = ("cuda:sm_90a", "triton:sm_90")
WIDE = 1 << 31
NEEDED_BYTES = 40 << 30
LIMIT_S = 120


@dataclass(frozen=True)
class Large:
    """An operator at a size; ``expected(inputs, rows)`` gives these rows of its output in f32."""

    operator: str
    values: dict[str, Any]
    expected: Callable[[list[Any], slice], Any]
    tolerance: float


def _transposed(inputs: list[Any], rows: slice) -> Any:
    return inputs[0][:, rows].T.float()


def _product(inputs: list[Any], rows: slice) -> Any:
    return inputs[0][rows].float() @ inputs[1].float()


LARGE = {
    "add_relu": Large("add_relu", dict(M=65536, N=32776), lambda i, r: (i[0][r] + i[1][r]).relu().float(), 0.0),
    "add_relu unaligned": Large("add_relu", dict(M=65537, N=32769), lambda i, r: (i[0][r] + i[1][r]).relu().float(), 0.0),
    "row_sum": Large("row_sum", dict(M=65537, N=32776), lambda i, r: i[0][r].float().sum(-1), 8e-3),
    "softmax": Large("softmax", dict(M=65537, N=32776), lambda i, r: i[0][r].float().softmax(-1), 8e-3),
    "transpose": Large("transpose", dict(M=65537, N=32776), _transposed, 0.0),
    "matmul, many rows": Large("matmul", dict(M=WIDE // 64 + 4096 + 24, N=64, K=64), _product, 8e-3),
    "matmul, many columns": Large("matmul", dict(M=128, N=WIDE // 128 + 4096, K=64), _product, 8e-3),
}  # fmt: skip
"""Sizes for which inputs or the output have more than 2^31 elements."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", list(LARGE))
def test_more_than_two_to_the_31_elements(name: str, target: str) -> None:
    """In a process of its own: what faults on the GPU leaves nothing to go on with."""
    import torch

    if torch.cuda.get_device_properties(0).total_memory < NEEDED_BYTES:
        pytest.skip("needs a GPU with 40 GB of memory")
    command = [sys.executable, __file__, name, target]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, f"exit status {ran.returncode}: {ran.stdout[-500:]}{ran.stderr[-1500:]}"


def one(name: str, target: str) -> None:
    """Runs a case; AssertionError where it computes something else."""
    import torch

    case = LARGE[name]
    built = pk.build(case.operator, target, dtype="bf16", schedule="default", **case.values)
    shapes = [built.program.shape(a.name, case.values) for a in built.program.by_role("input")]
    torch.manual_seed(0)
    inputs = [torch.randn(s, dtype=torch.bfloat16, device="cuda") for s in shapes]
    out = built(*inputs)
    torch.cuda.synchronize()
    assert max(out.numel(), *(x.numel() for x in inputs)) > WIDE
    for rows in places(out, inputs):
        have = out[rows].float()
        want = case.expected(inputs, rows)
        assert have.shape == want.shape
        worst = ((have - want).abs() / (want.abs() + want.square().mean().sqrt())).max().item()
        assert worst <= case.tolerance, f"rows {rows.start}:{rows.stop} differ by {worst:.3g} of a value"


def places(out: Any, inputs: list[Any]) -> list[slice]:
    """A few rows of the output at its start, its end, and where elements of any array are numbered about 2^31."""
    count = out.shape[0]
    few = max(1, min(count, 64, (1 << 26) // max(1, out.numel() // count)))
    about = {0, count - few}
    for x in (out, *inputs):
        if x.numel() > WIDE and x.shape[0] == count:
            about.add(min(max(WIDE // (x.numel() // count) - few // 2, 0), count - few))
    return [slice(start, start + few) for start in sorted(about)]


if __name__ == "__main__":
    one(*sys.argv[1:])
