"""A task at small sizes of the same structure, found by making the numbers of its file smaller.

What may be made smaller are the whole numbers outside of classes: those assigned at the file's own level and those in
``get_inputs`` and ``get_init_inputs``, so that a number that two places share stays one.  A choice holds where the model, run
on fake tensors, does the same operations in the same order as at the asked sizes.  Where these take too long to look at, as an
unrolled loop over time does, it is enough that the model runs.
"""

from __future__ import annotations

import ast
import contextlib
import logging
import re
import sys
import time
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

SMALL = 8
"""Numbers up to this stay: windows, strides, groups, heads."""

KEPT = re.compile(r"kernel|stride|pad|dilation|group|head|layers$|n_layer|window|patch|depth|factor|ratio|expansion", re.I)
"""Names whose numbers say how a model is built, and not how large."""

SHARED = re.compile(r"group|head", re.IGNORECASE)
"""Names of how many parts a size is dealt out to: at least two elements stay for each, or there is nothing to normalise."""

SEARCH_S = 60.0
"""How long to look at a model, and for smaller numbers."""

Numbers = Mapping[int, int]
"""New values of sites, by their number in the file."""


@dataclass(frozen=True)
class TaskFile:
    """A task's file and the sites in it that may be made smaller."""

    path: str
    text: str

    @staticmethod
    def read(path: Path) -> TaskFile:
        return TaskFile(str(path), path.read_text())

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """The numbers of parts that sizes are dealt out to."""
        named = [(s.targets[0], s.value) for s in ast.parse(self.text).body if isinstance(s, ast.Assign)]
        return tuple(v.value for t, v in named if SHARED.search(getattr(t, "id", "")) and isinstance(v, ast.Constant)
                     and type(v.value) is int)  # fmt: skip

    def smaller(self, site: int) -> Iterator[int]:
        """Sizes to try at a site, smallest first."""
        name, value = self.sites[site]
        least = max((2 * p for p in self.parts if 2 * p <= value and "batch" not in name), default=0)
        yield from (n for n in smaller(value) if n >= least)

    @cached_property
    def sites(self) -> tuple[tuple[str, int], ...]:
        """(name that the number is assigned to, or the function's; its value)."""
        return tuple((name, node.value) for name, node in _sites(ast.parse(self.text)))  # type: ignore[misc]

    def run(self, numbers: Numbers) -> dict[str, Any]:
        """The names of the file, executed with ``numbers`` in place."""
        tree = ast.parse(self.text)
        for index, (_, node) in enumerate(_sites(tree)):
            node.value = numbers.get(index, node.value)
        module = types.ModuleType(f"portakern_task_{Path(self.path).stem}")
        module.__file__ = self.path
        sys.modules[module.__name__] = module  # dataclasses and the like look their module up
        exec(compile(tree, self.path, "exec"), module.__dict__)
        return module.__dict__

    def said(self, numbers: Numbers) -> str:
        """``batch_size 128 -> 8, ..``"""
        return ", ".join(f"{self.sites[i][0]} {self.sites[i][1]} -> {n}" for i, n in sorted(numbers.items()))


def _sites(tree: ast.Module) -> list[tuple[str, ast.Constant]]:
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.FunctionDef):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement
            name = getattr(target, "id", getattr(target, "name", "")) or getattr(getattr(target, "target", None), "id", "")
            for node in ast.walk(statement):
                plain = isinstance(node, ast.Constant) and type(node.value) is int and node.value > SMALL
                if plain and not KEPT.search(name):
                    found.append((name, node))
    return sorted(found, key=lambda f: (f[1].lineno, f[1].col_offset))


def smaller(value: int) -> Iterator[int]:
    """Sizes to try in place of ``value``, smallest first, with its factors of two as far as they go."""
    size = max(SMALL // 2, round(value**0.42))
    odd = value & -value < SMALL  # no multiple of 8
    at = size | 1 if odd else 1 << (size - 1).bit_length()
    while at < value:
        yield at
        at = 2 * at + (1 if odd else 0)


def reduced(file: TaskFile) -> dict[int, int]:
    """The smallest numbers that were found, by site; none where the task runs at its own sizes alone."""
    wanted = operations(file, {})
    begun = time.monotonic()
    first = {i: n for i, (_, v) in enumerate(file.sites) if (n := next(file.smaller(i), v)) < v}
    if wanted is None:  # it does not run, or takes long to look at, as an unrolled loop over time does
        return first if first and operations(file, first) is not None else {}
    if not first or operations(file, first) == wanted:
        return first
    chosen: dict[int, int] = {}
    for site in sorted(first, key=lambda i: -file.sites[i][1]):
        for size in file.smaller(site):
            if time.monotonic() - begun > SEARCH_S:
                return chosen
            # The sites that are left are tried small as well, since sizes that belong together shrink together.
            rest = {i: n for i, n in first.items() if i not in chosen and i != site}
            if operations(file, {**chosen, **rest, site: size}) == wanted:
                return {**chosen, **rest, site: size}
            if operations(file, {**chosen, site: size}) == wanted:
                chosen[site] = size
                break
    return chosen


def operations(file: TaskFile, numbers: Numbers) -> tuple[str, ...] | None:
    """The operations that the model does on fake tensors; ``None`` where it does not run."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []
    until = time.monotonic() + SEARCH_S

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            if time.monotonic() > until:
                raise TimeoutError("it takes too long to look at, as a loop over time does that is unrolled")
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with _quiet(), contextlib.suppress(Exception):  # what the task's own code raises at these sizes
        with FakeTensorMode(allow_non_fake_inputs=True):
            scope = file.run(numbers)
            model = scope["Model"](*_listed(scope, "get_init_inputs"))
            inputs = _listed(scope, "get_inputs")
            with Recorder():
                model(*inputs)
        return tuple(seen)
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch logs of sizes that do not go together."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _listed(scope: Mapping[str, Any], name: str) -> list[Any]:
    return list(scope[name]()) if name in scope else []
