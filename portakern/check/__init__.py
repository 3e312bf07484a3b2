"""Deciding whether a kernel computes what its operator says: expected values with bounds, stages, planted faults."""

from __future__ import annotations

from portakern.callable_room import make_callable
from portakern.check.stages import Failure, Verdict, check_executable

__all__ = ["Failure", "Verdict", "check_executable"]

make_callable(__name__)
