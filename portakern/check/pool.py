"""Inputs whose expected values took long to compute, kept for some more kernels of the same task.

Nobody knows in advance which inputs a kernel will find, since they were drawn from secrets of their own and which of them come
next is drawn.  But those that were there before may have been told to others by the kernel that found them, in the text of an
error for one.  So a set is used a few times only, and a kernel that is judged on kept inputs is run on new ones as well, where
parts of the outputs that it cannot foresee are compared (:meth:`portakern.check.hidden.HiddenCheck.others`).
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from portakern.check.bounds import Val

USES = 8
"""How many kernels find the same inputs."""

SETS = 2
"""How many sets of a stage are kept."""

WORTH_S = 0.1
"""What takes less is computed anew for every kernel."""

MOST_BYTES = 1 << 30
"""Of inputs and expected values together."""

Inputs = Mapping[str, np.ndarray]


@dataclass
class Kept:
    """One set; ``wanted`` is filled in when it is first asked for."""

    inputs: Inputs
    wanted: dict[str, Val] = field(default_factory=dict)
    uses: int = 0

    @property
    def bytes(self) -> int:
        wanted = sum(v.x.nbytes + np.asarray(v.e).nbytes for v in self.wanted.values())
        return wanted + sum(x.nbytes for x in self.inputs.values())


class Pool:
    """Sets by what they are for.  Used from one thread.

    Attributes:
        made, lent: how many sets were computed, and how often one was found.
    """

    def __init__(self, worth_s: float = WORTH_S, most_bytes: int = MOST_BYTES) -> None:
        self.worth_s, self.most_bytes = worth_s, most_bytes
        self._kept: OrderedDict[object, list[Kept]] = OrderedDict()
        self._cheap: set[object] = set()
        self.made = self.lent = 0

    def take(self, key: object, make: Callable[[int], Inputs], expect: Callable[[Inputs], dict[str, Val]]) -> Kept | None:
        """A set for ``key``: one that is kept, or one that ``make`` gives for a secret seed.  ``None`` where what is expected
        takes so little that nothing is kept."""
        if key in self._cheap:
            return None
        sets = self._kept.setdefault(key, [])
        self._kept.move_to_end(key)
        if len(sets) < SETS:
            begun = time.perf_counter()
            found = Kept(make(secrets.randbits(128)))
            found.wanted = expect(found.inputs)
            if time.perf_counter() - begun < self.worth_s or found.bytes > self.most_bytes:
                del self._kept[key]
                self._cheap.add(key)
                return None
            self.made += 1
            sets.append(found)
            self._forget()
        else:
            found = sets[secrets.randbelow(len(sets))]
            self.lent += 1
        found.uses += 1
        if found.uses >= USES and found in sets:
            sets.remove(found)
        return found

    def _forget(self) -> None:
        """What was not asked for longest goes first."""
        while sum(k.bytes for sets in self._kept.values() for k in sets) > self.most_bytes and len(self._kept) > 1:
            self._kept.popitem(last=False)
