"""The estimator of Pallas programs: libtpu's static profile, extrapolated over the grid, against the bytes of the blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portakern.backend import Availability, CompiledBinary, DispatchSequence, Estimate, Source, Target
from portakern.errors import PortakernError
from portakern.ir.program import Program
from portakern.ir.tensor import TensorProgram

from ..trace.environment import HINT, package_version
from .figures import PROFILED, core_of, priced
from .part import FEWEST
from .profiler import IMPATIENT_S, Profiler, Slow
from .report import confidence, details, limiter, lines

MODEL = "libtpu"
VERSION = "2"
"""Raised whenever the same profile would be priced otherwise."""

kernels = Profiler(detailed=True)
whole = Profiler(detailed=False)


class LibtpuEstimator:
    """For programs in Pallas, and what XLA makes of the same operator."""

    @property
    def version(self) -> str:
        """The model's own, and that of the compiler whose profile it is."""
        return f"{VERSION} (libtpu {package_version('libtpu')})"

    def available(self, target: Target) -> Availability:
        missing = [name for name in ("jax", "libtpu") if package_version(name) is None]
        if missing:
            return Availability(False, f"{' and '.join(missing)} not installed: {HINT}")
        if target.device.isa not in PROFILED:
            return Availability(
                False, f"libtpu has a static profile for {', '.join(PROFILED)}, and none for {target.device.isa}"
            )
        return Availability(True, f"static profile of libtpu {package_version('libtpu')}")

    def estimate(self, source: Source, binary: CompiledBinary, sequence: DispatchSequence, program: Program | None) -> Estimate:
        asked = ("profile_source", source, dict(sequence.sizes))
        try:
            profile = kernels.call(*asked, timeout_s=IMPATIENT_S)
        except Slow:
            profile = kernels.call(*asked, FEWEST)
        return estimated(profile, source.target, self.version)

    def peers(self, program: TensorProgram, target: Target) -> dict[str, Estimate | PortakernError]:
        """XLA's own version of the operator: its program written in jax.numpy, compiled for the same core."""
        try:
            return {"xla": estimated(whole.call("profile_xla", program, target.device.isa), target, self.version)}
        except PortakernError as error:
            return {"xla": error}


def estimated(profile: Mapping[str, Any], target: Target, version: str) -> Estimate:
    """The estimate that a profile gives on a target's product."""
    core = core_of(target.device, profile["cores"])
    found = {k["operation"]: k for k in profile["kernels"]}
    operations = [_operation(o, found.get(o["name"])) for o in profile["operations"]]
    us, parts = priced(operations, core)
    longest = max(parts, key=lambda p: p.us, default=None)
    return Estimate(us, limiter(longest, found), MODEL, version, confidence(profile, parts, core),
                    tuple(lines(us, parts, found, core)), details(parts, found, core))  # fmt: skip


def _operation(operation: Mapping[str, Any], kernel: Mapping[str, Any] | None) -> dict[str, Any]:
    """A kernel's cycles are those of its whole grid, its bytes those that its pipeline moves."""
    if kernel is None:
        return dict(operation)
    return {**operation, "cycles": kernel["cycles"], "bytes": kernel["read"] + kernel["written"]}
