"""PyTorch's own samples of its operations (OpInfo), for what core ATen is made of: conformance tests that nobody here wrote."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from portakern.errors import ToolMissing
from portakern.suite.adapter import LoadedTask, TaskRef
from portakern.torch_import.trees import flattened, leaves, nested

SAMPLES = 6
"""Of each operation at reduced size, spread over those that there are; all of them at the size asked for."""

LARGEST = 1 << 20
"""Elements of a sample's arrays; larger ones are left out."""

DTYPES = ("float32", "int64", "bool")
"""The first that an operation has is taken by the tasks of the level ``core``."""

BF16 = "bf16"
"""The level whose tasks are the same operations on bfloat16, and what their names begin with."""


class OpInfos:
    name = "aten"
    needs_path = False

    def tasks(self, path: Path | None) -> Sequence[TaskRef]:
        import torch

        found = _core()
        halves = [n for n in sorted(found) if torch.bfloat16 in found[n].dtypes]
        return [*(TaskRef(n, "core") for n in sorted(found)), *(TaskRef(f"{BF16}/{n}", BF16) for n in halves)]

    def load(self, path: Path | None, task: TaskRef, size: str, seed: int) -> Sequence[LoadedTask]:
        import torch

        torch.manual_seed(seed)
        dtypes = ("bfloat16",) if task.level == BF16 else DTYPES
        found = list(_samples(_core()[task.name.rpartition("/")[2]], dtypes))
        if size == "reduced" and len(found) > SAMPLES:
            found = [found[i * (len(found) - 1) // (SAMPLES - 1)] for i in range(SAMPLES)]
        return found


def _core() -> dict[str, Any]:
    """The OpInfo entries of operations that core ATen has, by name with variant."""
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise ToolMissing(f"PyTorch's samples need a package that is not here: {error}",
                          hint="pip install expecttest") from None
    core = _core_names(torch)
    found = {}
    for info in op_db:
        names = {info.aten_name, info.name.rpartition(".")[2], *(a.name for a in info.aliases)}
        if names & core and not info.is_factory_function:
            found[f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name] = info
    return found


def _core_names(torch: Any) -> set[str]:
    """Names of core ATen's operations, as Python writes them: without leading underscores, layers and copies."""
    names: set[str] = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if any(torch.Tag.core in getattr(packet, o).tags for o in getattr(packet, "overloads", list)()):
            names.add(name)
            names.add(name.strip("_").removeprefix("native_").removesuffix("_with_indices"))
    return names | {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear",
                    "matmul"}


def _samples(info: Any, dtypes: Sequence[str]) -> Iterator[LoadedTask]:
    import torch

    dtype = next((getattr(torch, d) for d in dtypes if getattr(torch, d) in info.dtypes), None)
    if dtype is None:
        return
    for sample in info.sample_inputs("cpu", dtype):
        found = [x for x in leaves((sample.input, sample.args, sample.kwargs))
                  if isinstance(x, torch.Tensor)]
        if not found or any(x.numel() > LARGEST or x.is_complex() for x in found):
            continue
        call, arrays = _call(info.op, (sample.input, *sample.args), dict(sample.kwargs))
        yield LoadedTask(call, arrays, note=str(sample.summary())[:200])


def _call(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """``op`` as a function of the arrays among its arguments, and these."""
    import torch

    given, form = flattened((args, kwargs))
    places = [i for i, x in enumerate(given) if isinstance(x, torch.Tensor)]

    def operation(*arrays: Any) -> Any:
        filled = list(given)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        placed, named = nested(filled, form)
        return op(*placed, **named)

    return operation, tuple(given[i] for i in places)


adapter = OpInfos()
