"""AMD's matrix instruction calculator (github.com/ROCm/amd_matrix_instruction_calculator), asked for whole register layouts.

The calculator stays where it is: it is run from the path given, in a process of its own that answers many questions.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_CHILD = """\
import contextlib, importlib.util, io, json, sys
spec = importlib.util.spec_from_file_location("calculator", sys.argv[1])
calculator = importlib.util.module_from_spec(spec)
sys.modules["calculator"] = calculator
spec.loader.exec_module(calculator)
answers = []
for words in json.load(sys.stdin):
    sys.argv = ["calculator", *words]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), contextlib.suppress(SystemExit):
        calculator.parse_and_run()
    answers.append(text.getvalue())
json.dump(answers, sys.stdout)
"""
_ENTRY = re.compile(r"(-?)(\|?)v(?:\[\d+:(\d+)\]|(\d+))\{(\d+)\}(?:\.\[(\d+):(\d+)\])?\|?")


@dataclass(frozen=True)
class Place:
    """Where an element lies: bits from ``low`` on of a lane's register, and what a modifier does to it on the way in."""

    register: int
    lane: int
    low: int
    negative: bool
    absolute: bool


Layout = dict[tuple[int, int, int], list[Place]]
"""Every element by (block, row, column) of its matrix; in several places where a matrix is held more than once."""


def ask(path: str, questions: Sequence[Sequence[str]]) -> list[str]:
    """The calculator's answers to many command lines."""
    found = subprocess.run([sys.executable, "-c", _CHILD, path], input=json.dumps([list(q) for q in questions]),
                           capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    if found.returncode:
        raise RuntimeError(f"{path} did not run as AMD's matrix instruction calculator:\n{found.stderr[-2000:]}")
    return json.loads(found.stdout)


def instructions(text: str) -> list[str]:
    """Of the answer to ``--list-instructions``."""
    return re.findall(r"^\s+(v_\w+)$", text, re.MULTILINE)


def supported(text: str) -> bool:
    """Whether an instruction has the modifier that was asked for."""
    return "does not support" not in text


def layout(text: str, plain: Layout | None = None) -> Layout:
    """Of the answer to ``--register-layout --csv``; ``plain`` where a modifier is none of this matrix."""
    if plain is not None and "may only be used" in text:
        return plain
    found: Layout = {}
    blocks = [0]
    for line in text.splitlines():
        if line.startswith("Block"):
            blocks = [int(n) for n in re.findall(r"\d+", line)]
        elif re.match(r"\d+,", line):
            row, *entries = line.split(",")
            for column, entry in enumerate(entries):
                for block in blocks:
                    found[block, int(row), column] = _places(entry)
    if not found:
        raise RuntimeError(f"no layout in the calculator's answer: {text[:400]}")
    return found


def _places(entry: str) -> list[Place]:
    return [Place(int(low64 or register), int(lane), int(low or 0), bool(sign), bool(bar))
            for sign, bar, low64, register, lane, _, low in _ENTRY.findall(entry)]  # fmt: skip
