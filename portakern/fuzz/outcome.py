"""What became of one program on one target, and which of these are alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from portakern.dtypes import DTYPES

if TYPE_CHECKING:
    import numpy as np

OK, REFUSED, UNUSED, FOUND = "ok", "refused", "unused", "found"
"""Right; refused with the operator's line; not tried, since the drawn schedule does not fit or a tool is missing; a fault."""

MODULE = "fuzz"
"""Files of made-up operators are called by it and a digest, which tells a line of theirs in a message."""

REFUSALS = ("missing-rule", "unsupported-dtype", "lowering", "unsupported-source")
"""Kinds of error that say what a target does not have."""

MISFITS = ("schedule", "missing-rule", "lowering")
"""Kinds of error of a schedule or layout that was drawn and does not fit."""

TOO_LARGE = ("OUT_OF_RESOURCES",)
"""Words of drivers for a schedule that the device cannot hold after all."""

NO_ROOM = "for which there is no room"
"""Words of a simulator that this machine is too small for."""

NOT_DONE = ": not done within"
"""Words of a simulator that was ended."""

ABSENT = ("tool-missing", "no-silicon")


@dataclass(frozen=True)
class TargetOutcome:
    """One program on one target.

    Args:
        status: one of the words above.
        kind, message: those of the error; empty where all is right.
        stage: of the check, the first that failed.
        families: of the kernels, in order.
        schedule: of the kernels as text, in order.
        seconds: in workers.
        reached: functions of lowering and of the emitter that ran.
        wrong: the outputs of failed stages, by stage and name.
        log: what a compiler or a process that died has printed.
    """

    target: str
    status: str
    kind: str = ""
    message: str = ""
    stage: str = ""
    families: tuple[str, ...] = ()
    schedule: tuple[str, ...] = ()
    seconds: float = 0.0
    reached: frozenset[str] = frozenset()
    wrong: Mapping[tuple[str, str], np.ndarray] = field(default_factory=dict)
    log: str = ""

    @property
    def language(self) -> str:
        return self.target.partition(":")[0]

    @property
    def signature(self) -> str:
        """Equal for outcomes that are probably of one cause."""
        if self.kind == "incorrect":
            stage = "values" if self.stage in ("", "values", "repeat") else self.stage
            return f"incorrect {self.language} {'+'.join(self.families)} {stage}"
        return f"{self.kind} {self.language} {normal(self.message)}"

    def like(self, other: TargetOutcome) -> bool:
        """Whether ``self`` may take the place of ``other`` while that is made smaller."""
        if self.status != FOUND or self.kind != other.kind or self.language != other.language:
            return False
        if self.kind == "incorrect":
            return self.stage in ("values", other.stage)
        return self.signature == other.signature

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the log of a run."""
        said = {"target": self.target, "status": self.status, "kind": self.kind, "message": self.message[:600],
                "stage": self.stage, "seconds": round(self.seconds, 3)}  # fmt: skip
        return {k: v for k, v in said.items() if v}


def normal(message: str) -> str:
    """The first line of a message without what differs between programs: places, names, numbers."""
    lines = [x.strip() for x in message.splitlines() if x.strip()]
    line = "; ".join(dict.fromkeys([*lines[:1], *(x for x in lines[1:] if x.startswith("- "))]))  # and what is missing
    line = re.sub(r"[\w./-]*fuzz_[0-9a-f]{12}\.py:\d+:?", "", line)
    line = re.sub(r"^\S*\.py:\d+: ", "", line.strip()).replace("()", "")
    line = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]", "~", line)
    keep = re.findall(r"\(raised at [^)]*\)", line)  # the line of our own code stays as it is
    line = re.sub(r"\(raised at [^)]*\)", "", line)
    line = re.sub(r"\w+(\.\d+)?", lambda m: m[0] if m[0] in DTYPES else re.sub(r"\d+(\.\d+)?", "#", m[0]), line)
    return " ".join([*line.split(), *keep])[:200]


def status_of(kind: str, message: str, drawn: bool) -> str:
    """What an error means; ``drawn``: the schedule is not the backend's default, or inputs are not contiguous."""
    if kind in ABSENT or (kind == "simulator" and NO_ROOM in message) or (kind == "timeout" and NOT_DONE in message):
        return UNUSED
    if drawn and (kind in MISFITS or any(word in message for word in TOO_LARGE)):
        return UNUSED
    if kind in REFUSALS:
        return REFUSED
    return FOUND
