"""FlashInfer-Bench: a JSON for each definition, with axes, arrays and a reference in PyTorch, and workloads that name sizes.

The path is a trace set (``definitions/KIND/NAME.json``, ``workloads/KIND/NAME.jsonl``), as
https://huggingface.co/datasets/flashinfer-ai/flashinfer-trace is one and the repository's ``flashinfer_trace`` was.  The sizes
asked for are those of a definition's first workload.  Arrays are random as the benchmark's own are, but for whole numbers,
which are indices and count from 0 to below every axis.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from portakern.suite.adapter import LoadedTask, TaskRef, root_with
from portakern.suite.shrink import KEPT, SHARED, SMALL, Numbers, reduced, said
from portakern.suite.taskfile import executed

VARIABLE = 16
"""Of an axis that varies, where no workload says more."""


class FlashInfer:
    name = "flashinfer"
    needs_path = True

    def tasks(self, path: Path | None) -> Sequence[TaskRef]:
        root = root_with("definitions", path, "flashinfer_trace", "flashinfer-ai/flashinfer-trace") / "definitions"
        return [TaskRef(f"{f.parent.name}/{f.stem}", f.parent.name, str(f)) for f in sorted(root.rglob("*.json"))]

    def load(self, path: Path | None, task: TaskRef, size: str, seed: int) -> Sequence[LoadedTask]:
        import torch

        found = Definition.read(Path(task.place))
        numbers = reduced(found) if size == "reduced" else {}
        torch.manual_seed(seed)
        run, args = found.made(numbers)
        return [LoadedTask(run, args, size="reduced" if numbers else "asked", note=said(found, numbers))]


@dataclass(frozen=True)
class Definition:
    """A definition, and the sizes and scalars of a workload."""

    path: str
    described: Mapping[str, Any]
    workload: Mapping[str, Any]

    @staticmethod
    def read(file: Path) -> Definition:
        *root, _, kind, name = file.parts
        workloads = Path(*root, "workloads", kind, name).with_suffix(".jsonl")
        first = workloads.read_text().splitlines()[0] if workloads.is_file() else "{}"
        return Definition(str(file), json.loads(file.read_text()), json.loads(first).get("workload", {}))

    @cached_property
    def axes(self) -> Mapping[str, int]:
        return {name: axis["value"] if axis["type"] == "const" else self.workload.get("axes", {}).get(name, VARIABLE)
                for name, axis in self.described["axes"].items()}  # fmt: skip

    @property
    def sites(self) -> tuple[tuple[str, int], ...]:
        """The axes; the numbers in the code that are equal to a fixed one are it."""
        return tuple((n, v) for n, v in self.axes.items() if v > SMALL and not KEPT.search(n.replace("head_dim", "dim")))

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(v for n, v in self.axes.items() if SHARED.search(n.replace("head_dim", "dim")))

    def made(self, numbers: Numbers) -> tuple[Any, tuple[Any, ...]]:
        sizes = {**self.axes, **{self.sites[i][0]: n for i, n in numbers.items()}}
        fixed = {self.axes[n]: sizes[n] for n, axis in self.described["axes"].items() if axis["type"] == "const"}
        tree = ast.parse(self.described["reference"])
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and type(node.value) is int and node.value > SMALL:
                node.value = fixed.get(node.value, node.value)
        run = inspect.unwrap(executed(tree, self.path)["run"])  # from ``torch.no_grad``
        return run, tuple(self._array(name, spec, sizes) for name, spec in self.described["inputs"].items())

    def _array(self, name: str, spec: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        """A random array, or the workload's number."""
        import torch

        given = self.workload.get("inputs", {}).get(name, {})
        if given.get("type") == "scalar":
            return given["value"]
        dtype = getattr(torch, spec["dtype"])
        shape = [sizes[axis] for axis in spec["shape"] or ()]
        if dtype is torch.bool or not dtype.is_floating_point:
            made = torch.randint(0, 2 if dtype is torch.bool else max(1, min(sizes.values())), shape).to(dtype)
        else:
            made = torch.randn(shape).to(dtype)
        return made if spec["shape"] is not None else made.item()


adapter = FlashInfer()
