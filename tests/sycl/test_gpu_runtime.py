"""The way to an Intel GPU, with SYCL's CPU device in the GPU's place: what is found, run and timed.  No GPU is behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from portakern.backends.sycl.sycl import gpus
from portakern.backends.sycl.sycl.runtime import SyclRuntime
from portakern.errors import ToolMissing
from tests.sycl.targets import needs_sycl, target

STANDIN = Path(__file__).with_name("standin")
SYS = STANDIN / "sys"


def with_gpu(**more: str) -> dict[str, str]:
    """The environment of a process on a machine with a Max 1550."""
    path = os.pathsep.join(filter(None, [str(STANDIN), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "STANDIN_GPU": "0x0bd5", gpus.SYSFS: str(SYS), **more}


def ran(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], env=environment, timeout=240, capture_output=True, text=True)


@pytest.mark.quick
def test_a_gpu_is_told_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpus.SYSFS, str(SYS))
    monkeypatch.setattr(gpus, "loader_missing", lambda: "")
    assert gpus.on_the_bus() == (0x0BD5,) and not gpus.missing(target("sycl:pvc")) and not gpus.missing(target("sycl:max1550"))
    assert "the PCI bus shows 0x0bd5" in gpus.missing(target("sycl:max1100"))
    monkeypatch.setenv(gpus.SYSFS, str(tmp_path))
    assert "no GPU of Intel" in gpus.missing(target("sycl:pvc"))


@pytest.mark.quick
def test_numbers_belong_to_one_product_of_one_instruction_set() -> None:
    for product, numbers in gpus.SILICON.items():
        assert set(numbers) <= set(gpus.NUMBERS[target(f"sycl:{product}").device.isa])
    everything = [n for numbers in gpus.SILICON.values() for n in numbers]
    assert len(everything) == len(set(everything))


@pytest.mark.quick
def test_a_gpu_without_the_loader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpus.SYSFS, str(SYS))
    monkeypatch.setattr(gpus, "loader_missing", lambda: "a GPU is here, and Level Zero's loader is not")
    with pytest.raises(ToolMissing, match="Level Zero's loader is not"):
        SyclRuntime().device(target("sycl:pvc"))


DRIVER = r"""
import numpy as np
from portakern.launch.device_arrays import DeviceArray
from portakern.registry import registry
from portakern.timing.inputs import DevicePlace
from portakern.timing.measure import Contender, Options, measure
from portakern.errors import PortakernError
import portakern as pk

device = registry().language("sycl").runtime.device(registry().target("sycl:pvc"))
facts = device.facts
assert facts.arch == "0x0bd5" and facts.ordinal == 1 and not facts.host_memory and facts.flush_bytes >= 2 * facts.cache_bytes

place = DevicePlace(device)
x = np.random.default_rng(0).standard_normal((33, 100)).astype("f4")
there = place.put(x)
assert (place.get(there) == x).all()
place.fill(there, 0xFF)
assert np.isnan(place.get(there)).all()
place.write(there, x)

k = pk.build("softmax", target="sycl:pvc", dtype="f32", M=pk.dynamic, N=100)
p = k.executable.prepare([there], {"M": 33})
p()
device.synchronize()
want = np.exp(x - x.max(1, keepdims=True)); want /= want.sum(1, keepdims=True)
assert isinstance(p.outputs[0], DeviceArray) and abs(p.outputs[0].read() - want).max() < 1e-6

found = measure(device, [Contender("ours", [p.call])], Options(budget_s=0.05, warm_up_s=0.01))
ours = found.timings[0]
assert "no gate" in ours.mode and "flushed" in ours.mode and ours.median_us > 0 and ours.empty_us is not None
try:
    k(x)
except PortakernError as error:
    assert "host memory" in error.message
else:
    raise AssertionError
print("fine")
"""


@needs_sycl
def test_the_driver_runs_and_times_on_memory_of_the_device(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    done = ran(with_gpu(), str(script))
    assert done.stdout.strip() == "fine", done.stderr


CASE = ("--shape", "M=8,N=100", "--dtype", "f32")
HOW = (*CASE, "--budget", "0.05s", "--no-store", "--json")


@needs_sycl
def test_bench_finds_it() -> None:
    (row,) = json.loads(ran(with_gpu(), "-m", "portakern", "bench", "softmax", "--targets", "sycl:pvc", "--against", "numpy",
                            *HOW).stdout)["rows"]  # fmt: skip
    assert row["evidence"] == "timed" and row["correct"], row["error"]
    assert "has met no GPU yet" in row["method"] and row["time"]["peers"][0]["measured"].startswith("whole calls")


@needs_sycl
@pytest.mark.slow
def test_a_kernel_from_elsewhere_is_timed_in_its_jail(tmp_path: Path) -> None:
    text = str(tmp_path / "mine.cpp")
    ran(with_gpu(), "-m", "portakern", "emit", "softmax", "--targets", "sycl:pvc", *CASE, "-o", text)
    (row,) = json.loads(ran(with_gpu(), "-m", "portakern", "evaluate", "softmax", "--target", "sycl:pvc", "--source", text,
                            *HOW).stdout)["rows"]  # fmt: skip
    assert row["evidence"] == "timed" and "jailed" in row["method"], row["error"]
