"""Which TPUs a machine has, told by its PCI bus and without jax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from portakern.backends.tpu.run import chips, runtime
from portakern.backends.tpu.run.runtime import TpuRuntime
from portakern.errors import PortakernError, RuntimeFault
from portakern.registry import registry
from portakern.study import steps
from tests.tpu.helpers import language, target
from tests.tpu.run.helpers import bus

pytestmark = pytest.mark.quick
found = TpuRuntime()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def made(*devices: str, vendor: str = "0x1ae0") -> None:
        monkeypatch.delenv(chips.SWITCH, raising=False)
        monkeypatch.setenv(chips.SYSFS, str(bus(tmp_path, *devices, vendor=vendor)))

    return made


def test_a_chip_is_found_and_others_are_not(machine: Any):
    machine("v5e", "v5e", "v6e", "0x1234")
    assert found.available(target("v5e")) and "first of 2" in found.available(target("v5e")).detail
    assert found.available(registry().target("pallas:v6e-chip")) and found.device_name(target("v6e")) == "TPU v6e"
    absent = found.available(target("v5p"))
    assert not absent and "2 of v5e, 1 of v6e" in absent.detail
    assert steps.runner_for(language(), target("v5e"))[0] == "runtime"


def test_every_generation_is_known_on_the_bus_and_to_jax():
    isas = set(language().targets)
    assert set(chips.PCI_DEVICES.values()) == isas == set(chips.KINDS.values())


def test_without_a_chip_kernels_are_interpreted(machine: Any):
    machine()
    assert "no TPU v5e is here" in found.available(target("v5e")).detail
    assert steps.runner_for(language(), target("v5e"))[0] == "simulator"
    machine("v5e", vendor="0x10de")
    assert not found.available(target("v5e"))


def test_a_chip_can_be_left_to_others(machine: Any, monkeypatch: pytest.MonkeyPatch):
    machine("v5e")
    monkeypatch.setenv(chips.SWITCH, "off")
    assert not found.available(target("v5e")) and "left alone" in found.available(target("v5e")).detail


def test_what_is_not_installed_is_named(machine: Any, monkeypatch: pytest.MonkeyPatch):
    machine("v5e")
    monkeypatch.setattr(runtime, "package_version", lambda name: None)
    available = found.available(target("v5e"))
    assert not available and "jax and libtpu not installed" in available.detail and "portakern[tpu]" in available.detail


class Device:
    def __init__(self, kind: str) -> None:
        self.device_kind = kind


def test_jax_gives_the_device_of_the_generation_or_a_reason(monkeypatch: pytest.MonkeyPatch):
    devices = [Device("TPU v5"), Device("TPU v6 lite"), Device("TPU v6 lite")]
    monkeypatch.setattr(chips, "jax_devices", lambda: devices)
    assert chips.device_for("v6e") is devices[1]
    with pytest.raises(RuntimeFault, match="TPU v5, TPU v6 lite, and this kernel is for v5e"):
        chips.device_for("v5e")

    def busy() -> list[Any]:
        raise RuntimeError("The TPU is already in use by process\n with pid 4711.")

    monkeypatch.setattr(chips, "jax_devices", busy)
    with pytest.raises(RuntimeFault, match="already in use by process with pid 4711") as raised:
        chips.device_for("v5e")
    assert raised.value.kind == "device-busy" and chips.SWITCH in raised.value.hint


def test_what_needs_a_device_of_the_native_core_is_told_that_there_is_none():
    with pytest.raises(PortakernError, match="no device of the native core"):
        found.device(target("v5e"))


def test_the_worker_that_runs_kernels_is_not_told_that_there_is_no_tpu(machine: Any):
    machine("v5e")
    assert steps.build_environment(language())["JAX_PLATFORMS"] == "cpu"
    assert "JAX_PLATFORMS" not in steps.run_environment(target("v5e"), "runtime")
    assert steps.run_environment(target("v5e"), "simulator")["JAX_PLATFORMS"] == "cpu"
    assert steps.held_by_one(language(), "runtime") and not steps.held_by_one(language(), "simulator")
