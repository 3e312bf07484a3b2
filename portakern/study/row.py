"""The row: everything known about one operator on one target at one shape, each figure with its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, get_args

from portakern.backend import Estimate, Resources
from portakern.errors import PortakernError
from portakern.study import row_fields as f

Evidence = Literal["emitted", "compiled", "interpreted", "simulated", "executed", "timed"]

EVIDENCE: tuple[str, ...] = get_args(Evidence)
"""Levels of evidence, weakest first: source text exists; machine code exists; its source ran correct in an interpreter
of its language; the machine code ran correct off-silicon; it ran correct on the silicon named; it was timed there."""

SAMPLE_KEYS = ("samples_us", "flags")
"""Keys of a time, and of each of its peers, that hold one entry per sample."""

REFUSED = "unsupported-dtype"
"""The error kind of a dtype that the device cannot have by rule.  It is an answer and counts as no failure."""


@dataclass(frozen=True)
class Row:
    """One line of a study.  Every key is in the JSON; what is not known is ``None``."""

    operator: Annotated[str, "its name"]
    target: Annotated[str, "`language:device`"]
    device: Annotated[str | None, "the silicon's or the description's name"] = None
    shape: Annotated[Mapping[str, Any] | None, dict[str, int | list[int | None] | None],
                     "size of each dim: a list for a starred one, null for an open one"] = None  # fmt: skip
    dtype: Annotated[str | None, "of the inputs that declare none"] = None
    params: Annotated[Mapping[str, Any] | None, dict[str, Any], "parameters of the operator"] = None
    schedule: Annotated[str | None, "of each kernel"] = None
    schedule_from: Annotated[str | None, Literal["given", "tuned", "default"] | None, "who chose it"] = None
    schedule_note: Annotated[str | None, "which tuned entry it is, or why one is not used"] = None
    evidence: Annotated[str | None, Evidence | None, "the highest level reached; each contains those before it"] = None
    method: Annotated[str | None, "how that was reached, and what kept it from a higher level"] = None
    correct: Annotated[bool | None, "whether the results are the operator's; null if nothing ran"] = None
    part: Annotated[float | None, "share of the outputs that was computed, where a simulator ran some blocks alone"] = None
    max_error_ratio: Annotated[float | None, "the largest error as a share of what is allowed"] = None
    error: Annotated[Mapping[str, str] | None, f.ErrorFields, "what ended the row, if anything did"] = None
    source_hash: Annotated[str | None, "SHA-256 of the text with its headers and launches"] = None
    binary_hash: Annotated[str | None, "SHA-256 of the binary"] = None
    resources: Annotated[Mapping[str, Any] | None, f.ResourcesFields, "what the kernels use, read from the binary"] = None
    estimate: Annotated[Mapping[str, Any] | None, f.EstimateFields, "a predicted time, which is no evidence"] = None
    time: Annotated[Mapping[str, Any] | None, f.TimeFields, "a measured time"] = None
    environment: Annotated[Mapping[str, Any] | None, f.EnvironmentFields, "the machine the row was taken on"] = None
    cost: Annotated[Mapping[str, Any] | None, f.CostFields, "compulsory bytes and operations, if no dim is open"] = None
    secret: Annotated[str | None, "the secret with which a stranger's kernel was judged"] = None

    def _repr_html_(self) -> str:
        from portakern.study.report.notebook import row_html

        return row_html(self)

    def to_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Row:
        """The row of a JSON object; unknown keys are left out.  Raises :class:`ValueError` without operator or target."""
        for needed in ("operator", "target"):
            if not isinstance(data.get(needed), str):
                raise ValueError(f"a row needs {needed!r}")
        if data.get("evidence") is not None and data["evidence"] not in EVIDENCE:
            raise ValueError(f"unknown evidence {data['evidence']!r}")
        known = {field.name for field in fields(Row)}
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
