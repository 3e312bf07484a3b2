"""What two accesses to shared memory that nothing orders have to do with the emitted text."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from portakern.backend import Source
from portakern.errors import PortakernError
from portakern.tools.process import run_tool

_MARK = "race|"
_TIMEOUT_S = 60.0


def told(fault: str, library: Path, source: Source) -> str:
    """``fault`` as the interpreter gave it, with the lines of a race in words; places are addresses in ``library``."""
    if not fault.startswith(_MARK):
        return fault
    first, thread, place, called, second, other, later, later_called = fault.removeprefix(_MARK).split("|")
    lines = [_line(x, library, source) for x in ((place, called), (later, later_called))]
    return (f"nothing orders two accesses to shared memory: the {first} of thread {thread}, {lines[0]}, "
            f"and the {second} of thread {other}, {lines[1]}")  # fmt: skip


def _line(places: tuple[str, str], library: Path, source: Source) -> str:
    """The line of the text at one of the addresses, each behind a call; else where in the tile library the first one lies."""
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    try:
        words = [tool or "addr2line", "-i", "-e", str(library), *(hex(int(x, 16) - 1) for x in places)]
        frames = run_tool(words, timeout_s=_TIMEOUT_S).checked("naming a line").stdout.splitlines()
    except PortakernError:
        return "of which addr2line would tell the line"
    numbers = [int(found[1]) for frame in frames if (found := re.search(r"kernel\.cu:(\d+)", frame))]
    texts = source.text.splitlines()
    if numbers and 0 < numbers[0] <= len(texts):
        return f"line {numbers[0]} `{texts[numbers[0] - 1].strip()}`"
    return "at " + " from ".join(Path(frame.split(" ")[0]).name for frame in frames[:3])
