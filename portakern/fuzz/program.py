"""A made-up operator with the way it is tried, and the works that it becomes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from portakern.backend import Target
from portakern.fuzz.case import ENTRY, FuzzCase
from portakern.fuzz.outcome import MODULE
from portakern.fuzz.variants import Variation, layouts
from portakern.spec.bind import bind
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator, dynamic
from portakern.study.work import DEFAULT, Problem, Work, works


@dataclass(frozen=True)
class FuzzProgram:
    """What is drawn for one row of every target."""

    case: FuzzCase
    variation: Variation = field(default_factory=Variation)

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits that tell it apart from others."""
        return hashlib.sha256(f"{self.case.text}\n{self.header()}".encode()).hexdigest()[:12]

    def header(self) -> str:
        """How it is tried, as JSON: sizes, dtype and what differs from the plain way."""
        c = self.case
        said: dict[str, Any] = {"dims": dict(c.dims), "dtype": c.dtype}
        said |= {"open": sorted(c.open_dims)} if c.open_dims else {}
        said |= {"params": dict(c.params)} if c.params else {}
        return json.dumps(said | self.variation.to_dict())

    def plain(self) -> FuzzProgram:
        """The same operator at the same sizes, without variations."""
        return replace(self, variation=Variation(stages=self.variation.stages))

    def open_dims(self) -> frozenset[str]:
        return frozenset(self.case.dims) - self.case.open_dims if self.variation.twin else self.case.open_dims

    def operator(self, folder: Path) -> Operator:
        """Its text as a module in ``folder``, loaded.  Raises what the text raises."""
        file = folder / f"{MODULE}_{hashlib.sha256(self.case.text.encode()).hexdigest()[:12]}.py"
        if not file.exists():
            file.write_text(self.case.text, encoding="utf-8")
        return load_operator(f"{file}:{ENTRY}")

    def works(self, operator: Operator, targets: Sequence[Target]) -> list[Work]:
        """One work per target.  Raises what binding and tracing raise."""
        c = self.case
        dims = {n: dynamic if n in self.open_dims() else size for n, size in c.dims.items()}
        asked = works(Problem(operator, dims, c.params), targets, [c.dtype], DEFAULT, c.dims)
        if self.variation.layout is None or not asked:
            return asked
        facts = layouts(bind(asked[0].program, asked[0].sizes), self.variation.layout)
        return [replace(w, facts=facts) for w in asked]
