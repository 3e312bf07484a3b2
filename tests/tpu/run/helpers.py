"""Processes that have a stand-in for a TPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STANDIN = Path(__file__).with_name("standin")
IDS = {"v4": "0x005e", "v5p": "0x0062", "v5e": "0x0063", "v6e": "0x006f", "tpu7x": "0x0076"}


def bus(folder: Path, *chips: str, vendor: str = "0x1ae0") -> Path:
    """A ``/sys`` whose PCI bus has these chips."""
    for n, chip in enumerate(chips):
        place = folder / "bus" / "pci" / "devices" / f"0000:00:{n:02x}.0"
        place.mkdir(parents=True)
        (place / "vendor").write_text(f"{vendor}\n")
        (place / "device").write_text(f"{IDS.get(chip, chip)}\n")
    return folder


def with_tpu(folder: Path, *chips: str, kind: str = "TPU v5 lite", **more: str) -> dict[str, str]:
    """The environment of a process on a machine that has these chips, the first of which jax calls ``kind``."""
    path = os.pathsep.join(filter(None, [str(STANDIN), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "STANDIN_TPU": kind, "PORTAKERN_SYSFS": str(bus(folder, *chips)),
            "PORTAKERN_TPU": "", "PORTAKERN_TUNED": "off", **more}  # fmt: skip


def ran(environment: dict[str, str], *command: str, limit_s: float = 240.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], env=environment, timeout=limit_s, capture_output=True, text=True)
