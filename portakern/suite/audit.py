"""Tasks that judge nothing: outputs that do not depend on inputs, are constant, or that a trivial kernel gives too."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from portakern.suite.adapter import TaskRef, suite
from portakern.suite.running import IMPORT_S, MEMORY_BYTES
from portakern.tools.processors import share
from portakern.tools.workers import Job, WorkerPool
from portakern.torch_import.trees import leaves, mapped

CLOSE = 1e-2
"""How far an output may be from the reference in the suites' own checks, as a share; KernelBench's is that."""


@dataclass(frozen=True)
class Audited:
    """A task, and what is suspicious about it."""

    task: str
    findings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def audit(name: str, path: Path | None, tasks: Sequence[TaskRef], size: str, *, jobs: int = 1, seed: int = 0,
          limit_s: float = IMPORT_S) -> Iterator[Audited]:  # fmt: skip
    """One finding list for each task; each is run by PyTorch in a child process."""
    asked = [Job(t.name, "portakern.suite.audit:findings", (name, str(path) if path else None, t, size, seed), {}, limit_s)
             for t in tasks]  # fmt: skip
    with WorkerPool(jobs, env=share(jobs), preload=("torch",), memory_bytes=MEMORY_BYTES) as pool:
        for outcome in pool.run(asked):
            failed = (f"it does not run: {outcome.error.message.splitlines()[0][:200]}",) if outcome.error is not None else ()
            yield Audited(str(outcome.id), failed or tuple(outcome.value))


def findings(name: str, path: str | None, task: TaskRef, size: str, seed: int) -> tuple[str, ...]:
    """What is suspicious, told from the task's results on two draws of its inputs."""
    warnings.simplefilter("ignore")
    first, second = (_results(suite(name).load(Path(path) if path else None, task, size, seed)[0], again) for again in (0, 1))
    found: list[str] = []
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        which = f"output {number}" if len(first) > 1 else "the output"
        found += [f"{which} {said}" for said in _suspicions(a, b)]
    return tuple(found)


def _suspicions(a: Any, b: Any) -> Iterator[str]:
    if not a.numel() or not a.is_floating_point():
        return
    if bool(a.isnan().all()):
        yield "is not a number throughout"
        return
    spread = float(a.max() - a.min())
    largest = float(a.abs().max())
    if a.shape == b.shape and bool((a == b).all()):
        yield "does not depend on the inputs"
    elif a.shape == b.shape and float((a - b).abs().max()) <= CLOSE + CLOSE * largest:
        yield f"changes by less than the tolerance of {CLOSE:g} with other inputs"
    if a.numel() > 1 and spread == 0:
        yield f"is {float(a.reshape(-1)[0]):g} throughout"
    elif largest <= CLOSE:
        yield f"is within the tolerance of {CLOSE:g} of zero"


def _results(task: Any, again: int) -> list[Any]:
    """The outputs on the task's inputs, or on as many other numbers like them."""
    import torch

    def other(x: Any) -> Any:
        if not again or not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        return x.reshape(-1)[torch.randperm(x.numel(), generator=torch.Generator().manual_seed(again))].reshape(x.shape) * 0.9

    args = mapped(other, tuple(task.args))
    if isinstance(task.module, torch.nn.Module):
        task.module.eval()
    torch.manual_seed(7)
    with torch.no_grad():
        made = task.module(*args, **task.kwargs)
    return [x for x in leaves(made) if isinstance(x, torch.Tensor)]
