"""Host functions of Triton texts recorded and handed to the native core, for a GPU that need not be here."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from portakern.backends.triton import triton_language
from portakern.tools.workers import WorkerPool

pytest.importorskip("triton")
pytest.importorskip("torch")

JOBS = "tests.triton.launch.launch_jobs"
POINTER = 1


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerPool]:
    with WorkerPool(1, env=dict(triton_language.environment), preload=("torch", "triton")) as pool:
        yield pool


def replayed(worker: WorkerPool, entry: str) -> dict[str, Any]:
    return worker.call(f"{JOBS}:replayed", entry, timeout_s=120)


def test_a_plain_launch(worker: WorkerPool) -> None:
    done = replayed(worker, "plain")
    (step,) = done["steps"]
    assert step["name"] == "scale" and step["grid"] == (4, 1, 1) and step["block"] == (64, 1, 1)
    pointers = [data for kind, data in step["args"] if kind == POINTER]
    assert len(step["args"]) == 6 and len(pointers) == 4 and pointers[2:] == ["00" * 8] * 2  # two scratch pointers
    numbers = [bytes.fromhex(data) for kind, data in step["args"] if kind != POINTER]
    assert numbers == [struct.pack("<i", 100), struct.pack("<f", 1.5)]
    assert done["slots"] == [(0, 0), (1, 0), (None, 0), (None, 0)]
    assert done["made"] == 0 and done["y"] == [0.0] * 100, "recording launched something"


def test_a_grid_that_is_a_function(worker: WorkerPool) -> None:
    (step,) = replayed(worker, "by_function")["steps"]
    assert step["grid"] == (2, 2, 3) and step["block"] == (128, 1, 1)


def test_temporaries_fills_and_views(worker: WorkerPool) -> None:
    done = replayed(worker, "through_a_temporary")
    kinds = [s.get("kind", "launch") for s in done["steps"]]
    assert kinds == ["FillSpec", "CopySpec", "launch", "launch", "launch"]
    assert [s["bytes"] for s in done["steps"][:2]] == [400, 400]
    # x is array 0 and y array 1; the temporary and the zeros come after them.
    slots = [s for s in done["slots"] if s[0] is not None]
    assert slots == [(3, 0), (1, 0), (0, 0), (2, 0), (2, 32), (1, 0), (3, 0), (1, 0)]
    assert done["made"] == 2 and done["loaded"] == 1, "one kernel is loaded once"


def test_descriptors_are_tensor_maps_with_shapes_and_strides(worker: WorkerPool) -> None:
    """As many bytes as the machine code says are checked before anything is launched."""
    done = worker.call(f"{JOBS}:described", timeout_s=120)
    assert done["sizes"] == [128, 4, 4, 8, 8] * 2 + [8, 8]
    assert done["maps"] == ["f32 [5, 20] [20, 1] [8, 16] 64"] * 2 and done["right"] and done["fixed"]


def test_an_empty_grid_launches_nothing(worker: WorkerPool) -> None:
    assert replayed(worker, "nothing")["steps"] == []


@pytest.mark.parametrize(("entry", "says"), [
    ("computes", "computes with torch (aten.add"),
    ("looks", "computes with torch (aten._local_scalar_dense"),
    ("foreign_memory", "neither an argument nor allocated"),
])  # fmt: skip
def test_what_is_left_to_tritons_launcher(worker: WorkerPool, entry: str, says: str) -> None:
    assert says in replayed(worker, entry)["refused"]


def test_other_tensors_take_the_places_of_the_recorded_ones(worker: WorkerPool) -> None:
    done = worker.call(f"{JOBS}:relaunched", timeout_s=120)
    assert done["stream"] == 7 and done["inputs"] == [0] and done["outputs"] == [True, True, True]
    assert done["differ"], "two calls gave the same output or shared a temporary"
    assert not done["old"], "an address of the recording is still in place"


def test_one_call_for_each_set_of_addresses(worker: WorkerPool) -> None:
    done = worker.call(f"{JOBS}:recalled", timeout_s=120)
    assert done == {"calls": [[(7, None), (7, None)], [(7, None)]], "returned": [True] * 3, "at": [True] * 2}


def test_other_threads_launch_as_ever(worker: WorkerPool) -> None:
    assert worker.call(f"{JOBS}:other_threads", timeout_s=120) == {"launched": 1, "noted": 1}


@pytest.mark.parametrize("isa", ["sm_90", "gfx942"])
def test_parameters_read_from_machine_code(worker: WorkerPool, isa: str) -> None:
    sizes = worker.call("tests.triton.launch.launch_jobs:parameters_of", isa, timeout_s=120)
    assert sizes == (8, 8, 4, 4, 8, 8)
