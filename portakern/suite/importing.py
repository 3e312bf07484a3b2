"""A task imported: what a child process does with the suite's own code, which may do anything."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portakern.errors import PortakernError
from portakern.suite.adapter import LoadedTask, TaskRef, suite
from portakern.suite.peer import launches

if TYPE_CHECKING:
    from portakern.torch_import import ImportedOperator


@dataclass(frozen=True)
class ImportedSample:
    """One sample of a task: its works, one for each target, or the error that kept it from being imported.

    Args:
        imported: whether there is a tensor program.
        seconds: for the import alone.
        size, note: as the task was loaded.
        agrees: whether PyTorch in float64 computes the same; ``None`` where random numbers reach every output.
        operations: of the tensor program.
        peer_launches: kernels and library calls of torch.compile, where asked for.
        places: where the operator's inputs are in the task, as :class:`portakern.suite.task_module.TaskModule` has them.
        random: whether it draws random numbers.
    """

    works: tuple[Any, ...] = ()
    error: dict[str, str] | None = None
    imported: bool = False
    seconds: float | None = None
    size: str = ""
    note: str = ""
    agrees: bool | None = None
    operations: int | None = None
    peer_launches: int | None = None
    places: Mapping[str, int | str] = field(default_factory=dict)
    random: bool = False


def import_task(name: str, path: str | None, task: TaskRef, size: str, targets: Sequence[str], seed: int, peer: bool = False
                ) -> tuple[ImportedSample, ...]:  # fmt: skip
    """The samples of a task of the suite ``name``; ``peer`` says whether to count torch.compile's launches too."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    _warm()
    try:
        loaded = suite(name).load(Path(path) if path else None, task, size, seed)
    except PortakernError as error:
        return (ImportedSample(error=error.to_dict()),)
    except Exception as error:  # the suite's own code
        return (ImportedSample(error={"kind": "task", "message": f"{type(error).__name__}: {error}"[:500], "hint": ""}),)
    samples = (_sample(one, task, targets) for one in loaded)
    return tuple(replace(s, peer_launches=launches(one.module, one.args, one.kwargs) if peer and s.imported else None)
                 for s, one in zip(samples, loaded, strict=True))


def _warm() -> None:
    """Imports what the first export of a process imports, so that it is not counted as the task's."""
    global _warmed
    if not _warmed:
        import torch

        from portakern.torch_import import from_torch

        from_torch(torch.nn.ReLU(), (torch.zeros(2),))
        _warmed = True


_warmed = False


def _sample(task: LoadedTask, ref: TaskRef, targets: Sequence[str]) -> ImportedSample:
    from portakern.check.sampled import affordable
    from portakern.registry import registry
    from portakern.study.work import Problem, works
    from portakern.torch_import import from_torch
    from portakern.torch_import.agreement import agreement

    begun = time.perf_counter()
    done = ImportedSample(size=task.size, note=task.note)
    try:
        op = from_torch(task.module, task.args, kwargs=task.kwargs, name=_identifier(ref.name))
        took = time.perf_counter() - begun
        done = replace(done, imported=True, seconds=took, operations=len(op.trace().body.ops), random=op.random,
                       places=_places(op, task.module))  # fmt: skip
        if affordable(op.program(op.typical.dims)):
            held = agreement(op)
            held.raise_if_wrong(op)
            done = replace(done, agrees=True if held.compared else None)
        problem = Problem(op, op.typical.dims, {}, op.typical.inputs)
        made = works(problem, [registry().target(t) for t in targets], op.dtypes)
        return replace(done, works=tuple(replace(work, weights=op.weights) for work in made))
    except PortakernError as error:
        return replace(done, error=error.to_dict(), agrees=done.agrees if error.kind != "import" else False)
    except Exception as error:
        return replace(done, error={"kind": "exception", "message": f"{type(error).__name__}: {error}"[:500], "hint": ""})


def _places(op: ImportedOperator, module: Any) -> dict[str, int | str]:
    """Of each input of ``op`` in the task's arguments, or in its module where that has it under the same path."""
    found: dict[str, int | str] = dict(op.numbers)
    for name, path in op.paths.items():
        try:
            functools.reduce(getattr, path.split("."), module)
        except AttributeError:  # a constant of the export
            continue
        found[name] = path
    return found


def _identifier(name: str) -> str:
    text = "".join(c if c.isalnum() else "_" for c in name.rpartition("/")[2])
    return text if text.isidentifier() else f"task_{text}"
