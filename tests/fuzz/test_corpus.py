"""Operators that once failed, on every language that runs here.

A file of ``corpus/`` is a module with one operator named ``op``.  Its docstring says what was wrong and where.  A line for
each way in which it is tried follows, as JSON: every dim with its size, the dtype, and where they matter open dims, parameters
and the variations of :class:`portakern.fuzz.variants.Variation`::

    # case: {"dims": {"M": 33, "N": 70}, "dtype": "f32"}
    # case: {"dims": {"M": 33, "N": 70}, "dtype": "bf16", "open": ["M"], "params": {"causal": true}, "layout": 7}

What ``portakern fuzz`` leaves in ``found/`` is such a file, and moves here once its cause is gone: keep it small, and keep out
of its cases what does not matter.  A case goes through every adversarial stage unless it names ``stages``.  A target may
refuse it with the operator's line.  ``portakern fuzz --again FILE --targets T`` tries one file.

In the default run a file is tried on the languages that its docstring names and, in turns, on every third of the others; the
slow tests try all on all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
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


NAMED = {
    "numba": "numba", "cpp": r"C\+\+", "opencl": "OpenCL", "sycl": "SYCL", "triton": "Triton", "pallas": "Pallas|TPU",
    "hip": "HIP|AMD", "cuda": "CUDA|sm_",
}  # fmt: skip
"""How a docstring names a language; C++ is not CUDA C++."""


def turns(language: str) -> list[Path]:
    first = list(LANGUAGES).index(language)

    def named(file: Path) -> bool:
        docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
        return bool(re.search(NAMED[language], docstring.replace("CUDA C++", "CUDA")))

    return [file for i, file in enumerate(CORPUS) if (i + first) % 3 == 0 or named(file)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_operators_that_once_failed_are_right(language: str) -> None:
    nothing_is_wrong(language, turns(language))


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_all_that_once_failed_are_right(language: str) -> None:
    nothing_is_wrong(language, CORPUS)


def nothing_is_wrong(language: str, files: Sequence[Path]) -> None:
    """One run per language and not per file, so that its workers start once."""
    programs = {p.digest: (file.stem, p) for file in files for p in programs_of(file)}
    with Workshop(LANGUAGES[language]) as workshop:
        outcomes = workshop.run([p for _, p in programs.values()])
    wrong = [f"{programs[d][0]} {programs[d][1].header()} on {o.target}: {o.kind}: {o.message}"
             for d, found in outcomes.items() for o in found if o.status == FOUND or o.target == SPEC]  # fmt: skip
    assert not wrong, "\n".join(wrong)
    if absent := [o.message for found in outcomes.values() for o in found if o.kind in ABSENT]:
        pytest.skip(absent[0])
