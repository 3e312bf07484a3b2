"""Runs Pallas programs on TPUs that are here.

It was written from jax's documentation and tested against a stand-in; no TPU has run it (docs/targets.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from portakern import native
from portakern.backend import Availability, CompiledBinary, Source, Target
from portakern.errors import PortakernError

from ..trace.environment import ENVIRONMENT, HINT, package_version
from . import chips

if TYPE_CHECKING:
    from .clock import TpuClock
    from .executable import TpuExecutable


class TpuRuntime:
    """Through jax; present only where a TPU of the target's generation is."""

    held_by_one = True
    parts = ("kernels", "host")
    recalls = False
    environment: Mapping[str, str] = {}
    """Nothing of what compiling without a TPU sets: jax finds the chip as it does for its users."""

    def available(self, target: Target) -> Availability:
        isa, found = target.device.isa, chips.on_the_bus()
        if os.environ.get(chips.SWITCH, "").lower() in ("off", "0", "no"):
            return Availability(False, f"{chips.SWITCH}={os.environ[chips.SWITCH]}: TPUs are left alone")
        if not found[isa]:
            here = ", ".join(f"{n} of {name}" for name, n in sorted(found.items()))
            return Availability(False, f"no TPU {isa} is here (the PCI bus shows {here or 'no TPU'})")
        if missing := [name for name in ("jax", "libtpu") if package_version(name) is None]:
            return Availability(False, f"a TPU {isa} is here; {' and '.join(missing)} not installed: {HINT}")
        more = f" (the first of {found[isa]})" if found[isa] > 1 else ""
        return Availability(True, f"TPU {isa}{more} through jax {package_version('jax')}; this path has met no TPU yet")

    def device_name(self, target: Target) -> str:
        return f"TPU {target.device.isa}"

    def device(self, target: Target) -> native.Device:
        raise PortakernError("not-timed", f"{target} is no device of the native core", hint="`portakern bench` times it, by "
                             "what jax's profiler says of the device")  # fmt: skip

    def clock(self, target: Target) -> TpuClock:
        from .clock import TpuClock

        return TpuClock(target, chips.device_for(target.device.isa))

    def load(self, source: Source, binary: CompiledBinary | None) -> TpuExecutable:
        """The text is compiled anew by jax, for the chip and the shapes at hand; ``binary`` was made for a chip of its
        generation that need not be there."""
        from .executable import TpuExecutable

        return TpuExecutable(source, chips.device_for(source.target.device.isa))

    # ---- kernels from elsewhere are timed without their text

    tracing_environment = ENVIRONMENT

    def trace(self, source: Source, sizes: Mapping[str, int]) -> bytes:
        from ..compile.worker import arguments_at
        from ..trace.source_module import entry_function
        from .staging import as_data

        return as_data(entry_function(source), arguments_at(source, sizes), source.target.device.isa)

    def load_traced(self, source: Source, traced: bytes) -> TpuExecutable:
        from .executable import TpuExecutable

        return TpuExecutable(source, chips.device_for(source.target.device.isa), traced)
