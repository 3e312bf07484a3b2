"""What a generator hands in: the text of a kernel, and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from portakern.errors import UsageError
from portakern.tools.cache import digest

LEVELS = ("compile", "quick", "full", "timed")
"""How far a candidate is judged, each level after the one before it:

``compile``  it is text for this task and becomes machine code, whose resources are in the row
``quick``    a few drawn stages of the check, the first one that fails ends it
``full``     the whole check of :mod:`portakern.check.hidden`
``timed``    and its time where its silicon is here
"""


@dataclass(frozen=True)
class Candidate:
    """A kernel to try.

    Args:
        source: its text.
        entry: the function to call in it.
        note: a few words on what it is.
        parents: ids of the candidates that it was made of.
        move: how it was made of them, in a word.
        meta: what its generator wants to keep with it, as JSON.
    """

    source: str
    entry: str | None = None
    note: str = ""
    parents: tuple[str, ...] = ()
    move: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """16 digits in hex that follow from the text and the entry: the same kernel has the same id wherever it is tried."""
        return digest("candidate", str(self.source), self.entry)[:16]


def candidate_of(given: Candidate | str | tuple[str, str | None]) -> Candidate:
    """A text alone, or with its entry, is a candidate, too.  Raises :class:`UsageError` for what is none."""
    if isinstance(given, Candidate):
        found = given
    elif isinstance(given, tuple) and len(given) == 2:
        found = Candidate(*given)
    else:
        found = Candidate(given)  # type: ignore[arg-type]
    if not isinstance(found.source, str):
        raise UsageError(f"a kernel's source is text, not {type(found.source).__name__}", hint="pass the text of the file")
    try:
        json.dumps(dict(found.meta))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the meta of a candidate is no JSON: {error}") from error
    return found


def level_of(name: str) -> str:
    """Raises :class:`UsageError` for what is no level."""
    if name not in LEVELS:
        raise UsageError(f"no level of judging is called {name!r}", hint=f"there are {', '.join(LEVELS)}")
    return name
