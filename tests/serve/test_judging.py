"""Kernels that are judged by a server: right, wrong, late, cancelled; a stranger's operator; a kernel alone."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("fastapi")

from portakern.serve.bench import LocalBench
from tests.serve.support import TASK, serving, until

OWN = '''
import portakern as pk

@pk.operator
def scaled(x: pk.Tensor["M", "N"], factor: float = 2.0):
    """x times a number"""
    return x * factor
'''

ENDLESS = """
#include <cstdint>
extern "C" void softmax(const float* x, float* y) { for (volatile int64_t n = 0;; n = n + 1) y[0] = x[0]; }
"""


@pytest.fixture(scope="module")
def client():
    with serving(LocalBench(1)) as found:
        yield found


def test_a_batch_of_right_and_wrong_kernels_in_their_order(client):
    task = client.post("/v1/tasks", json=TASK).json()
    right = task["starting_kernel"]
    texts = [right, "no C++ at all", right.replace("row_sum", "row_sam"), right + "\n// again\n"]
    asked = {"task": task["id"], "level": "quick", "candidates": [{"source": t} for t in texts]}
    id = client.post("/v1/batches", json=asked).json()["id"]
    rows = [r["row"] for r in client.get(f"/v1/batches/{id}/results", params={"wait_s": 60}).json()["results"]]
    assert [r["correct"] for r in rows] == [True, None, True, True]
    assert rows[1]["error"]["kind"] == "backend" and "jailed" in rows[0]["method"]


def test_an_operator_as_text(client):
    asked = {"target": "cpp:cpu", "text": OWN, "dtype": "f32", "values": {"M": 3, "N": 5, "factor": 3.0}}
    task = client.post("/v1/tasks", json=asked).json()
    assert (task["operator"], task["params"]) == ("scaled", {"factor": 3.0})
    wrong = task["starting_kernel"].replace("3", "4")
    rows = [client.post("/v1/evaluate", json={"task": task["id"], "source": source, "level": "quick"}).json()["row"]
            for source in (task["starting_kernel"], wrong)]  # fmt: skip
    assert rows[0]["correct"] is True and rows[1]["correct"] is not True


def test_a_text_that_would_harm_is_an_error_of_its_own(client, tmp_path):
    mark = tmp_path / "mark"
    text = OWN + f"\nopen({str(mark)!r}, 'w').write('here')\n"
    answer = client.post("/v1/tasks", json={"target": "cpp:cpu", "text": text, "dtype": "f32"})
    assert answer.status_code == 400 and "task.py" in answer.json()["error"]["where"]
    assert not mark.exists()


def test_what_runs_is_ended_when_it_is_cancelled_or_late(client):
    candidates = [{"source": ENDLESS}]
    cancelled = client.post("/v1/batches", json={"task": TASK, "candidates": candidates}).json()
    until(lambda: client.get(f"/v1/batches/{cancelled['id']}").json()["counts"]["running"])
    begun = time.monotonic()
    assert client.delete(f"/v1/batches/{cancelled['id']}").json() == {"cancelled": 1}
    until(lambda: client.get(f"/v1/batches/{cancelled['id']}").json()["counts"]["cancelled"])
    assert time.monotonic() - begun < 30  # its limit is a minute
    late = client.post("/v1/batches", json={"task": TASK, "candidates": candidates * 3, "deadline_s": 1.0}).json()
    found = client.get(f"/v1/batches/{late['id']}/results", params={"wait_s": 30}).json()
    assert [(r["state"], r["row"]["error"]["kind"]) for r in found["results"]] == [("expired", "deadline")] * 3
    good = client.post("/v1/tasks", json=TASK).json()["starting_kernel"]
    assert client.post("/v1/evaluate", json={"task": TASK, "source": good, "level": "quick"}).json()["row"]["correct"]


def test_a_kernel_alone(client):
    source = """
    #include <hip/hip_runtime.h>
    extern "C" __global__ void add(const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] + 1.0f;
    }
    """
    asked = {"source": source, "target": "hip:gfx942", "args": "x=f32[256],y=f32[256],n=256", "grid": [4], "block": [64]}
    found = client.post("/v1/inspect", json=asked).json()
    assert found["error"] is None and found["kernels"][0]["registers"] > 0 and found["ran"]
    broken = client.post("/v1/inspect", json={**asked, "source": source.replace("threadIdx.x", "threadIdx.q")}).json()
    assert broken["error"]["kind"] == "compile"


def test_our_own_kernels_on_two_targets(client):
    asked = {"operator": "softmax", "targets": ["cpp:cpu", "numba:cpu"], "dtype": "f32", "values": {"M": 4, "N": 9}}
    found = client.post("/v1/compare", json=asked).json()
    assert [r["correct"] for r in found["rows"]] == [True, True] and "numba:cpu" in found["table"]
