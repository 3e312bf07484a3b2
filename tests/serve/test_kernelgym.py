"""A client that speaks KernelGYM's words, written after its protocol: it posts, polls the status, fetches the result."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi")

from portakern.serve.bench import LocalBench
from portakern.serve.kernelgym import result
from portakern.serve.settings import Settings
from portakern.study.row import Row
from tests.serve.support import Told, passed, serving

REFERENCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return torch.relu(x + self.bias)

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return [16]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_relu(x, bias, y, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside) + tl.load(bias + i % WIDTH, mask=inside)
    tl.store(y + i, tl.where(v < 0, 0.0, v), mask=inside)

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x):
        y = torch.empty_like(x)
        add_relu[(triton.cdiv(x.numel(), 64),)](x, self.bias, y, x.numel(), WIDTH=x.shape[1], BLOCK=64)
        return y
"""

LAZY = REFERENCE.replace("class Model(", "class ModelNew(")
"""PyTorch alone: no kernel of its own."""


class GymClient:
    """Submits one task and waits, as a trainer's reward worker does: what is busy is asked again, ends are four words."""

    ENDS = ("completed", "failed", "timeout", "cancelled")

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def reward_input(self, task_id: str, kernel: str, patience_s: float = 60.0, **more: Any) -> dict[str, Any]:
        payload = {"task_id": task_id, "reference_code": REFERENCE, "kernel_code": kernel, "backend": "triton",
                   "num_correct_trials": 5, "num_perf_trials": 100, "timeout": 60, "priority": "normal", "entry_point": "Model",
                   "is_valid": False, "verbose_errors": True, "enable_profiling": True, "detect_decoy_kernel": True,
                   "reference_backend": None, **more}  # fmt: skip
        end = time.monotonic() + patience_s
        while (answer := self.http.post("/evaluate", json=payload)).status_code in (429, 503):
            if time.monotonic() > end:
                return {"status": "failed", "error_message": "busy"}
            time.sleep(0.05)
        answer.raise_for_status()
        while time.monotonic() < end:
            said = self.http.get(f"/status/{task_id}")
            if said.status_code == 200 and said.json()["status"] in self.ENDS:
                if said.json()["status"] != "completed":
                    return {"status": said.json()["status"], "error_message": said.json()["error_message"]}
                return self.http.get(f"/results/{task_id}").json()
            time.sleep(0.05)
        return {"status": "timeout", "error_message": "client-side"}


@pytest.fixture(scope="module")
def judging():
    pytest.importorskip("triton")
    with serving(LocalBench(1)) as found:
        yield GymClient(found)


def test_its_client_has_its_kernels_judged(judging):
    right = judging.reward_input("right", KERNEL, measure_performance=False)
    assert (right["status"], right["compiled"], right["correctness"], right["decoy_kernel"]) == ("completed", True, True, False)
    assert right["metadata"]["num_custom_kernels"] == 1
    wrong = judging.reward_input("wrong", KERNEL.replace("0.0, v", "0.5, v"))
    assert (wrong["status"], wrong["compiled"], wrong["correctness"]) == ("completed", True, False)
    assert wrong["error_code"] == "CORRECTNESS_ERROR" and "wrong" in wrong["error_message"]
    broken = judging.reward_input("broken", KERNEL.replace("tl.program_id", "tl.programid"))
    assert broken["status"] == "failed" and "programid" in broken["error_message"]
    lazy = judging.reward_input("lazy", LAZY)
    assert (lazy["status"], lazy["correctness"], lazy["decoy_kernel"]) == ("completed", False, True)


@pytest.mark.slow
def test_and_timed(judging):
    right = judging.reward_input("timed", KERNEL)
    assert (right["status"], right["correctness"]) == ("completed", True) and isinstance(right["speedup"], float)


quick = pytest.mark.quick


@pytest.fixture(scope="module")
def server():
    """One for all: reading the reference takes seconds, once."""
    bench = Told()
    with serving(bench) as http:
        yield GymClient(http), bench


@pytest.fixture
def told(server):
    client, bench = server
    bench.answer = passed
    return client, bench


needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


def timed(ticket) -> Row:
    peers = [{"name": "torch.eager", "median_us": 300.0, "ratio": 3.0}]
    return passed(ticket).but(evidence="timed", time={"median_us": 100.0, "peers": peers, "coverage": 0.75})


@needs_torch
def test_times_are_in_its_words(told):
    client, bench = told
    bench.answer = timed
    found = client.reward_input("timed", KERNEL)
    assert (found["reference_runtime"], found["kernel_runtime"], found["speedup"]) == (0.3, 0.1, 3.0)
    assert found["metadata"]["custom_kernel_cuda_time_coverage"] == 0.75


