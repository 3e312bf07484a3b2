"""What a plan says: for each target where a model's time goes, every figure with its evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portakern.model_study.roof import Bound, Needs, Roof
from portakern.study.row import EVIDENCE, Row
from portakern.study.study import write_text
from portakern.version import __version__

BASES = ("time", "estimate", "bound")
"""What the shares of a target rest on, the best first: times of its silicon, a model's estimates, or the roofline alone."""


@dataclass(frozen=True)
class KernelRow:
    """Equal pieces of the model on one target.

    Args:
        name: the module's path, of equal layers with their numbers (``blocks.{0-11}.up``), and the line.
        places: where its pieces stand, numbers of layers left out (``blocks.*.up``), and how many in each: by these targets are
            compared.
        what: family of the kernels, ``copy``, or ``loop`` for steps with all their turns.
        number: of the first of them in the order of launches, from 1.
        kernels: their names in the emitted source.
        count: how many such pieces the model has; all other figures are of one.
        launches: of one.
        needs, bound: what must be moved and computed, and the least time for that; ``None`` where no roof is known.
        weights_only: it reads nothing but weights, so that it could be done once.
        row: evidence, resources, estimate, time and errors, as in every study.
    """

    name: str
    places: tuple[tuple[str, int], ...]
    what: str
    number: int
    kernels: tuple[str, ...]
    count: int
    launches: int
    needs: Needs
    bound: Bound | None
    weights_only: bool
    row: Row

    def us(self, basis: str) -> float | None:
        """Of one piece."""
        match basis:
            case "time":
                return (self.row.time or {}).get("median_us")
            case "estimate":
                return (self.row.estimate or {}).get("us")
            case _:
                return self.bound.us if self.bound else None

    def to_dict(self) -> dict[str, Any]:
        told = self.row.to_dict()
        kept = ("evidence", "method", "error", "schedule", "resources", "estimate", "time")
        bound = {"us": self.bound.us, "limiter": self.bound.limiter} if self.bound else None
        return {"name": self.name, "places": dict(self.places), "what": self.what, "kernels": list(self.kernels),
                "count": self.count, "launches": self.launches, "flops": self.needs.flops, "bytes": self.needs.bytes,
                "roofline": bound, "weights_only": self.weights_only, **{k: told[k] for k in kept}}  # fmt: skip


@dataclass(frozen=True)
class TargetPlan:
    """A model on one target.

    Args:
        target, device: what was asked, and the silicon or product.
        rows: in the order of the first launch of each.
        launches: of a call of the whole, which may be fewer than those of the rows where neighbours go together.
        whole: the ``time`` of a whole call, where the silicon is here.
        floor: the least time of the model itself: each input read and each output written once.
        roof: what bounds are taken from.
        rereads: bytes that a third kernel and those after it read of what one hands on (a residual has two readers).
        checked: what the results were compared with.
        error: what kept the target from having rows or times.
        prepared: how many kernels depend on weights alone, and so run once and are in no other figure.
    """

    target: str
    device: str
    rows: tuple[KernelRow, ...] = ()
    launches: int | None = None
    whole: Mapping[str, Any] | None = None
    floor: Bound | None = None
    roof: Roof = field(default_factory=Roof)
    rereads: int = 0
    checked: str = ""
    error: Mapping[str, str] | None = None
    prepared: int = 0

    @property
    def basis(self) -> str:
        """The best of :data:`BASES` that any row has, and for times, all."""
        if self.rows and all(r.us("time") is not None for r in self.rows):
            return "time"
        return "estimate" if any(r.us("estimate") is not None for r in self.rows) else "bound"

    @property
    def evidence(self) -> str | None:
        """That of the weakest row."""
        levels = [r.row.evidence for r in self.rows]
        return None if not levels or None in levels else min((x for x in levels if x), key=EVIDENCE.index)

    def total(self, basis: str = "") -> float | None:
        """Microseconds over all pieces that have a figure; ``None`` where none has."""
        found = [us * r.count for r in self.rows if (us := r.us(basis or self.basis)) is not None]
        return sum(found) if found else None

    def unknown(self, basis: str = "") -> int:
        """How many pieces have no figure."""
        return sum(r.count for r in self.rows if r.us(basis or self.basis) is None)

    @property
    def call_us(self) -> float | None:
        """Of a whole call where it was timed, else of all pieces."""
        return self.whole["median_us"] if self.whole and self.basis == "time" else self.total()

    def share(self, row: KernelRow) -> float | None:
        us, total = row.us(self.basis), self.total()
        return us * row.count / total if us is not None and total else None

    def gain(self, rows: Iterable[KernelRow]) -> float | None:
        """How many times as fast the model would be, were ``rows`` at their roofs (Amdahl); ``None`` where the basis is the
        roof itself."""
        total = self.call_us
        if self.basis == "bound" or not total:
            return None
        saved = sum(r.count * max(0.0, us - r.bound.us) for r in rows
                    if r.bound is not None and (us := r.us(self.basis)) is not None)  # fmt: skip
        return total / (total - saved) if saved < total else None

    @property
    def ranked(self) -> tuple[KernelRow, ...]:
        """The rows, those first that take longest in all."""
        return tuple(sorted(self.rows, key=lambda r: -(r.us(self.basis) or 0.0) * r.count))

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target, "device": self.device, "evidence": self.evidence, "basis": self.basis,
            "total_us": self.total(), "pieces_without_figure": self.unknown(), "launches": self.launches,
            "whole": dict(self.whole) if self.whole else None,
            "floor": {"us": self.floor.us, "limiter": self.floor.limiter} if self.floor else None,
            "gain_at_roofline": self.gain(self.rows), "reread_bytes": self.rereads, "roof": self.roof.to_dict(),
            "checked": self.checked or None, "prepared": self.prepared,
            "error": dict(self.error) if self.error else None,
            "rows": [{**r.to_dict(), "share": self.share(r), "gain": self.gain([r])} for r in self.rows],
        }  # fmt: skip


@dataclass(frozen=True)
class ModelStudy:
    """A model on some targets.  ``needs`` are those of the model itself."""

    model: str
    shape: str
    plans: tuple[TargetPlan, ...]
    needs: Needs
    weights: int
    environment: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.table()

    def plan(self, target: str) -> TargetPlan:
        """The plan of a target.  Raises :class:`KeyError`."""
        return next((p for p in self.plans if p.target == target), None) or _raise(target)

    def table(self, rows: int = 16, width: int | None = None) -> str:
        """Plain text: the targets, places side by side, then for each target the ``rows`` kernels that take longest.

        ``width`` is that of the terminal where not given.
        """
        from portakern.model_study.text import study_text

        return study_text(self, rows, width)

    def to_dict(self) -> dict[str, Any]:
        return {"portakern": __version__, "environment": self.environment, "model": self.model, "inputs": self.shape,
                "flops": self.needs.flops, "bytes": self.needs.bytes, "weights": self.weights,
                "plans": [p.to_dict() for p in self.plans]}  # fmt: skip

    def to_json(self, file: str | Path | None = None) -> str:
        """The JSON text, also written to ``file`` where one is named."""
        text = json.dumps(self.to_dict(), indent=1, default=str)
        if file is not None:
            write_text(file, text + "\n")
        return text

    def to_html(self, file: str | Path | None = None) -> str:
        """One self-contained page, also written to ``file`` where one is named."""
        from portakern.model_study.html import study_page

        text = study_page(self)
        if file is not None:
            write_text(file, text)
        return text


def _raise(target: str) -> TargetPlan:
    raise KeyError(f"no plan of {target}")
