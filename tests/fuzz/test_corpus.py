"""Operators that once failed, on every language that runs here.

A file of ``corpus/`` is a module with one operator named ``op``.  Its docstring says what was wrong and where.  A line for
each way in which it is tried follows, as JSON: every dim with its size, the dtype, and where they matter open dims, parameters
and the variations of :class:`portakern.fuzz.variants.Variation`::

    # case: {"dims": {"M": 33, "N": 70}, "dtype": "f32"}
    # case: {"dims": {"M": 33, "N": 70}, "dtype": "bf16", "open": ["M"], "params": {"causal": true}, "layout": 7}

What ``portakern fuzz`` leaves in ``found/`` is such a file, and moves here once its cause is gone: keep it small, and keep out
of its cases what does not matter.  A case goes through every adversarial stage unless it names ``stages``.  A target may
refuse it with the operator's line.  ``portakern fuzz --again FILE --targets T`` tries one file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from portakern.fuzz.files import programs_of
from portakern.fuzz.outcome import ABSENT, FOUND
from portakern.fuzz.workshop import SPEC, Workshop

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.py"))
LANGUAGES = {
    "numba": "numba:cpu", "cpp": "cpp:cpu", "opencl": "opencl:cpu", "sycl": "sycl:cpu", "triton": "triton:sm_90,triton:gfx942",
    "pallas": "pallas:v5e", "hip": "hip:gfx942,hip:gfx1201", "cuda": "cuda:sm_80,cuda:sm_90a",
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_operators_that_once_failed_are_right(language: str):
    """One test per language and not per file, so that its workers start once."""
    programs = {p.digest: (file.stem, p) for file in CORPUS for p in programs_of(file)}
    with Workshop(LANGUAGES[language]) as workshop:
        outcomes = workshop.run([p for _, p in programs.values()])
    wrong = [f"{programs[d][0]} {programs[d][1].header()} on {o.target}: {o.kind}: {o.message}"
             for d, found in outcomes.items() for o in found if o.status == FOUND or o.target == SPEC]  # fmt: skip
    assert not wrong, "\n".join(wrong)
    if absent := [o.message for found in outcomes.values() for o in found if o.kind in ABSENT]:
        pytest.skip(absent[0])
