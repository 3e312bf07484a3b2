"""Operators that once failed, on every language that runs here.

A file of ``corpus/`` is a module with one operator named ``op``.  Its docstring says what was wrong and where.  A line for
each way in which it is tried follows, as JSON: every dim with its size, the dtype, and where they matter open dims, parameters
and the variations of :class:`portakern.fuzz.variants.Variation`::

    # case: {"dims": {"M": 33, "N": 70}, "dtype": "f32"}
    # case: {"dims": {"M": 33, "N": 70}, "dtype": "bf16", "open": ["M"], "params": {"causal": true}, "layout": 7}

What ``portakern fuzz`` leaves in ``found/`` is such a file, and moves here once its cause is gone: keep it small, and keep out
of its cases what does not matter.  A case goes through every adversarial stage unless it names ``stages``.  A target may
refuse it with the operator's line.  ``portakern fuzz --again FILE --targets T`` tries one file.

In the default run every file is lowered and emitted, on one device of a language that its docstring names: most of them failed
there, with an error or a text that no compiler takes.  Run are those whose turn it is: on the languages that the docstring
names, on all of their devices (:data:`EVERY` says of how many files one), and on the others (:data:`TURNS`), there on one
device in turns.  SYCL, Triton and CUDA, which take a quarter of a minute to begin, are run in the slow tier alone
(``tests/long.txt``).  The slow tests try all on all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from portakern.fuzz.files import programs_of
from portakern.fuzz.outcome import ABSENT, FOUND
from portakern.fuzz.program import FuzzProgram
from portakern.fuzz.workshop import SPEC, Step, Workshop

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


TURNS = 140
"""Of so many files one is tried on a language that its docstring does not name: a case takes one to two seconds."""


QUICKEST, EVERY_FILE = "opencl", 8
"""A case takes a fifth of a second in OpenCL.  So it tries one in eight of all files; where a docstring does not name OpenCL
the first case is enough: the mistake was in what languages share."""


EVERY = {"triton": 48, "pallas": 32, "cuda": 28, "opencl": 3, "cpp": 8, "hip": 20, "sycl": 16, "numba": 24}
"""Of files that name a language one in so many is tried: fewer where one takes some seconds."""


CasesOf = Callable[[Path], list[FuzzProgram]]


def names(file: Path, language: str) -> bool:
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    return bool(re.search(NAMED[language], docstring.replace("CUDA C++", "CUDA")))


def turns(language: str) -> dict[Path, list[str]]:
    """The files whose turn it is, each with its devices: all of them where the docstring names the language, else one."""
    if language != QUICKEST:
        return _turns(language)
    return dict.fromkeys(CORPUS[::EVERY_FILE], LANGUAGES[QUICKEST].split(",")) | _turns(QUICKEST)


def _turns(language: str) -> dict[Path, list[str]]:
    first, devices = 3 * list(LANGUAGES).index(language), LANGUAGES[language].split(",")
    found = {file: [devices[i // TURNS % len(devices)]] for i, file in enumerate(CORPUS) if (i + first) % TURNS == 0}
    return found | dict.fromkeys([f for f in CORPUS if names(f, language)][:: EVERY.get(language, 1)], devices)


def emitted_for(index: int, file: Path) -> str:
    """The one device for which a file is emitted in every run; what names no language failed in what all share."""
    found = [language for language in LANGUAGES if names(file, language)] or [QUICKEST]
    devices = LANGUAGES[found[index % len(found)]].split(",")
    return devices[index % len(devices)]


def cases(file: Path, language: str) -> list[FuzzProgram]:
    """Those of a file that are tried where it has its turn."""
    return programs_of(file)[: None if language != QUICKEST or names(file, language) else 1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_operators_that_once_failed_are_right(language: str) -> None:
    nothing_is_wrong(LANGUAGES[language], turns(language), lambda file: cases(file, language))


def test_operators_that_once_failed_are_emitted() -> None:
    files = {file: [emitted_for(i, file)] for i, file in enumerate(CORPUS)}
    nothing_is_wrong(",".join(LANGUAGES.values()), files, lambda file: programs_of(file)[:1], until="emit")


@pytest.mark.quick
def test_a_file_has_its_turn_on_all_devices_of_the_languages_it_names_and_on_others() -> None:
    tried = {language: turns(language) for language in LANGUAGES}
    assert {emitted_for(i, file) for i, file in enumerate(CORPUS)} == set(",".join(LANGUAGES.values()).split(","))
    assert all(cases(file, language) for language, files in tried.items() for file in files)
    for language, devices in LANGUAGES.items():
        assert {d for found in tried[language].values() for d in found} == set(devices.split(","))
        named = [f for f in CORPUS if names(f, language)]
        whole = [f for f in named if tried[language].get(f) == devices.split(",")]
        assert len(whole) * EVERY.get(language, 1) >= len(named) > 0


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_all_that_once_failed_are_right(language: str) -> None:
    nothing_is_wrong(LANGUAGES[language], dict.fromkeys(CORPUS, LANGUAGES[language].split(",")))


def nothing_is_wrong(targets: str, files: Mapping[Path, Sequence[str]], cases_of: CasesOf = programs_of,
                     until: Step = "run") -> None:  # fmt: skip
    """One run per language and not per file, so that its workers start once."""
    programs = {p.digest: (file, p) for file in files for p in cases_of(file)}
    skip = {(d, t) for d, (file, _) in programs.items() for t in targets.split(",") if t not in files[file]}
    with Workshop(targets, until=until) as workshop:
        outcomes = workshop.run([p for _, p in programs.values()], skip=skip)
    wrong = [f"{programs[d][0].stem} {programs[d][1].header()} on {o.target}: {o.kind}: {o.message}"
             for d, found in outcomes.items() for o in found if o.status == FOUND or o.target == SPEC]  # fmt: skip
    assert not wrong, "\n".join(wrong)
    if absent := [o.message for found in outcomes.values() for o in found if o.kind in ABSENT]:
        pytest.skip(absent[0])
