"""On a GPU: kernels that never end, fault, or write too far become rows, and the GPU and this process go on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import portakern as pk
from portakern.operators.add_relu import add_relu
from portakern.study.store import ResultStore

LIMIT_S = 15.0
SLACK_S = 45.0
"""Starting workers, compiling, and the driver's own clean-up after a kill."""


def _mutant(kernel: str, start: str, before: str, after: str) -> str:
    """The kernel with lines added around its only line that starts with ``start``."""
    (line,) = (x for x in kernel.splitlines() if x.strip().startswith(start))
    return kernel.replace(line, before + line + after)


@pytest.fixture(scope="module")
def good() -> str:
    return pk.task(add_relu, "cuda:sm_90a", M=256, N=1024).starting_kernel


FIRST, STORE = "const int64_t m0", "pk::store<"
BAD = {
    "endless": (FIRST, "    for (volatile int i = 1; i; i = 1) {}\n", "", {"timeout"}),
    "fault": (STORE, "    *(volatile int*)nullptr = 1;\n", "", {"device-lost", "runtime"}),
    "too far": (STORE, "", "\n    if (m0 == 0 && threadIdx.x == 0) out[-1] = pk::bf16(1.0f);", {"incorrect"}),
}
"""By name: the line, what is put before it and after it, and the kinds of error that it may be."""


@pytest.mark.parametrize("name", list(BAD))
@pytest.mark.gpu
def test_a_bad_kernel_is_a_row_and_the_next_one_is_timed(good: str, tmp_path: Path, name: str) -> None:
    start, before, after, kinds = BAD[name]
    store = tmp_path / "results.sqlite"
    begin = time.monotonic()
    bad = _mutant(good, start, before, after)
    row = pk.evaluate(add_relu, bad, "cuda:sm_90a", timeout_s=LIMIT_S, store=store, M=256, N=1024)
    assert time.monotonic() - begin < LIMIT_S + SLACK_S
    assert row.error is not None and row.error["kind"] in kinds, row.error
    assert row.time is None
    good_row = pk.evaluate(add_relu, good, "cuda:sm_90a", store=store, M=256, N=1024)
    assert good_row.evidence == "timed" and good_row.correct, good_row.error
    assert [x.row.evidence for x in ResultStore(store).select()][-1] == "timed"
    assert ResultStore(store).check() == "ok"


@pytest.mark.parametrize("name", list(BAD))
def test_the_lines_to_change_are_in_the_kernel(good: str, name: str) -> None:
    """Without a GPU, so that a change of the emitted text is seen where it is made."""
    start, before, after, _ = BAD[name]
    bad = _mutant(good, start, before, after)
    assert len(bad.splitlines()) == len(good.splitlines()) + 1
