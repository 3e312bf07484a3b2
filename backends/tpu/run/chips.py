"""Which TPUs are here.

Only one process at a time may hold a chip, and holding begins when jax is asked for its devices.  What a machine has is
therefore read from the PCI bus, as jax itself does before it loads libtpu; jax is asked where a kernel runs.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from portakern.errors import RuntimeFault

SWITCH = "PORTAKERN_TPU"
"""``off``: the chips are left to others, and kernels are interpreted as on a machine without one."""

SYSFS = "PORTAKERN_SYSFS"
"""Another place of ``/sys``."""

GOOGLE = "0x1ae0"
PCI_DEVICES = {"0x005e": "v4", "0x0062": "v5p", "0x0063": "v5e", "0x006f": "v6e", "0x0076": "tpu7x"}
"""Source: jax 0.10.2, jax/_src/hardware_utils.py, _TPU_PCI_DEVICE_IDS."""

KINDS = {
    "TPU v4": "v4", "TPU v5 lite": "v5e", "TPU v5e": "v5e", "TPU v5": "v5p", "TPU v5p": "v5p", "TPU v6 lite": "v6e",
    "TPU v6e": "v6e", "TPU7": "tpu7x", "TPU7x": "tpu7x",
}  # fmt: skip
"""What jax calls a device.  Source: jax 0.10.2, jax/_src/pallas/mosaic/tpu_info.py, chip_version_from_device_kind."""


def on_the_bus() -> Counter[str]:
    """How many chips of each generation the PCI bus shows."""
    root = Path(os.environ.get(SYSFS) or "/sys") / "bus" / "pci" / "devices"
    found: Counter[str] = Counter()
    for place in root.glob("*/vendor"):
        if _read(place) == GOOGLE and (isa := PCI_DEVICES.get(_read(place.with_name("device")))):
            found[isa] += 1
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def jax_devices() -> list[Any]:
    """jax's TPU devices, which this process holds from now on.  Raises what jax raises where there is none."""
    import jax

    return jax.devices("tpu")


def put(x: Any, device: Any) -> Any:
    """``x`` on one of jax's devices; what lies there already is taken as it is."""
    import jax

    return jax.device_put(x, device)


def device_for(isa: str) -> Any:
    """jax's first device of a generation.  Raises :class:`RuntimeFault` where jax cannot have it."""
    try:
        found = jax_devices()
    except RuntimeError as error:
        raise RuntimeFault(f"jax gives no TPU: {' '.join(str(error).split())[:400]}",
                           hint="only one process at a time may hold a TPU: end the other one; or set "
                                f"{SWITCH}=off to leave the chip alone", kind="device-busy") from None  # fmt: skip
    for device in found:
        if KINDS.get(device.device_kind) == isa:
            return device
    kinds = ", ".join(dict.fromkeys(d.device_kind for d in found))
    raise RuntimeFault(f"jax's TPUs are {kinds or 'none'}, and this kernel is for {isa}", kind="no-silicon")
