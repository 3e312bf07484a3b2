"""Where a benchmark's kernels and their peers run."""

from __future__ import annotations

from collections.abc import Sequence

from bar_roofs import Roofs
from bar_run import Place

from portakern.launch import device_of
from portakern.native import open_device
from portakern.registry import registry
from portakern.timing import Options


def place_of(targets: Sequence[str], options: Options, against: Sequence[str]) -> Place:
    """The device of the first of ``targets``; ends the program where that cannot run here."""
    import torch

    # Runtimes are loaded before the device: some prepare the process first.
    target = registry().target(targets[0])
    runtime = registry().language(target.language).runtime
    assert runtime is not None
    if not (found := runtime.available(target)):
        raise SystemExit(f"{target} cannot be run here: {found.detail}")
    cpu = target.device.kind == "cpu"
    device = device_of(runtime, target) or open_device("host")
    torch_device = "cpu" if cpu else f"cuda:{device.ordinal}"
    if not cpu:
        torch.zeros(1, device=torch_device)
    return Place(device, torch_device, options, Roofs(device), against)
