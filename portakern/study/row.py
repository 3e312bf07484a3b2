"""The row: everything known about one operator on one target at one shape, each figure with its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from portakern.backend import Estimate, Resources
from portakern.errors import PortakernError

EVIDENCE = ("emitted", "compiled", "interpreted", "simulated", "executed", "timed")
"""Levels of evidence, weakest first: source text exists; machine code exists; its source ran correct in an interpreter
of its language; the machine code ran correct off-silicon; it ran correct on the silicon named; it was timed there."""

SAMPLE_KEYS = ("samples_us", "flags")
"""Keys of a time, and of each of its peers, that hold one entry per sample."""

REFUSED = "unsupported-dtype"
"""The error kind of a dtype that the device cannot have by rule.  It is an answer and counts as no failure."""


@dataclass(frozen=True)
class Row:
    """One line of a study.  Every key is in the JSON; what is not known is ``None``.

    ``shape`` gives the dims (a list for a starred dim, ``None`` for an open one), ``schedule`` the schedule of each
    kernel, ``schedule_from`` whether it was ``given``, ``tuned`` or is the backend's ``default``, ``schedule_note`` which
    tuned entry it is or why one is not used, ``method`` how the evidence was reached and what kept it from a higher level,
    ``max_error_ratio`` the largest error as a share of what is allowed, ``cost`` the compulsory ``bytes`` and the ``flops``
    with the figure that bounds the arithmetic (``peak``) where no dim is open, ``secret`` what a stranger's
    kernel was judged with, ``environment`` the machine the row was taken on.
    """

    operator: str
    target: str
    device: str | None = None
    shape: Mapping[str, Any] | None = None
    dtype: str | None = None
    params: Mapping[str, Any] | None = None
    schedule: str | None = None
    schedule_from: str | None = None
    schedule_note: str | None = None
    evidence: str | None = None
    method: str | None = None
    correct: bool | None = None
    max_error_ratio: float | None = None
    error: Mapping[str, str] | None = None
    source_hash: str | None = None
    binary_hash: str | None = None
    resources: Mapping[str, Any] | None = None
    estimate: Mapping[str, Any] | None = None
    time: Mapping[str, Any] | None = None
    environment: Mapping[str, Any] | None = None
    cost: Mapping[str, Any] | None = None
    secret: str | None = None

    def _repr_html_(self) -> str:
        from portakern.study.report.notebook import row_html

        return row_html(self)

    def to_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Row:
        """The row of a JSON object; unknown keys are left out.  Raises :class:`ValueError` without operator or target."""
        for needed in ("operator", "target"):
            if not isinstance(data.get(needed), str):
                raise ValueError(f"a row needs {needed!r}")
        if data.get("evidence") is not None and data["evidence"] not in EVIDENCE:
            raise ValueError(f"unknown evidence {data['evidence']!r}")
        known = {f.name for f in fields(Row)}
        return Row(**{k: v for k, v in data.items() if k in known})

    def but(self, **changes: Any) -> Row:
        return replace(self, **changes)

    def failed(self, error: PortakernError) -> Row:
        """This row with the error that ended it; what was reached before stays."""
        return replace(self, error=error.to_dict())

    @property
    def refused(self) -> bool:
        """The device cannot have the dtype by rule."""
        return self.error is not None and self.error["kind"] == REFUSED

    def reward(self, name: str = "kernelgym", **options: Any) -> float:
        """The reward of this name (:mod:`portakern.study.reward`), such as ``fast_p`` with ``p=2.0``."""
        from portakern.study.reward import reward

        return reward(self, name, **options)

    def reached(self, evidence: str) -> bool:
        """Whether the row's evidence is ``evidence`` or contains it."""
        return self.evidence is not None and EVIDENCE.index(self.evidence) >= EVIDENCE.index(evidence)


def without_samples(row: Row) -> Row:
    """``row`` with the figures of its time and without the raw samples, which are long."""
    if not row.time:
        return row
    time = {k: v for k, v in row.time.items() if k not in SAMPLE_KEYS}
    if time.get("peers"):
        time["peers"] = [{k: v for k, v in p.items() if k not in SAMPLE_KEYS} for p in time["peers"]]
    return row.but(time=time)


def success(row: Row, goal: str) -> bool:
    """Whether a row reached what was asked; a dtype refused by rule counts as an answer."""
    if row.refused:
        return True
    if row.error is not None:
        return False
    match goal:
        case "emitted" | "compiled":
            return row.reached(goal)
        case "checked":
            return row.correct is True
        case "timed":
            return row.time is not None
        case "compared":
            return row.correct is not False
    raise ValueError(f"unknown goal {goal!r}")


def resources_dict(kernels: Iterable[Resources]) -> dict[str, Any] | None:
    """The ``resources`` of a row: the most demanding figure over the kernels, and each kernel's own under ``kernels``."""
    each = [resources_of(r) for r in kernels]
    if not each:
        return None
    if len(each) == 1:
        return each[0]
    total: dict[str, Any] = {"kernel": None}
    for key in ("registers", "scratch_bytes", "shared_bytes"):
        total[key] = max((r[key] for r in each if r[key] is not None), default=None)
    if any("agprs" in r for r in each):
        total["agprs"] = max(r.get("agprs") or 0 for r in each)
    for key in ("spills", "code_bytes"):
        known = [r[key] for r in each if r[key] is not None]
        total[key] = sum(known) if known else None
    tightest = min((r for r in each if r["occupancy"] is not None), key=lambda r: r["occupancy"], default=None)
    total["occupancy"] = tightest["occupancy"] if tightest else None
    total["limiter"] = tightest["limiter"] if tightest else None
    total["source"] = each[0]["source"]
    return {**total, "kernels": each}


def resources_of(r: Resources) -> dict[str, Any]:
    """One kernel's resources as JSON, the platform's own figures beside the common ones."""
    common = {"kernel": r.kernel, "registers": r.registers, "spills": r.spills, "scratch_bytes": r.scratch_bytes,
              "shared_bytes": r.shared_bytes, "code_bytes": r.code_bytes, "occupancy": r.occupancy,
              "limiter": r.limiter, "source": r.source}  # fmt: skip
    return common | {k: v for k, v in r.extra if k not in common}


def estimate_dict(e: Estimate) -> dict[str, Any]:
    return {"us": e.us, "limiter": e.limiter, "model": e.model, "version": e.version, "confidence": e.confidence,
            "report": list(e.report), "details": dict(e.details)}  # fmt: skip
