"""Loops whose steps wait for each other, on an NVIDIA GPU: kernels that keep a state, beside PyTorch where it has the operator.

    python benchmarks/steps.py [--targets cuda:h200,triton:h200] [--only selective,delta] [--gradients]

With --gradients the loops that come back, made by ``pk.grad``, in place of the loops (no peer: PyTorch has no such operators).
For each: microseconds of one call, the median of seven, as a CUDA graph between events of the stream, behind 256 MB written.
Results of all targets are compared with each other; the operators are those of tests/lower/step_operators.py, which the oracle
judges at small sizes.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import portakern as pk
from portakern.ir.tensor import tensor_type

OPERATORS = Path(__file__).parent.parent / "tests" / "lower" / "step_operators.py"

CASES: Sequence[tuple[str, dict[str, Any]]] = (
    ("selective", {"B": 8, "T": 2048, "D": 2048, "S": 16}),
    ("selective", {"B": 1, "T": 4096, "D": 2048, "S": 16}),
    ("delta", {"H": 128, "T": 2048, "K": 64, "V": 64}),
    ("delta", {"H": 32, "T": 4096, "K": 128, "V": 128}),
    ("memory", {"B": 64, "T": 1024, "K": 64, "V": 64}),
    ("balanced", {"B": 4096, "R": 64, "C": 64, "steps": 10}),
    ("normed", {"T": 2048, "B": 256, "N": 1024}),
    ("decayed", {"T": 2048, "B": 64, "H": 1024}),
    ("factored", {"B": 1024, "N": 64}),
    ("factored", {"B": 256, "N": 128}),
    ("solved", {"B": 1024, "N": 64, "M": 64}),
)
"""Operators and sizes, in f32."""

GRADIENTS = ("selective", "delta", "memory", "decayed")
"""Those whose gradients are loops that blocks hold."""


def balanced_by_torch(x: Any, steps: int) -> Any:
    p = x.exp()
    for _ in range(steps):
        p = p / p.sum(-1, keepdim=True)
        p = p / p.sum(-2, keepdim=True)
    return p


def peer(name: str, values: dict[str, Any]) -> Callable[..., Any] | None:
    """The same by PyTorch, compiled where it is several operations."""
    import torch

    if name == "balanced":
        compiled = torch.compile(balanced_by_torch)
        return lambda x: compiled(x, values["steps"])
    if name == "factored":
        eye = 4.0 * torch.eye(values["N"], device="cuda")
        return lambda a: torch.linalg.cholesky_ex(a @ a.mT + eye)[0]
    if name == "solved":
        eye = 4.0 * torch.eye(values["N"], device="cuda")
        return lambda a, b: torch.linalg.solve_triangular(a * 0.2 + eye, b, upper=False)
    return None


def microseconds(of: Callable[..., Any], arrays: Sequence[Any], graph: bool) -> float:
    import torch

    def call() -> Any:
        return of(*arrays)

    cold = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    call()
    torch.cuda.synchronize()
    run = call
    if graph:
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            call()
        run = captured.replay
    found: list[float] = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        cold.zero_()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(found)


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def operators(only: str, gradients: bool) -> Iterator[tuple[str, pk.Operator, dict[str, Any]]]:
    names = only.split(",") if only else [name for name, _ in CASES if not gradients or name in GRADIENTS]
    for name, values in (case for case in CASES if case[0] in names):
        operator = pk.load_operator(f"{OPERATORS}:{name}")
        yield name, pk.grad(operator) if gradients else operator, values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cuda:h200,triton:h200")
    parser.add_argument("--only", default="")
    parser.add_argument("--gradients", action="store_true")
    asked = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("PyTorch sees no NVIDIA GPU here")
    for name, operator, values in operators(asked.only, asked.gradients):
        dims = {k: v for k, v in values.items() if k != "steps"}
        program = operator.program(dims, {k: v for k, v in values.items() if k == "steps"}, "f32")
        torch.manual_seed(0)
        arrays = [torch.randn(*map(int, tensor_type(a).shape), device="cuda") * 0.3 for a in program.args]  # type: ignore[arg-type]
        times: dict[str, float] = {}
        results: list[Any] = []
        for target in asked.targets.split(","):
            built = pk.build(operator, target=target, dtype="f32", **values)
            results.append(first(built(*arrays)))
            times[target] = microseconds(built, arrays, graph=True)
        by_torch = None if asked.gradients else peer(name, values)
        if by_torch is not None:
            results.append(by_torch(*arrays))
            times["torch"] = microseconds(by_torch, arrays, graph=False)
        apart = max((float((r - results[0]).abs().max() / results[0].abs().max()) for r in results[1:]), default=math.nan)
        sizes = ",".join(f"{k}={v}" for k, v in values.items())
        print(f"{name:10} {sizes:24} {'  '.join(f'{k} {v:.1f} us' for k, v in times.items())}  apart {apart:.1e}", flush=True)


if __name__ == "__main__":
    main()
