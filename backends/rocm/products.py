"""Figures of the product behind a target: of the one it names, or of the usual one of its instruction set."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from portakern.device import Device, load_devices

DEVICES = Path(__file__).parent / "devices"


@cache
def _described() -> dict[str, Device]:
    return load_devices(DEVICES)


def product_of(device: Device) -> Device:
    return device if device.product or not device.default_product else _described()[device.default_product]
