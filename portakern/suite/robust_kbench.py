"""robust-kbench: a folder for each task, with a forward pass, often a backward pass, and the settings of both in JSON.

The checkout is given by path (https://github.com/SakanaAI/robust-kbench).  ``func_forward.py`` has ``Model`` and
``get_inputs``, whose arguments ``config_forward.json`` gives; ``func_backward.py`` has them for the backward pass, which is the
gradients by the inputs and parameters.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from portakern.errors import UsageError
from portakern.suite.adapter import LoadedTask, TaskRef, root_with
from portakern.suite.shrink import SHARED, SMALL, Numbers, reduced, said, stays
from portakern.suite.taskfile import executed

PASSES = ("forward", "backward")


class RobustKBench:
    name = "robust_kbench"
    needs_path = True

    def tasks(self, path: Path | None) -> Sequence[TaskRef]:
        root = root_with("tasks", path, "", "SakanaAI/robust-kbench") / "tasks"
        found = [TaskRef(f"{folder.relative_to(root)}/{which}", which, str(folder)) for which in PASSES
                 for folder in sorted({f.parent for f in root.rglob(f"func_{which}.py")}, key=_in_order)
                 if (folder / f"config_{which}.json").is_file()]  # fmt: skip
        if not found:
            raise UsageError(f"{root} holds no tasks", hint="each is a folder with func_forward.py and config_forward.json")
        return found

    def load(self, path: Path | None, task: TaskRef, size: str, seed: int) -> Sequence[LoadedTask]:
        import torch

        from portakern.torch_import.gradient import gradient_of

        found = Setting.read(Path(task.place), task.level)
        numbers = reduced(found) if size == "reduced" else {}
        torch.manual_seed(seed)
        model, args = found.made(numbers)
        if task.level == "backward":
            model, args = gradient_of(model, args)
        return [LoadedTask(model, args, size="reduced" if numbers else "asked", note=said(found, numbers))]


@dataclass(frozen=True)
class Setting:
    """A task's code, and the first setting of its configuration."""

    path: str
    init: Mapping[str, Any]
    input: Mapping[str, Any]

    @staticmethod
    def read(folder: Path, which: str) -> Setting:
        config = json.loads((folder / f"config_{which}.json").read_text())
        first = {part: config[f"single_{part}_configs"][0] for part in ("init", "input", "shared")}
        return Setting(str(folder / f"func_{which}.py"), {**first["init"], **first["shared"]},
                       {**first["input"], **first["shared"]})  # fmt: skip

    @cached_property
    def scope(self) -> dict[str, Any]:
        return executed(ast.parse(Path(self.path).read_text()), self.path)

    @cached_property
    def arguments(self) -> Mapping[str, Any]:
        """All arguments by name, with the code's own defaults."""
        return {**_taken(self.scope["Model"], self.init), **_taken(self.scope["get_inputs"], self.input)}

    @property
    def sites(self) -> tuple[tuple[str, int], ...]:
        numbers = {n: v for n, v in self.arguments.items() if type(v) is int and v > SMALL}
        return tuple((n, v) for n, v in numbers.items() if not stays(n, numbers))

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(v for n, v in self.arguments.items() if type(v) is int and SHARED.search(n))

    def made(self, numbers: Numbers) -> tuple[Any, tuple[Any, ...]]:
        changed = {self.sites[i][0]: n for i, n in numbers.items()}
        model, inputs = self.scope["Model"], self.scope["get_inputs"]
        return (model(**{**_taken(model, self.init), **_named(model, changed)}),
                tuple(inputs(**{**_taken(inputs, self.input), **_named(inputs, changed)})))  # fmt: skip


def _taken(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that ``function`` takes: those given, and its defaults."""
    known = inspect.signature(function).parameters
    return {n: given.get(n, p.default) for n, p in known.items() if n in given or p.default is not p.empty}


def _named(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v for n, v in given.items() if n in inspect.signature(function).parameters}


def _in_order(folder: Path) -> tuple[Any, ...]:
    """Sorts ``task_2`` before ``task_10``."""
    return tuple((part.rpartition("_")[0], int(n)) if (n := part.rpartition("_")[2]).isdigit() else (part, 0)
                 for part in folder.parts)


adapter = RobustKBench()
