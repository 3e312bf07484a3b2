"""An executable in two parts: one that depends on weights alone and runs when these changed, and one that runs at every call.

What the first part gives is kept beside marks of the weights that it was made of.  Weights whose writes nobody counts (see
:mod:`portakern.launch.marks`) are taken to be new at each call, so that nothing is ever out of date in silence; so are all of
them while a device records calls, for what is recorded must see weights as they are when it is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any

from portakern.backend import Executable, HostBuffer, Prepared, SaysMethod, Source
from portakern.launch.default import prepare, specialise
from portakern.launch.facts import signature
from portakern.launch.marks import Mark, hold, mark
from portakern.launch.memory import check_guards, guarded_temporary
from portakern.launch.streams import is_recording, wait_for_all

if TYPE_CHECKING:
    from portakern.native import Call as NativeCall

KEPT = 4
"""Sets of weights, by library and device, whose preparation is kept."""


@dataclass(frozen=True)
class Part:
    """A source and what runs it."""

    source: Source
    executable: Executable

    def takes(self) -> list[str]:
        return [a.name for a in self.source.by_role("input", "scalar")]


@dataclass(frozen=True)
class _Kept:
    marks: tuple[Mark | None, ...]
    arrays: tuple[Any, ...]


Move = Callable[[Any], Any]


def _in_place(like: Any) -> tuple[Hashable, Move]:
    return type(like), lambda x: x


class HoistedExecutable:
    """Both parts as one executable, which takes what the operator takes.

    Args:
        preparation, main: the parts; what the first gives are inputs of the second by name.
        given: names of the operator's inputs in the order of a call.
        beside: for an array, the place where it is, and what brings a weight there before it is prepared.
        origin: the array that a weight is a copy or a view of, which is marked in its place.
    """

    def __init__(self, preparation: Part, main: Part, given: Sequence[str],
                 beside: Callable[[Any], tuple[Hashable, Move]] = _in_place, origin: Move = lambda x: x) -> None:  # fmt: skip
        self.preparation, self.main = preparation, main
        self.beside, self.origin = beside, origin
        self.guards = preparation.executable.guards and main.executable.guards
        self.made = preparation.source.by_role("output")
        pool = [*given, *(a.name for a in self.made)]
        self._weights = [pool.index(n) for n in preparation.takes()]
        self._order = [pool.index(n) for n in main.takes()]
        self._like = next((n for n in self._order if n < len(given) and n not in self._weights), None)
        self._runs: dict[Hashable, Callable[[Sequence[Any]], Any]] = {}
        self._kept: dict[Hashable, _Kept] = {}
        self._lock = RLock()
        self.generation = 0

    def refresh(self) -> None:
        """Forgets what was prepared: whoever wrote weights where nobody counts says so by this."""
        with self._lock:
            self.generation += 1
            self._kept.clear()

    @property
    def method(self) -> str:
        """What the runs of the main part went through, where that says so."""
        main = self.main.executable
        return main.method if isinstance(main, SaysMethod) else ""

    # ---- on host data

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        between = {a.name: guarded_temporary(a, {}) for a in self.made}
        self._run(self.preparation, {**buffers, **between}, {})
        self._run(self.main, {**buffers, **between}, sizes)
        for buffer in between.values():
            check_guards(buffer)

    @staticmethod
    def _run(part: Part, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        part.executable.run({a.name: buffers[a.name] for a in part.source.by_role("input", "scalar", "output")}, sizes)

    # ---- on arrays of other libraries

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        return self.specialise(inputs, sizes)(inputs)

    def specialise(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
        """``call`` for inputs like these, which prepares anew where a weight is another or was written."""
        key, move = self._place(inputs)
        main = specialise(self.main.executable, self._for_main(inputs, self._prepared(inputs, key, move)), sizes)
        return lambda given: main(self._for_main(given, self._prepared(given, key, move)))

    def prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int], outputs: Sequence[Any] | None = None) -> Prepared:
        """A call with everything decided, which decides anew where a weight was written."""
        return HoistedPrepared(self, inputs, sizes, outputs)

    # ---- parts

    def for_main(self, inputs: Sequence[Any]) -> list[Any]:
        """What the main part takes."""
        return self._for_main(inputs, self._prepared(inputs, *self._place(inputs)))

    def origins(self, inputs: Sequence[Any]) -> list[Any]:
        return [self.origin(inputs[n]) for n in self._weights]

    def _for_main(self, inputs: Sequence[Any], prepared: Sequence[Any]) -> list[Any]:
        pool = [*inputs, *prepared]
        return [pool[n] for n in self._order]

    def _place(self, inputs: Sequence[Any]) -> tuple[Hashable, Move]:
        """What tells inputs that can share prepared weights, and what brings weights beside them."""
        place, move = self.beside(None if self._like is None else inputs[self._like])
        return (place, *(signature(inputs[n]) for n in self._weights)), move

    def _prepared(self, inputs: Sequence[Any], key: Hashable, move: Move) -> tuple[Any, ...]:
        origins = self.origins(inputs)
        if self._like is not None and is_recording(inputs[self._like]):
            return self._made(inputs, key, move)
        kept = self._kept.get(key)
        if kept is not None and hold(kept.marks, origins):
            return kept.arrays
        with self._lock:  # no two threads prepare the same
            kept = self._kept.get(key)
            if kept is None or not hold(kept.marks, origins):
                marks = tuple(mark(x) for x in origins)
                kept = _Kept(marks, self._made(inputs, key, move))
                wait_for_all(kept.arrays[0])  # calls on other streams read them
                self._keep(key, kept)
        return kept.arrays

    def _made(self, inputs: Sequence[Any], key: Hashable, move: Move) -> tuple[Any, ...]:
        """What the preparation gives of these weights; copies of them that it needs are not kept."""
        weights = [move(inputs[n]) for n in self._weights]
        if key not in self._runs:
            self._runs[key] = specialise(self.preparation.executable, weights, {})
        made = self._runs[key](weights)
        return made if isinstance(made, tuple) else (made,)

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        self._kept.pop(key, None)
        if None in kept.marks:  # of no use to another call
            return
        while len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = kept


class HoistedPrepared:
    """A prepared call of both parts (see :class:`portakern.backend.Prepared`)."""

    def __init__(self, of: HoistedExecutable, inputs: Sequence[Any], sizes: Mapping[str, int],
                 outputs: Sequence[Any] | None) -> None:  # fmt: skip
        self._of, self._inputs, self._sizes = of, tuple(inputs), sizes
        self._decide(outputs)
        self.stream = self._main.stream

    @property
    def outputs(self) -> tuple[Any, ...]:
        return self._main.outputs

    @property
    def call(self) -> NativeCall | None:
        """What runs at every call; ``None`` where that is the preparation too."""
        return None if None in self._marks else self._main.call

    def __call__(self, stream: int | None = None) -> None:
        on = self.stream if stream is None else stream
        if is_recording(self.outputs[0]):
            self._decided(self.outputs)(on)
            return
        if self._generation != self._of.generation or not hold(self._marks, self._of.origins(self._inputs)):
            self._decide(self.outputs)
        self._main(on)

    def _decide(self, outputs: Sequence[Any] | None) -> None:
        self._generation = self._of.generation
        self._marks = [mark(x) for x in self._of.origins(self._inputs)]
        self._main = self._decided(outputs)

    def _decided(self, outputs: Sequence[Any] | None) -> Prepared:
        return prepare(self._of.main.executable, self._of.for_main(self._inputs), self._sizes, outputs)
