"""A task imported: what a child process does with the suite's own code, which may do anything."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError
from portakern.suite.adapter import LoadedTask, TaskRef, suite
from portakern.suite.peer import launches


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
        done = ImportedSample(imported=True, seconds=took, size=task.size, note=task.note, operations=len(op.trace().body.ops))
        if affordable(op.program(op.typical.dims)):
            held = agreement(op)
            held.raise_if_wrong(op)
            done = ImportedSample((), None, True, took, task.size, task.note, True if held.compared else None, done.operations)
        problem = Problem(op, op.typical.dims, {}, op.typical.inputs)
        made = works(problem, [registry().target(t) for t in targets], op.dtypes)
        return ImportedSample(tuple(made), None, True, took, task.size, task.note, done.agrees, done.operations)
    except PortakernError as error:
        return _failed(done, error.to_dict(), error.kind != "import")
    except Exception as error:
        return _failed(done, {"kind": "exception", "message": f"{type(error).__name__}: {error}"[:500], "hint": ""}, True)


def _failed(done: ImportedSample, error: dict[str, str], agrees: bool) -> ImportedSample:
    return ImportedSample((), error, done.imported, done.seconds, done.size, done.note, done.agrees if agrees else False,
                          done.operations)  # fmt: skip


def _identifier(name: str) -> str:
    text = "".join(c if c.isalnum() else "_" for c in name.rpartition("/")[2])
    return text if text.isidentifier() else f"task_{text}"
