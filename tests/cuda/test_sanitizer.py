"""What the tables of tests/gpu_sanitizer.py are made of."""

from __future__ import annotations

import pytest

from portakern.spec.load import library
from tests.gpu_sanitizer import CASES, PLANTED, TOOLS, answer

MEMCHECK = """
========= Invalid __global__ write of size 4 bytes
=========     at beyond+0x70
=========
========= Program hit cudaErrorInvalidValue (error 1) due to "invalid argument" on CUDA API call to cudaMemcpy.
=========
========= ERROR SUMMARY: 3 errors
"""


DIED = """
========= Error: process didn't terminate successfully
========= Target application returned an error
"""


@pytest.mark.parametrize(("text", "errors", "api"), [
    ("========= ERROR SUMMARY: 0 errors\n", 0, 0),
    ("========= ERROR SUMMARY: 1 error\n", 1, 0),
    (MEMCHECK, 2, 1),
    ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", 0, 0),
    ("========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n", 3, 0),
    (DIED, None, 0),
    (f"{DIED}========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", None, 0),
    (f"{DIED}========= ERROR SUMMARY: 0 errors\n", None, 0),
    (f"{DIED}========= RACECHECK SUMMARY: 100 hazards displayed (100 errors, 0 warnings)\n", 100, 0),
])  # fmt: skip
def test_what_a_summary_says(text: str, errors: int | None, api: int) -> None:
    found = answer(text)
    assert (found.errors, found.api) == (errors, api)
    assert found.errors is not None or str(found) in ("no summary", "process died")


def test_every_operator_of_the_library_is_there() -> None:
    assert {c.operator for c in CASES} == {op.name for op in library()}
    assert len({str(c) for c in CASES}) == len(CASES)


def test_every_tool_has_a_fault_of_its_own() -> None:
    assert set(PLANTED) == set(TOOLS)
