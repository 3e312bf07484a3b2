"""KernelBench: a file for each task, with ``Model``, ``get_inputs`` and ``get_init_inputs``, in folders by level.

The checkout is given by path (https://github.com/ScalingIntelligence/KernelBench); its files are run as they are, or with the
numbers at their end made smaller.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from portakern.errors import UsageError
from portakern.suite.adapter import LoadedTask, TaskRef
from portakern.suite.shrink import TaskFile, reduced

LEVELS = ("level1", "level2", "level3")
"""Level 4 downloads models and is left out."""


class KernelBench:
    name = "kernelbench"
    needs_path = True

    def tasks(self, path: Path | None) -> Sequence[TaskRef]:
        root = _root(path)
        return [TaskRef(f"{level}/{file.stem}", level, str(file)) for level in LEVELS
                for file in sorted((root / level).glob("*.py"), key=_number)]

    def load(self, path: Path | None, task: TaskRef, size: str, seed: int) -> Sequence[LoadedTask]:
        import torch

        file = TaskFile.read(Path(task.place))
        numbers = reduced(file) if size == "reduced" else {}
        scope = file.run(numbers)
        torch.manual_seed(seed)
        model = scope["Model"](*_entries(scope, "get_init_inputs"))
        torch.manual_seed(seed + 1)
        args = tuple(_entries(scope, "get_inputs"))
        said = file.said(numbers)
        return [LoadedTask(model, args, size="reduced" if numbers else "asked", note=said)]


def _entries(scope: dict[str, Any], name: str) -> list[Any]:
    return list(scope[name]()) if name in scope else []


def _root(path: Path | None) -> Path:
    """The folder that holds those of the levels: the path, or ``KernelBench`` in it."""
    for root in ([path, path / "KernelBench"] if path is not None else []):
        if (root / LEVELS[0]).is_dir():
            return root
    raise UsageError(f"{path} holds no tasks of KernelBench", hint="--path is a checkout of ScalingIntelligence/KernelBench")


def _number(file: Path) -> tuple[int, str]:
    match = re.match(r"\d+", file.name)
    return (int(match[0]) if match else 0, file.name)


adapter = KernelBench()
