"""Values that an operator has for some of its inputs, as an imported module has for its weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portakern.errors import UsageError
from portakern.launch.host_arrays import NumpyArrays
from portakern.launch.marks import Mark, mark


@dataclass(frozen=True)
class Bound:
    """``names`` of all inputs in order, and ``values`` of those that calls may leave out.

    Values are used as they are at the time of a call.  Beside arrays of another library or device they are brought there, once
    for each, and again where they were written since.
    """

    names: tuple[str, ...]
    values: Mapping[str, Any]
    _there: dict[Any, dict[str, tuple[Mark | None, Any]]] = field(default_factory=dict)
    _origins: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def completed(self, inputs: Sequence[Any], named: Mapping[str, Any], apart: Collection[str] = ()) -> tuple[Any, ...]:
        """All inputs in order: those given by place fill the ones without a value first, then the others.

        Values of the inputs ``apart`` are given as they are, wherever that is.
        """
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
        own = self._beside(next((x for x in inputs if hasattr(x, "dtype")), None), apart)
        return tuple(given[n] if n in given else own[n] for n in self.names)

    def origin(self, x: Any) -> Any:
        """The value that ``x`` is a copy or a view of; ``x`` itself where it is none of ours."""
        copy, value = self._origins.get(id(x), (None, None))
        return value if copy is x else x

    def refresh(self) -> None:
        """Forgets what was brought elsewhere."""
        self._there.clear()
        self._origins.clear()

    def beside(self, like: Any) -> tuple[Hashable, Callable[[Any], Any]]:
        """Where ``like`` is, and what brings an array there."""
        library = type(like).__module__.partition(".")[0]
        if library == "torch":
            return like.device, _to_device(like.device)
        if library == "numpy" or like is None:
            return "numpy", NumpyArrays("cpu", 0).view
        return library, lambda x: x

    def _beside(self, like: Any, apart: Collection[str]) -> Mapping[str, Any]:
        """The values where ``like`` is."""
        place, move = self.beside(like)
        values = dict(self.values)
        if place != "numpy" and all(_is_there(v, place) for v in values.values()):
            return values
        there = self._there.setdefault(place, {})
        return {n: v if _is_number(v) or n in apart else self._brought(there, n, v, move) for n, v in values.items()}

    def _brought(self, there: dict[str, tuple[Mark | None, Any]], name: str, value: Any, move: Callable[[Any], Any]) -> Any:
        """``value`` there, brought again where it was written since, or might have been."""
        marked, x = there.get(name, (None, None))
        if marked is None or not marked.holds(value):
            self._origins.pop(id(x), None)
            marked, x = mark(value), move(value)
            there[name] = marked, x
            self._origins[id(x)] = x, value
        return x


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


def _is_there(x: Any, place: Hashable) -> bool:
    """Whether ``x`` needs not be brought to a place, a device of torch or another library, whose calls take any array."""
    return isinstance(place, str) or _is_number(x) or getattr(x, "device", None) == place


def _to_device(device: Any) -> Any:
    def move(x: Any) -> Any:
        import torch

        return x.to(device) if isinstance(x, torch.Tensor) else torch.as_tensor(x, device=device)

    return move
