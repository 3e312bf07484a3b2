"""Made-up operators as files: what a finding ends as, and what the corpus of tests/fuzz is made of.

A file is a module with one operator named ``op``, whose docstring says what was wrong, and a line ``# case: {...}`` for each
way in which it is tried, as JSON::

    # case: {"dims": {"M": 33, "N": 70}, "dtype": "f32"}

``dims`` gives a size to every dim.  Beside it may stand ``open`` (a list of dims), ``params``, and what
:class:`portakern.fuzz.variants.Variation` has: ``stages``, ``schedule``, ``chosen``, ``same``, ``layout``, ``twin``, ``forms``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from portakern.errors import UsageError
from portakern.fuzz.case import FuzzCase
from portakern.fuzz.program import FuzzProgram
from portakern.fuzz.variants import ALL_STAGES, Variation

_CASE = re.compile(r"^# case: (\{.*\})$", re.MULTILINE)
_CASE_KEYS = ("dims", "dtype", "open", "params")


def programs_of(file: Path) -> list[FuzzProgram]:
    """The programs of a file, one per case, through all stages where it names none.

    Raises :class:`UsageError` where the file has no case, or a case makes no sense.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    found = [_program(text, said, file) for said in _CASE.findall(text)]
    if not found:
        raise UsageError(f"{file} has no line that says how it is tried",
                         hint='write # case: {"dims": {"M": 33}, "dtype": "f32"}')
    return found


def _program(text: str, said: str, file: Path) -> FuzzProgram:
    try:
        program = read(text, said)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file}: the case {said} cannot be read: {error}") from error
    return program if program.variation.stages else replace(program, variation=replace(program.variation, stages=ALL_STAGES))


def read(text: str, header: str, features: Iterable[str] = ()) -> FuzzProgram:
    """The inverse of :meth:`FuzzProgram.header`.  Raises ``ValueError``, ``KeyError`` or ``TypeError`` where it is none."""
    data = json.loads(header)
    variation = Variation.from_dict({k: v for k, v in data.items() if k not in _CASE_KEYS})
    case = FuzzCase(text, data["dims"], data.get("dtype", "f32"), frozenset(data.get("open", ())), data.get("params", {}),
                frozenset(features))  # fmt: skip
    return FuzzProgram(case, variation)


def text_of(program: FuzzProgram, title: str, notes: list[str]) -> str:
    """A file that :func:`programs_of` reads: the docstring is ``title`` and ``notes``."""
    said = "\n".join([title, "", *notes, ""]) if notes else title
    doc = said.replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{doc}"""\n# case: {program.header()}\n\n{program.case.text.strip()}\n'
