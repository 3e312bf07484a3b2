"""What was found: told apart, recognised when met again, and written as files that reproduce it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portakern.check.agreement import agreement
from portakern.fuzz.case import ENTRY
from portakern.fuzz.files import text_of
from portakern.fuzz.outcome import TargetOutcome
from portakern.fuzz.program import FuzzProgram
from portakern.ir.tensor import Map, TensorProgram, tensor_type

DULL = 2
"""Findings of one signature that turned out to be known ones: after so many, the next is taken for one unseen."""


@dataclass(frozen=True)
class FuzzFinding:
    """A fault: its name, where it shows, and the signatures by which it is met again.

    ``suspect`` is ``shared`` where targets of several languages agree on the value that is called wrong: then lowering is at
    fault, or the oracle and its bound.
    """

    name: str
    kind: str
    message: str
    targets: tuple[str, ...]
    signatures: tuple[str, ...]
    cause: str
    suspect: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "targets": list(self.targets), "signatures": list(self.signatures)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> FuzzFinding:
        return FuzzFinding(data["name"], data["kind"], data["message"], tuple(data["targets"]), tuple(data["signatures"]),
                       data["cause"], data.get("suspect", ""))  # fmt: skip


@dataclass
class Findings:
    """All of a run, and those known from elsewhere, which are counted and not told again."""

    mine: dict[str, FuzzFinding] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    _causes: dict[str, str] = field(default_factory=dict)
    _signatures: dict[str, str] = field(default_factory=dict)
    _dull: Counter[str] = field(default_factory=Counter)

    def add(self, finding: FuzzFinding, known: bool = False) -> None:
        """Takes a finding in; ``known`` ones come from elsewhere."""
        if not known:
            self.mine[finding.name] = finding
            self.counts[finding.name] += 1
        self._causes[finding.cause] = finding.name
        for signature in finding.signatures:
            self._signatures.setdefault(signature, finding.name)

    def recognised(self, outcome: TargetOutcome) -> str:
        """The name of the finding that ``outcome`` is surely one more of; empty where it must be looked at."""
        name = self._signatures.get(outcome.signature, "")
        # Wrong values have coarse signatures: only what the smallest program is made of tells causes apart.
        return name if outcome.kind != "incorrect" or self._dull[outcome.signature] >= DULL else ""

    def same_cause(self, outcome: TargetOutcome, cause: str) -> str:
        """The name of the finding with this cause; empty where there is none."""
        name = self._causes.get(cause, "")
        if name:
            self._dull[outcome.signature] += 1
        return name

    def again(self, name: str) -> None:
        self.counts[name] += 1


def cause_of(outcome: TargetOutcome, program: TensorProgram | None) -> str:
    """What tells two faults apart: for wrong values the language, families, and operations of the smallest program."""
    if outcome.kind != "incorrect" or program is None:
        return outcome.signature
    words = {f"{op.mnemonic()}.{op.fn}" if isinstance(op, Map) else op.mnemonic() for op in program.body.ops}
    return f"incorrect {outcome.language} {'+'.join(outcome.families)} {' '.join(sorted(words))}"


def name_of(outcome: TargetOutcome, cause: str) -> str:
    """``KIND_LANGUAGE_DIGEST``, as it can be a module."""
    return re.sub(r"\W", "_", f"{outcome.kind}_{outcome.language}_{hashlib.sha256(cause.encode()).hexdigest()[:8]}")


def suspicion(outcomes: Sequence[TargetOutcome], program: TensorProgram | None) -> str:
    """``shared`` where two languages have the same wrong value: lowering is at fault then, or the judge."""
    if program is None:
        return ""
    dtypes = tuple({tensor_type(v).dtype for v in (*program.args, *program.results)})
    for i, a in enumerate(outcomes):
        for b in outcomes[i + 1 :]:
            both = set(a.wrong) & set(b.wrong)
            if a.language != b.language and both and all(not agreement(a.wrong[k], b.wrong[k], dtypes).message for k in both):
                return "shared"
    return ""


# ---- as a file ----------------------------------------------------------------------------------------------------------


def write(folder: Path, finding: FuzzFinding, program: FuzzProgram, outcomes: Iterable[TargetOutcome]) -> Path:
    """The finding as a file that shows it: ``NAME.py``, written again once it was made smaller."""
    file = folder / f"{finding.name}.py"
    notes = [f"{o.target}: {_short(o.message)}" + (f" (schedule {'; '.join(o.schedule)})" if o.schedule else "")
             for o in outcomes]  # fmt: skip
    if finding.suspect:
        notes += ["", "Several languages have the same value: lowering is at fault, or the oracle or its bound."]
    notes += ["", "To see it:", *(f"    {c}" for c in commands(file, finding, program, outcomes))]
    file.write_text(text_of(program, f"{finding.kind} on {', '.join(finding.targets)}.", notes), encoding="utf-8")
    return file


def commands(file: Path, finding: FuzzFinding, program: FuzzProgram, outcomes: Iterable[TargetOutcome]) -> list[str]:
    """Command lines that show the finding: by ``check`` where that can say all, and in any case exactly as it was tried."""
    targets = ",".join(finding.targets)
    return [*_check(file, program, list(outcomes)), f"portakern fuzz --again {file} --targets {targets}"]


def _check(file: Path, program: FuzzProgram, outcomes: list[TargetOutcome]) -> list[str]:
    v, c = program.variation, program.case
    if v.layout is not None or v.same or v.forms:
        return []
    shape = ",".join(f"{n}={'?' if n in program.open_dims() else size}" for n, size in c.dims.items())
    params = "".join(f" --param {k}={x}" for k, x in c.params.items())
    found = []
    for o in outcomes:
        if v.schedule is not None and len(o.schedule) != 1:
            continue  # one schedule for several kernels cannot be said there
        schedule = f' --schedule "{o.schedule[0]}"' if v.schedule is not None else ""
        size = f" --shape {shape}" if shape else ""
        found.append(f"portakern check {file}:{ENTRY} --targets {o.target}{size} --dtype {c.dtype}{params}{schedule}")
    return found


def _short(message: str) -> str:
    lines = [x.rstrip() for x in message.strip().splitlines()][:12]
    return "\n    ".join(x[:300] for x in lines)
