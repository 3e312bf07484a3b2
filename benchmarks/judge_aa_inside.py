"""The inside of :mod:`judge_aa`: a kernel in a process, timed there in short blocks."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np

from portakern.launch import prepare
from portakern.native import open_device
from portakern.referee.runner import loaded
from portakern.timing.measure import Contender, Options, measure

CALLS_S = 0.02
"""A block calls for about so long where processor time is counted."""

_prepared: Any = None


def begin(source: Any, binary: Any, shapes: list[tuple[int, ...]]) -> dict[str, Any]:
    """Loads it and makes its inputs, the same ones everywhere."""
    global _prepared
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape, np.float32) for shape in shapes]
    _prepared = prepare(loaded(source, binary, "runtime"), inputs, {})
    _prepared()
    return {}


def block(budget_s: float, cache: str) -> dict[str, float]:
    """Microseconds of a call: the median by the timing core, and of processor time."""
    call = _prepared if _prepared.call is None else _prepared.call
    how = Options(budget_s=budget_s, warm_up_s=budget_s / 10, min_samples=5, width=0.0)
    options = replace(how, cache="cold" if cache == "cold" else "warm")
    median_us = measure(open_device("host"), [Contender("it", [call])], options).timings[0].median_us
    took = []
    for _ in range(max(5, round(CALLS_S * 1e6 / median_us))):
        begun = time.thread_time_ns()
        call(0)
        took.append(time.thread_time_ns() - begun)
    return {"median_us": median_us, "cpu_us": statistics.median(took) / 1e3}
