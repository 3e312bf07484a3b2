"""A task's own module once more, on the device where its kernels are timed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portakern.ir.tensor import TensorProgram
from portakern.spec.inputs import Family, make_inputs
from portakern.suite.adapter import LoadedTask, TaskRef, suite
from portakern.timing.inputs import from_numpy, give_back
from portakern.torch_import.arrays import in_pairs
from portakern.torch_import.trees import leaves, mapped

ALIGN = 16
"""Bytes to which kernels take their arrays to be aligned."""


@dataclass(frozen=True)
class TaskModule:
    """A sample of a task: what a worker needs to load it, and where the operator's inputs are in it.

    Args:
        suite, path, task, size, seed: as the suite's ``load`` takes them.
        sample: which of those that ``load`` gives.
        places: of each input of the operator, the number of its leaf among the arguments, or its path in the module; inputs
            that are neither, constants of the export, are left out.
        random: whether it draws random numbers, so that no two calls give the same.
    """

    suite: str
    path: str | None
    task: TaskRef
    size: str
    seed: int
    sample: int
    places: Mapping[str, int | str]
    random: bool = False

    def on(self, device: Any) -> ModuleCall:
        """Loaded, with its inputs and weights on ``device``."""
        import torch

        try:
            with torch.device(device):  # numbers are drawn where they are needed: gigabytes of them take the host long
                loaded = self._loaded()
            return ModuleCall.of(loaded, device)
        except Exception:  # the suite's own code may count on the host
            pass
        give_back()
        return ModuleCall.of(self._loaded(), device)

    def _loaded(self) -> LoadedTask:
        return suite(self.suite).load(Path(self.path) if self.path else None, self.task, self.size, self.seed)[self.sample]


@dataclass(frozen=True)
class ModuleCall:
    """``call(*args, **kwargs)`` is an inference of the module, or a call of the function, on contiguous arrays of a device."""

    call: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @staticmethod
    def of(loaded: LoadedTask, device: Any) -> ModuleCall:
        import torch

        def placed(x: Any) -> Any:
            return as_kernels_take(x.to(device)) if isinstance(x, torch.Tensor) else x

        args, kwargs = mapped(placed, (tuple(loaded.args), dict(loaded.kwargs)))
        module = loaded.module
        if isinstance(module, torch.nn.Module):
            module = module.to(device).eval()
            for part in module.modules():  # tensors that are plain attributes stay behind when a module moves
                for name, x in list(vars(part).items()):
                    if isinstance(x, torch.Tensor):
                        setattr(part, name, x.to(device))
        return ModuleCall(module, args, kwargs)

    def __call__(self) -> Any:
        return self.call(*self.args, **self.kwargs)

    def tensors(self) -> list[Any]:
        """Those that it is called with."""
        return [x for x in leaves((tuple(self.args), dict(self.kwargs))) if hasattr(x, "detach")]

    def with_tensors(self, change: Callable[[Any], Any]) -> ModuleCall:
        """The same on other tensors."""
        args, kwargs = mapped(lambda x: change(x) if hasattr(x, "detach") else x, (tuple(self.args), dict(self.kwargs)))
        return ModuleCall(self.call, args, kwargs)

    def arrays(self, places: Mapping[str, int | str], program: TensorProgram, families: Mapping[str, Family], device: Any
               ) -> list[Any]:  # fmt: skip
        """The inputs of ``program`` in order: the module's own tensors where they are such, so that both read one memory."""
        given = leaves((tuple(self.args), dict(self.kwargs)))
        missing = [a.name for a in program.args if a.name not in places]
        made = make_inputs(program, families, only=missing) if missing else {}

        def array(name: str) -> Any:
            place = places.get(name)
            if place is None:
                x: Any = from_numpy(made[name]).to(device)
            else:
                x = given[place] if isinstance(place, int) else functools.reduce(getattr, place.split("."), self.call)
            if name in program.scalars:
                return x.item() if hasattr(x, "item") else x
            return as_kernels_take(in_pairs(x.detach()))

        return [array(a.name) for a in program.args]


def as_kernels_take(x: Any) -> Any:
    """``x`` itself where it is contiguous and aligned, else a copy that is."""
    whole = x.contiguous()
    return whole if whole.data_ptr() % ALIGN == 0 else whole.clone()
