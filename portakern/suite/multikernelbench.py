"""MultiKernelBench: a file for each task in folders by category, as KernelBench has them or with a JSON of cases beside it.

The checkout is given by path (https://github.com/wzzll123/MultiKernelBench).  Files with ``get_inputs`` are tasks of one size.
Those with ``get_input_groups`` read the cases of a JSON of their own name, one a line; a few of these are run here, at most
:data:`SAMPLES` at reduced size, with the sizes that a case names made smaller.  Files that call ``torch_npu`` are left out:
their reference exists on one vendor's device alone.  A file that only imports it is a task like any other.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portakern.suite.adapter import LoadedTask, TaskRef, root_with
from portakern.suite.kernelbench import numbered
from portakern.suite.shrink import SMALL, Numbers, reduced, said
from portakern.suite.taskfile import TaskFile, entries, executed

VENDOR = "torch_npu"
"""The package of operations on Ascend devices, which is not installed elsewhere."""

SAMPLES = 3
"""Cases of a task with several at reduced size, spread over all from small to large."""


class MultiKernelBench:
    name = "multikernelbench"
    needs_path = True

    def tasks(self, path: Path | None) -> Sequence[TaskRef]:
        root = root_with("reference", path, "", "wzzll123/MultiKernelBench") / "reference"
        files = sorted(root.glob("*/*.py"), key=lambda f: (f.parent.name, numbered(f)))
        return [TaskRef(f"{f.parent.name}/{f.stem}", f.parent.name, str(f)) for f in files
                if not f.name.startswith("_") and not _calls_vendor(f.read_text())]  # fmt: skip

    def load(self, path: Path | None, task: TaskRef, size: str, seed: int) -> Sequence[LoadedTask]:
        file = TaskFile.read(Path(task.place))
        if VENDOR in file.text and VENDOR not in sys.modules and importlib.util.find_spec(VENDOR) is None:
            sys.modules[VENDOR] = types.ModuleType(VENDOR)  # imported, but never called
        if "def get_input_groups" not in file.text:
            return [file.loaded(size, seed)]
        return [_loaded(case, size, seed) for case in _chosen(list(_cases(file)), size)]


def _calls_vendor(text: str) -> bool:
    """Whether code, not only a comment or an import, names something of the vendor's package."""
    if VENDOR not in text:
        return False
    return any((isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == VENDOR)
               or (isinstance(n, ast.ImportFrom) and (n.module or "").partition(".")[0] == VENDOR)
               for n in ast.walk(ast.parse(text)))  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One case of a task's JSON.  A number that several of its places share stays one."""

    file: TaskFile
    described: str
    number: int

    @property
    def elements(self) -> int:
        """Of its arrays, as the JSON has their shapes."""
        return sum(math.prod(shape) for shape in _shapes(json.loads(self.described)))

    @property
    def parts(self) -> tuple[int, ...]:
        return ()

    @property
    def sites(self) -> tuple[tuple[str, int], ...]:
        described = json.loads(self.described)
        sizes = {*(n for shape in _shapes(described) for n in shape), *_indexed(described)}
        return tuple(("size", n) for n in sorted(sizes, reverse=True) if n > SMALL)

    def made(self, numbers: Numbers) -> tuple[Any, tuple[Any, ...]]:
        changed = {self.sites[i][1]: n for i, n in numbers.items()}
        with tempfile.TemporaryDirectory() as folder:  # the file reads the JSON that stands beside it
            beside = Path(folder) / Path(self.file.path).name
            beside.with_suffix(".json").write_text(json.dumps(_replaced(json.loads(self.described), changed)) + "\n")
            scope = executed(ast.parse(self.file.text), self.file.path, str(beside))  # errors name the suite's own file
            return scope["Model"](*entries(scope, "get_init_inputs")), tuple(scope["get_input_groups"]()[0])


def _cases(file: TaskFile) -> Iterator[Case]:
    lines = Path(file.path).with_suffix(".json").read_text().splitlines()
    yield from (Case(file, line, number) for number, line in enumerate(lines) if line.strip())


def _chosen(cases: Sequence[Case], size: str) -> Sequence[Case]:
    if size != "reduced":
        return cases
    full = sorted((c for c in cases if c.elements), key=lambda c: c.elements) or list(cases)
    return [full[i * (len(full) - 1) // (SAMPLES - 1)] for i in range(SAMPLES)] if len(full) > SAMPLES else full


def _loaded(case: Case, size: str, seed: int) -> LoadedTask:
    import torch

    numbers = reduced(case) if size == "reduced" else {}
    torch.manual_seed(seed)
    model, args = case.made(numbers)
    return LoadedTask(model, args, size="reduced" if numbers else "asked",
                      note=", ".join(filter(None, (f"case {case.number}", said(case, numbers)))))  # fmt: skip


def _shapes(described: Any) -> Iterator[list[int]]:
    """The shapes of a case's arrays, those in lists of arrays too."""
    for given in described["inputs"]:
        yield from given.get("shapes") or ([given["shape"]] if given.get("shape") else [])


def _indexed(described: Any) -> set[int]:
    """Arguments that say how long something is that indices go into: their range ends there, or one below."""
    given = described["inputs"]
    ranges = [g["range"] for g in given if isinstance(g.get("range"), list)]
    ends = {r[1] + d for r in ranges if len(r) == 2 and type(r[1]) is int for d in (0, 1)}
    return {g["value"] for g in given if g.get("type") == "attr" and type(g.get("value")) is int} & ends


def _replaced(described: Any, changed: Mapping[int, int], key: str = "") -> Any:
    """``described`` with other numbers, in shapes and in arguments; a range of indices ends one below its size."""
    if isinstance(described, dict):
        return {k: _replaced(v, changed, k) for k, v in described.items()}
    if isinstance(described, list):
        return [_replaced(v, changed, key) for v in described]
    if type(described) is not int:
        return described
    if key != "range":
        return changed.get(described, described)
    return next((changed[n] - 1 for n in (described + 1, described) if n in changed), described)


adapter = MultiKernelBench()
