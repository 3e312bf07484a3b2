"""What a module holds for an operator's inputs, as it is when it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from portakern.torch_import.arrays import in_pairs


class Detached:
    """Tensors without their gradients: the same one for a tensor while its memory is the same, so that what was made of it is
    known to be right."""

    def __init__(self) -> None:
        self._held: dict[Any, tuple[Any, Any]] = {}

    def of(self, place: Any, x: Any) -> Any:
        """``x``, which is what stands in ``place`` now."""
        before, detached = self._held.get(place, (None, None))
        if before is not x or detached.data_ptr() != x.data_ptr():
            detached = in_pairs(x.detach())
            self._held[place] = x, detached
        return detached


class ModuleWeights(Mapping[str, Any]):
    """Values of inputs by name: of one that may be replaced, its place (a module and the attribute); of others themselves."""

    def __init__(self, found: Mapping[str, tuple[Any, str] | Any]) -> None:
        self._found = dict(found)
        self._detached = Detached()

    def __getitem__(self, name: str) -> Any:
        found = self._found[name]
        return self._detached.of(name, getattr(*found)) if isinstance(found, tuple) else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def only(self, names: Collection[str]) -> ModuleWeights:
        """Those of the inputs ``names``."""
        return ModuleWeights({n: x for n, x in self._found.items() if n in names})
