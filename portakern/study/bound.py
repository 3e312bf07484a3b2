"""Values that an operator has for some of its inputs, as an imported module has for its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portakern.errors import UsageError
from portakern.launch.host_arrays import NumpyArrays


@dataclass(frozen=True)
class Bound:
    """``names`` of all inputs in order, and ``values`` of those that calls may leave out.

    Values are used as they are at the time of a call.  Beside arrays of another library or device they are brought there, once
    for each.
    """

    names: tuple[str, ...]
    values: Mapping[str, Any]
    _there: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def completed(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """All inputs in order: those given by place fill the ones without a value first, then the others."""
        for name in named:
            if name not in self.values:
                raise UsageError(f"there is no input {name!r} that has a value",
                                 hint=f"these have: {', '.join(self.values)}; others are given by place")
        if len(inputs) == len(self.names) and not named:
            return tuple(inputs)
        free = [n for n in self.names if n not in self.values]
        if len(inputs) != len(free):
            raise UsageError(f"{len(inputs)} inputs are given, and {len(free)} are wanted ({', '.join(free) or 'none'})",
                             hint=f"the other {len(self.values)} have values; all {len(self.names)} may be given too")
        given = {**dict(zip(free, inputs, strict=True)), **named}
        own = self._beside(next((x for x in inputs if hasattr(x, "dtype")), None))
        return tuple(given[n] if n in given else own[n] for n in self.names)

    def _beside(self, like: Any) -> Mapping[str, Any]:
        """The values where ``like`` is."""
        library = type(like).__module__.partition(".")[0]
        if library == "torch":
            place: Any = like.device
            if all(_is_torch_on(v, place) for v in self.values.values()):
                return self.values
            move = _to_device(place)
        elif library == "numpy" or like is None:
            place, move = "numpy", NumpyArrays("cpu", 0).view
        else:
            return self.values
        if place not in self._there:
            self._there[place] = {n: v if _is_number(v) else move(v) for n, v in self.values.items()}
        return self._there[place]


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


def _is_torch_on(x: Any, device: Any) -> bool:
    return _is_number(x) or getattr(x, "device", None) == device


def _to_device(device: Any) -> Any:
    def move(x: Any) -> Any:
        import torch

        return x.to(device) if isinstance(x, torch.Tensor) else torch.as_tensor(x, device=device)

    return move


