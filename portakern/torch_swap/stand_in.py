"""What takes the place of a module's ``forward``: kernels for the calls they were built for, PyTorch for others."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from portakern.errors import PortakernError
from portakern.study.built import Built
from portakern.torch_import import ImportedOperator
from portakern.torch_import.arrays import in_pairs
from portakern.torch_import.trees import flattened, mapped, nested
from portakern.torch_import.weights import Detached
from portakern.torch_swap.recording import Call, Signature, signature
from portakern.torch_swap.strided import AsTheyLie

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kernels:
    """A built operator as it is called for one signature.

    Args:
        built: the kernels.
        places: for each input, the number of an argument among all, or where the module holds it, or a value.
        template, form: the module's results, with a :class:`Result` where the kernels' take the place of an array.
    """

    built: Built
    places: tuple[int | tuple[Any, str] | Any, ...]
    template: tuple[Any, ...]
    form: Any
    _detached: Detached = field(default_factory=Detached, repr=False, compare=False)

    @staticmethod
    def of(op: ImportedOperator, built: Built, module: Any, call: Call) -> Kernels:
        import torch

        args, kwargs = mapped(lambda x: x, (call.args, dict(call.kwargs)))
        before = flattened((args, kwargs))
        with torch.no_grad():
            template, form = flattened(module(*args, **kwargs))
        if not _same(before, flattened((args, kwargs))):
            raise PortakernError("swap", "it writes to an object among its arguments")
        places = tuple(op.numbers[n] if n in op.numbers else _place(module, op.paths.get(n, ""), op.bound.get(n))
                       for n in built.bound.names)  # fmt: skip
        results = tuple(Result(x.is_complex()) if isinstance(x, torch.Tensor) else x for x in template)
        return Kernels(built, places, results, form)

    @cached_property
    def _run(self) -> AsTheyLie:
        return AsTheyLie(self.built)

    def __call__(self, given: Sequence[Any]) -> Any:
        made = self._run([self._input(n, p, given) for n, p in enumerate(self.places)])
        results = iter(made if isinstance(made, tuple) else (made,))
        return nested([_as_given(next(results), x) if isinstance(x, Result) else x for x in self.template], self.form)

    def _input(self, number: int, place: Any, given: Sequence[Any]) -> Any:
        if isinstance(place, int):
            return in_pairs(given[place])
        return self._detached.of(number, getattr(*place)) if isinstance(place, tuple) else place


def _same(before: tuple[Sequence[Any], Any], after: tuple[Sequence[Any], Any]) -> bool:
    """Whether objects among arguments hold the arrays that they held."""
    return str(before[1]) == str(after[1]) and all(a is b for a, b in zip(before[0], after[0], strict=True))


@dataclass(frozen=True)
class Result:
    """Where in a module's results an array is, and whether it is complex, which kernels give in pairs."""

    complex: bool


def _as_given(x: Any, wanted: Result) -> Any:
    import torch

    return torch.view_as_complex(x) if wanted.complex else x


def _place(module: Any, path: str, value: Any) -> Any:
    """Where a weight is looked up at every call, so that a new one is seen; a constant of the graph is its value."""
    owner, _, name = path.rpartition(".")
    try:
        holder = module.get_submodule(owner)
    except AttributeError:
        return value
    return (holder, name) if hasattr(holder, name) else value


class StandIn:
    """Called in place of ``module.forward``.

    Attributes:
        kernels: by the signature of the calls they are for.
        fell_back: how often PyTorch was called, by the reason.
    """

    def __init__(self, module: Any, name: str) -> None:
        self.module, self.name = module, name
        self.own = vars(module).get("forward")  # where the instance has one, as after another swap
        self.original = module.forward
        self.kernels: dict[Signature, Kernels] = {}
        self.fell_back: Counter[str] = Counter()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given, _ = flattened((args, kwargs))
        signed = signature(args, kwargs)
        why = self._unfit(given, signed)
        if not why:
            return self.kernels[signed](given)
        if not self.fell_back[why]:
            log.warning("%s runs in PyTorch: %s", self.name or "the model", why)
        self.fell_back[why] += 1
        return self.original(*args, **kwargs)

    def _unfit(self, given: Sequence[Any], signed: Signature) -> str:
        """Why PyTorch has to do a call; empty where kernels can."""
        import torch

        if self.module.training:
            return "it is in training mode, and kernels are of inference"
        if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in (*given, *self.module.parameters())):
            return "gradients are asked for; call it under torch.no_grad()"
        if torch.is_autocast_enabled(next((x.device.type for x in given if isinstance(x, torch.Tensor)), "cpu")):
            return "autocast is on, and kernels are built for the dtypes of the example"
        if signed not in self.kernels:
            return "there is no example with these shapes and arguments"
        return ""

    def install(self) -> None:
        self.module.forward = self

    def restore(self) -> None:
        if vars(self.module).get("forward") is self:
            del self.module.forward
            if self.own is not None:
                self.module.forward = self.own
