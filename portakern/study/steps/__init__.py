"""The way of one row, step by step, in worker processes.  Each step's failure becomes the row's error; none loses the row.

:func:`build` lowers, emits and compiles (or finds the binary in the cache); :func:`check` loads what was built and
compares it with the oracle.  They are separate calls because they want different environments, and so that a kernel
that takes its process down loses nothing of what was known before.
"""

from portakern.errors import defect
from portakern.study.steps.binary import build, cached_binary, compile_cached, compiled, must_fit
from portakern.study.steps.environments import build_environment, run_environment, shared_environment
from portakern.study.steps.estimates import estimated_peers, kept_estimate, with_estimate
from portakern.study.steps.judgement import check, judged, load, loaded
from portakern.study.steps.outcome import Build, guarded
from portakern.study.steps.runners import held_by_one, install_hint, runner_for, runner_part, simulator_of
from portakern.study.steps.source import (
    Emission,
    arrays_of,
    emission,
    emit,
    emit_row,
    emitted,
    lowered,
    read_text,
    refuse_dtypes,
    schedule_from,
    source_of,
    without,
    without_tuned,
)

__all__ = [
    "Build", "Emission", "arrays_of", "build", "build_environment", "cached_binary", "check", "compile_cached", "compiled",
    "defect", "emission", "emit", "emit_row", "emitted", "estimated_peers", "guarded", "held_by_one", "install_hint",
    "judged", "kept_estimate", "load", "loaded", "lowered", "must_fit", "read_text", "refuse_dtypes", "run_environment",
    "runner_for", "runner_part", "schedule_from", "shared_environment", "simulator_of", "source_of", "with_estimate",
    "without", "without_tuned",
]  # fmt: skip
