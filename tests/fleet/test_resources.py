"""What a node has and what a job needs: silicon one at a time, simulators by cores, and no waiting for what nobody has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from portakern.fleet import resources
from portakern.fleet.dispatcher import nobody
from portakern.fleet.resources import A_LITTLE, COMPILER, HOST, SILICON, Ability, needs, node, targets_in
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.registry import registry
from portakern.study.candidate import Candidate

pytestmark = pytest.mark.quick


def job(target: str, level: str = "full") -> Job:
    return Job(TaskSpec(target, operator="softmax"), Candidate("text"), level)


@pytest.fixture
def machine(monkeypatch):
    """One with two H200 and a simulator of an AMD GPU."""
    able = {"cuda:h200": Ability("device", 2), "triton:h200": Ability("device", 2), "hip:gfx942": Ability("simulator"),
            "numba:cpu": Ability("host"), "pallas:v6e": Ability("compiler")}  # fmt: skip
    monkeypatch.setattr(resources, "abilities", lambda pattern="all": able)


def test_silicon_counts_devices_and_simulators_count_cores(machine):
    found = node(cores=8)
    assert (found.cores, found.gpus) == (8, 2)
    assert found.targets == {"cuda:h200": 2, "triton:h200": 2, "hip:gfx942": 8, "numba:cpu": 1}
    assert found.resources[COMPILER + "pallas:v6e"] == 8 and found.resources[HOST] == 1
    silicon = {n.removeprefix(SILICON) for n in found.resources if n.startswith(SILICON)}
    assert silicon == {"cuda:h200", "triton:h200", "numba:cpu"}


def test_a_node_offers_what_it_is_told_to(machine):
    assert node(cores=4, pattern="hip:*").targets == {"hip:gfx942": 4}
    assert node(cores=4, pattern="hip:*").gpus == 0


def test_a_device_is_one_jobs_alone_whatever_the_language(machine):
    have = node(cores=8).resources
    for target in ("cuda:h200", "triton:h200"):
        for level in ("quick", "timed"):
            wanted = needs(job(target, level), have)
            assert wanted is not None and wanted["num_gpus"] == 1 and wanted["resources"][target] == 1
    simulated = needs(job("hip:gfx942", "timed"), have)
    assert simulated is not None and simulated["num_gpus"] == 0


def test_who_times_on_the_processor_has_it_alone(machine):
    have = node(cores=8).resources
    levels = {level: needs(job("numba:cpu", level), have)["resources"][HOST] for level in ("compile", "quick", "full", "timed")}  # type: ignore[index]
    assert levels == {"compile": A_LITTLE, "quick": A_LITTLE, "full": A_LITTLE, "timed": 1.0}
    beside = needs(job("hip:gfx942", "full"), have)
    assert beside is not None and 0 < beside["resources"][HOST] * 1000 <= 1  # a thousand cores may simulate; no timing beside


def test_what_can_only_be_compiled_is_for_that_level_alone(machine):
    have = node(cores=8).resources
    compiled = needs(job("pallas:v6e", "compile"), have)
    assert compiled is not None and compiled["resources"][COMPILER + "pallas:v6e"] == 1
    assert needs(job("pallas:v6e"), have) is None
    assert "ask for the level compile" in nobody(job("pallas:v6e"), have).error["message"]  # type: ignore[index]


def test_what_nobody_has_is_said(machine):
    have = node(cores=8).resources
    assert needs(job("hip:gfx1201"), have) is None
    error = nobody(job("hip:gfx1201"), have).error
    assert error is not None and error["kind"] == "no-such-target" and "hip:gfx942" in error["hint"]


def test_rays_own_resources_are_no_targets():
    rays = {"CPU": 2.0, "memory": 1e9, "node:10.0.0.1": 1.0, "node:__internal_head__": 1.0}
    assert targets_in({**rays, "cpp:cpu": 1.0, SILICON + "cpp:cpu": 1.0}) == {"cpp:cpu": 1.0}


def test_devices_are_counted_by_the_driver_of_the_target(monkeypatch):
    """OpenCL and Level Zero may know the same GPUs once more, and a processor beside them."""
    def device(name: str) -> SimpleNamespace:
        return SimpleNamespace(driver="cuda", facts=SimpleNamespace(name=name))

    chips = ["NVIDIA H200", "NVIDIA H200", "NVIDIA T4"]
    monkeypatch.setattr(resources, "device_of", lambda runtime, target: device(chips[0]))
    monkeypatch.setattr(resources, "probe_driver", lambda name: SimpleNamespace(device_count={"cuda": 3, "opencl": 4}[name]))
    monkeypatch.setattr(resources, "open_device", lambda driver, n: device(chips[n]))
    assert resources._devices(registry().target("cuda:h200")) == 2


def test_what_this_machine_can_is_what_is_judged_here():
    found = node(cores=3, pattern="cpp:*,numba:*")
    assert found.targets == {"cpp:cpu": 1, "numba:cpu": 1} and found.gpus == 0
