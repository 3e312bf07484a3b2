"""On a GPU: kernels that never end, fault, or write too far become rows, and the GPU and this process go on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import portakern as pk
from portakern.operators.add_relu import add_relu
from portakern.study.store import Store

pytestmark = pytest.mark.gpu

LIMIT_S = 15.0
SLACK_S = 45.0
"""Starting workers, compiling, and the driver's own clean-up after a kill."""


def _mutant(kernel: str, old: str, new: str) -> str:
    assert kernel.count(old) == 1
    return kernel.replace(old, new)


@pytest.fixture(scope="module")
def good() -> str:
    return pk.task(add_relu, "cuda:sm_90a", M=256, N=1024).starting_kernel


ENDLESS = "    const int64_t m0"
STORE = "pk::store<pk::Aligned>(out_tile, out + m0 * 1024, 1024, 1);"


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (ENDLESS, "    for (volatile int i = 1; i; i = 1) {}\n" + ENDLESS, {"timeout"}),
        (STORE, "*(volatile int*)nullptr = 1;\n" + STORE, {"device-lost", "runtime"}),
        (STORE, STORE + "\n    if (m0 == 0 && threadIdx.x == 0) out[-1] = pk::bf16(1.0f);", {"incorrect"}),
    ],
    ids=["endless", "fault", "too far"],
)
def test_a_bad_kernel_is_a_row_and_the_next_one_is_timed(
    good: str, tmp_path: Path, old: str, new: str, kinds: set[str]
) -> None:
    store = tmp_path / "results.sqlite"
    begin = time.monotonic()
    row = pk.evaluate(add_relu, _mutant(good, old, new), "cuda:sm_90a", timeout_s=LIMIT_S, store=store, M=256, N=1024)
    assert time.monotonic() - begin < LIMIT_S + SLACK_S
    assert row.error is not None and row.error["kind"] in kinds, row.error
    assert row.time is None
    after = pk.evaluate(add_relu, good, "cuda:sm_90a", store=store, M=256, N=1024)
    assert after.evidence == "timed" and after.correct, after.error
    assert [x.row.evidence for x in Store(store).select()][-1] == "timed"
    assert Store(store).check() == "ok"
