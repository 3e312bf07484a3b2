"""Calls with tensors that lie as PyTorch left them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from portakern.errors import IRError, LoweringError, ScheduleError, UsageError
from portakern.ir.program import ArrayFacts
from portakern.study.built import Built
from portakern.study.work import Work

log = logging.getLogger(__name__)


class AsTheyLie:
    """Calls a build with tensors in any layout.

    A build takes strided arrays as they are where its kernels can, with a variant of it.  Where they cannot, as PyTorch's
    ``reshape`` cannot, the arrays are copied, at this call and later ones.
    """

    def __init__(self, built: Built) -> None:
        self.built = built
        self._copied: set[int] = set()

    @staticmethod
    def of(work: Work, strides: Mapping[str, tuple[int, ...]]) -> AsTheyLie:
        """``work`` built for arrays of which some are known to come with ``strides``; contiguous where that cannot be."""
        if strides:
            with contextlib.suppress(LoweringError, IRError, ScheduleError):
                return AsTheyLie(Built(replace(work, facts={n: ArrayFacts(s) for n, s in strides.items()})))
        return AsTheyLie(Built(work))

    def __call__(self, inputs: Sequence[Any]) -> Any:
        given = [x.contiguous() if n in self._copied else x for n, x in enumerate(inputs)] if self._copied else inputs
        try:
            return self.built(*given)
        except UsageError as error:
            strided = {n for n, x in enumerate(given) if hasattr(x, "is_contiguous") and not x.is_contiguous()}
            if not strided:
                raise
            log.info("arrays are copied at each call: %s", error.message)
            self._copied |= strided
            return self(inputs)