@pytest.mark.parametrize(("kind", "decoy"), [("no-kernel", True), ("decoy", True), ("incorrect", False), ("race", False)])
def test_whose_kernels_do_not_do_the_work_is_a_decoy_in_its_words(kind: str, decoy: bool):
    row = Row("row_sum", "triton:sm_90", evidence="compiled", correct=False, error={"kind": kind, "message": "m", "hint": ""})
    found = result("a", row, "done", datetime.now(UTC), datetime.now(UTC))
    assert (found.status, found.correctness, found.decoy_kernel) == ("completed", False, decoy)
    assert found.error_code in ("VALIDATION_ERROR", "CORRECTNESS_ERROR")


@needs_torch
def test_what_it_asks_for_decides_how_far_a_kernel_is_judged(told):
    client, bench = told
    seen = []
    bench.answer = lambda t: seen.append((t.job.level, t.job.limit_s, t.job.against)) or passed(t)
    client.reward_input("a", KERNEL, reference_backend="torch_compile")
    client.reward_input("b", KERNEL, measure_performance=False, timeout=30)
    client.reward_input("c", KERNEL, run_correctness=False)
    assert seen == [("timed", 60, ("torch.compile",)), ("full", 30, ()), ("compile", 60, ())]


@needs_torch
def test_a_task_is_judged_once_unless_it_is_asked_to_be_anew(told):
    client, bench = told
    seen = []
    bench.answer = lambda t: seen.append(t.job.digest) or passed(t)
    first = client.reward_input("same", KERNEL)
    assert client.reward_input("same", KERNEL) == first and len(seen) == 1
    client.reward_input("same", KERNEL, force_refresh=True)
    assert len(set(seen)) == 2


@needs_torch
def test_what_waits_what_is_cancelled_and_what_is_late():
    bench = Told(held=True)
    with serving(bench, Settings(queue=2)) as http:
        client = GymClient(http)
        answers: dict[str, Any] = {}

        def ask(id: str) -> None:
            answers[id] = client.reward_input(id, KERNEL)

        threads = [threading.Thread(target=ask, args=(id,)) for id in ("one", "two", "three")]
        for thread in threads[:2]:
            thread.start()
        while http.get("/queue/status").json()["pending"] < 2:
            time.sleep(0.02)
        assert http.get("/status/one").json()["status"] == "pending"
        assert http.get("/results/one").status_code == 404
        threads[2].start()  # finds no room, and asks again
        assert http.delete("/tasks/one").json()["task_id"] == "one"
        while http.get("/status/three").status_code != 200:
            time.sleep(0.02)
        bench.answer = lambda t: t.expired() if len(bench.taken) else passed(t)
        bench.release()
        for thread in threads:
            thread.join()
    assert {id: a["status"] for id, a in answers.items()} == {"one": "cancelled", "two": "timeout", "three": "completed"}


WRONG = {
    "no reference": {"reference_code": None},
    "no kernel": {"kernel_code": "x"},
    "an id that is empty": {"task_id": ""},
    "another workflow": {"workflow": "kernel_simple"},
    "no name of a class": {"entry_point": "Model; import os"},
}


@quick
@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_it_refuses_is_refused_in_its_words(told, change):
    client, _ = told
    payload = {"task_id": "x", "reference_code": REFERENCE, "kernel_code": KERNEL, **change}
    answer = client.http.post("/evaluate", json=payload)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "VALIDATION_ERROR")
    assert {"error", "message", "detail", "timestamp"} <= set(answer.json())


@needs_torch
def test_a_mistake_in_the_texts_is_a_result(told):
    client, _ = told
    for id, change in (("m1", {"reference_code": REFERENCE.replace("relu(x", "relo(x")}),
                       ("m2", {"backend": "cuda"}), ("m3", {"backend": "fortran"})):  # fmt: skip
        payload = {"task_id": id, "reference_code": REFERENCE, "kernel_code": KERNEL, **change}
        found = client.http.post("/evaluate", json=payload).json()
        assert (found["status"], found["compiled"], found["correctness"]) == ("failed", False, False) and found["error_message"]
        assert client.http.get(f"/results/{id}").json() == found


@quick
def test_a_batch_and_the_pages_of_its_dashboard(told):
    client, _ = told
    bad = {"task_id": "b1", "reference_code": REFERENCE, "kernel_code": KERNEL, "backend": "fortran"}
    batch = client.http.post("/evaluate/batch", json={"batch_id": "b", "tasks": [bad, {**bad, "task_id": "b2"}]}).json()
    assert (batch["total_tasks"], batch["failed_tasks"], [r["task_id"] for r in batch["results"]]) == (2, 2, ["b1", "b2"])
    assert client.http.get("/health").json()["status"] == "healthy"
    for path in ("/", "/metrics", "/queue/status", "/workers/status"):
        assert client.http.get(path).status_code == 200
    asked = {"workflow": "kernelbench", "payload": {**bad, "task_id": "w"}}
    submitted = client.http.post("/workflow/submit", json=asked).json()
    assert submitted == client.http.get("/workflow/results/w").json() and submitted["status"] == "failed"
    assert client.http.get("/status/nobody").status_code == 404
