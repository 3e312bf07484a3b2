"""Whether the kernels of a stranger do the work, or the host code beside them.

Kernels could be a decoy: launched and of no use, while host code lets a library do the work.  So a kernel that was found
correct is also run in part, on inputs that the run before did not have (see :class:`portakern.backend.ShowsParts`):

``kernels``  what was launched, alone, must give every output
``host``     host code without its kernels must give none
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from portakern.backend import Executable, HostBuffer, RunsInPart, ShowsParts
from portakern.check.bounds import Val
from portakern.check.compare import compare
from portakern.check.hidden import HiddenCheck, hidden_sizes
from portakern.check.sampled import affordable, elements
from portakern.check.stages import SMALL
from portakern.errors import PortakernError
from portakern.ir.tensor import TensorProgram
from portakern.referee.remote import Run
from portakern.referee.secret import Secret
from portakern.spec.bind import bind
from portakern.spec.inputs import Family

HINT = ("the kernels must do the work: host code may allocate, fill, view, copy and cast around them; numbers that hang on "
        "what arrays hold are for kernels to read")  # fmt: skip

OVER = frozenset({"crash", "out-of-bounds", "timeout", "bad-message", "memory", "device-lost"})
"""Errors of a process that says nothing more."""

PROOF_S = 60.0
"""What the process may take for it, beside what it may for the check."""

SLOW_S = 1.0
"""Runs that take longer are done at small sizes where these are open, and not once more where the last one will do."""


def prove(executable: Executable, runner: RunsInPart, program: TensorProgram, sizes: Mapping[str, int], *,
          families: Mapping[str, Family], secret: Secret, ran: Sequence[Run] = ()) -> str:  # fmt: skip
    """What was shown, in words.  Raises :class:`PortakernError` of the kind ``decoy`` where the kernels do not do the work.

    Arguments are those of :func:`portakern.check.hidden.check_hidden`, the ``runner`` that loaded the executable, and what it
    ``ran`` so far.
    """
    slow = any(r.sizes == dict(sizes) and r.seconds > SLOW_S for r in ran)
    small = smaller(program, families, secret) if slow else {}
    check = Proof(executable, program, {**sizes, **small}, families, secret, None)
    if not check.comparable():
        return "whether its kernels do the work was not looked at, since outputs cannot be compared in parts"
    if runner.recalls and not (slow and check.recall(ran[-1])):
        check.whole_run()
    for part in runner.parts:
        check.in_part(part)
    shown = "its kernels alone give the outputs" if "kernels" in runner.parts else "its host code alone gives no output"
    return shown + (f" at {', '.join(f'{n}={s}' for n, s in small.items())}" if small else "")


def smaller(program: TensorProgram, families: Mapping[str, Family], secret: Secret) -> dict[str, int]:
    """Small sizes of the open dims, which nobody foresees; none where no dim is open."""
    found = hidden_sizes(program, secret.random("size"), families)
    return max(found, key=lambda sizes: elements(bind(program, sizes)), default={})


class Proof(HiddenCheck):
    """Runs in part.  ``right`` says of each output whether all that was looked at is as it should be; an output whose values
    are all the same is not looked at, since a fill may give it."""

    before: Mapping[str, np.ndarray] = {}
    right: dict[str, bool]
    wrong: dict[str, str]

    def comparable(self) -> bool:
        return elements(self.program) <= SMALL[1] or affordable(self.program) or self.has_parts()

    def recall(self, last: Run) -> bool:
        """Whether the last run that there was will do as the one to be done in part."""
        if last.sizes != self.sizes:
            return False
        self.before = {a.name: last.given[a.name] for a in self.program.args if a.name in last.given}
        return True

    def whole_run(self) -> None:
        self.before = self.made("before", self.secret.number("before"))
        self.run("before", self.before, self.poison(0))

    def in_part(self, part: str) -> None:
        runner, self.right, self.wrong = _Part(self.executable, part), {}, {}
        whole, self.executable = self.executable, cast(Executable, runner)
        try:
            self.values(part, self.inputs(part)) if elements(self.program) <= SMALL[1] else self.by_parts(part)
        except PortakernError as error:
            if error.kind in OVER or error.kind == "decoy":
                raise
            if part == "kernels":  # host code without what kernels give it may well fail
                raise PortakernError("decoy", f"its kernels alone, on new inputs, fail: {error.message}", hint=HINT) from error
            return
        finally:
            self.executable = whole
        if part == "kernels" and self.wrong:
            name, how = next(iter(self.wrong.items()))
            raise PortakernError("decoy", f"its kernels alone, repeated on new inputs, do not give the output {name} ({how}): "
                                 f"{runner.said}", hint=HINT)  # fmt: skip
        if part == "host" and (names := [n for n, right in self.right.items() if right]):
            raise PortakernError("decoy", f"its host code gives the output {names[0]} without its kernels: {runner.said}",
                                 hint=HINT)  # fmt: skip

    def made(self, stage: str, seed: int) -> dict[str, np.ndarray]:
        """As usual; integers and numbers are those of the run before, where something else is new: grids may hang on them."""
        found = super().made("values", seed)
        same = {n: x for n, x in self.before.items() if not x.ndim or x.dtype.kind in "biu"}
        return {**found, **same} if len(same) < len(found) else found

    def compare(self, stage: str, name: str, dtype: str, wanted: Val, actual: np.ndarray) -> None:
        found = compare(wanted, dtype, actual)
        if found.message:
            left = self.unwritten(name, wanted)
            self.wrong.setdefault(name, found.message + (f"; {left} elements were never written" if left else ""))
        if wanted.x.size and (wanted.x != wanted.x.flat[0]).any():
            self.right[name] = self.right.get(name, True) and not found.message


class _Part:
    """An executable that runs in part."""

    def __init__(self, executable: Any, part: str) -> None:
        self._executable, self._part, self.guards, self.said = cast(ShowsParts, executable), part, executable.guards, ""

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        self.said = self._executable.run_part(self._part, buffers, sizes)
