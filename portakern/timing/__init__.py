"""Timing kernels and peers: one native protocol on every device, intervals instead of single numbers."""

from portakern.timing.measure import (
    THROTTLED,
    UNGATED,
    Comparison,
    Contender,
    ContenderError,
    Measurement,
    Options,
    Timing,
    measure,
)
from portakern.timing.statistics import bootstrap_median, bootstrap_ratio, median, quantile, verdict

__all__ = [
    "THROTTLED", "UNGATED", "Comparison", "Contender", "ContenderError", "Measurement", "Options", "Timing", "bootstrap_median",
    "bootstrap_ratio", "measure", "median", "quantile", "verdict",
]  # fmt: skip
