"""Where in the user's file an operation or a mistake comes from."""

from __future__ import annotations

import functools
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, TracebackType
from typing import ParamSpec, TypeVar

from portakern.errors import IRError, SpecError
from portakern.ir.core import Loc, at

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).parents[1]
_OWN = (str(_PACKAGE / "spec"), str(_PACKAGE / "ir"))


def is_own(filename: str) -> bool:
    """Whether a frame belongs to the tracer; the operator library counts as a user."""
    return filename.startswith(_OWN)


def short_path(filename: str) -> str:
    """``filename`` as it is shown: from the package, from the current folder, else as it is."""
    path = Path(filename)
    for base in (_PACKAGE.parent if path.is_relative_to(_PACKAGE) else None, Path.cwd()):
        if base is not None and path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    return filename


def line_at(filename: str, line: int) -> Loc:
    return Loc(short_path(filename), line, linecache.getline(filename, line).strip())


_spoken_for: list[Loc | None] = []


@contextmanager
def on_behalf_of(loc: Loc | None) -> Iterator[None]:
    """What is traced inside comes from ``loc``, a line of a program that is read and not run, as an importer does."""
    _spoken_for.append(loc)
    try:
        with at(loc):
            yield
    finally:
        _spoken_for.pop()


def user_location() -> Loc | None:
    """The line of the innermost frame that is not the tracer's, or the one that is spoken for."""
    if _spoken_for:
        return _spoken_for[-1]
    frame = sys._getframe(1)
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return line_at(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def traceback_location(traceback: TracebackType | None, inside: CodeType) -> Loc | None:
    """The innermost user's line in a traceback, but no deeper than helpers called from the function ``inside``.

    Library code that the user called (numpy, say) is not the user's: the last frame in the file of ``inside`` counts.
    """
    found: Loc | None = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == inside.co_filename:
            found = line_at(code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def spec_error(message: str, hint: str = "", loc: Loc | None = None) -> SpecError:
    """A :class:`SpecError` that shows the user's line (that of the caller's caller where ``loc`` is not given)."""
    loc = loc or user_location()
    shown = f"{message}\n    {loc.text}" if loc is not None and loc.text else message
    return SpecError(shown, hint=hint, where=str(loc or ""))


def located(function: Callable[P, R]) -> Callable[P, R]:
    """Operations built inside ``function`` come from the user's line; faults of the IR become the user's."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        loc = user_location()
        with at(loc):
            try:
                return function(*args, **kwargs)
            except IRError as error:
                raise spec_error(error.message, error.hint, loc) from error

    return wrapper
