"""KernelBench: a file for each task, with ``Model``, ``get_inputs`` and ``get_init_inputs``, in folders by level.

The checkout is given by path (https://github.com/ScalingIntelligence/KernelBench); its files are run as they are, or with the
numbers at their end made smaller.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from portakern.suite.adapter import LoadedTask, TaskRef, root_with
from portakern.suite.taskfile import TaskFile

LEVELS = ("level1", "level2", "level3")
"""Level 4 downloads models and is left out."""


class KernelBench:
    name = "kernelbench"
    needs_path = True

    def tasks(self, path: Path | None) -> Sequence[TaskRef]:
        root = root_with(LEVELS[0], path, "KernelBench", "ScalingIntelligence/KernelBench")
        return [TaskRef(f"{level}/{file.stem}", level, str(file)) for level in LEVELS
                for file in sorted((root / level).glob("*.py"), key=numbered)]

    def load(self, path: Path | None, task: TaskRef, size: str, seed: int) -> Sequence[LoadedTask]:
        return [TaskFile.read(Path(task.place)).loaded(size, seed)]


def numbered(file: Path) -> tuple[int, str]:
    """Sorts files by the number that their names begin with."""
    match = re.match(r"\d+", file.name)
    return (int(match[0]) if match else 0, file.name)


adapter = KernelBench()
