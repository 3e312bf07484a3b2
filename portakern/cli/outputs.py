"""Files that a command is to write, looked at before the work, and what is left to say when it ends early."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from portakern.cli import options
from portakern.errors import PortakernError
from portakern.study.study import StudyInterrupted

FILES = ("json", "html", "export", "asm")
"""Options that name a file to write, by the names of their values."""


def check_outputs(args: argparse.Namespace) -> None:
    """Raises :class:`PortakernError` of kind ``output`` where a file that is asked for cannot be written."""
    for name in FILES:
        file = getattr(args, name, None)
        if isinstance(file, str) and file != "-" and (why := _unwritable(Path(file))):
            raise PortakernError("output", f"cannot write {file}: {why}", hint="name another file")


def _unwritable(file: Path) -> str:
    if file.is_dir():
        return "it is a folder"
    if file.exists():
        return "" if os.access(file, os.W_OK) else "it may not be written"
    above = file.parent
    if not above.is_dir():
        return f"there is no folder {above}"
    return "" if os.access(above, os.W_OK) else f"the folder {above} may not be written"


def interrupted(stop: StudyInterrupted, args: argparse.Namespace) -> int:
    """Shows the rows that were finished, as the command would have; the exit status of an interrupt."""
    if stop.study.rows:
        options.finish(stop.study, stop.goal, getattr(args, "json", None), getattr(args, "samples", False))
    return 130
