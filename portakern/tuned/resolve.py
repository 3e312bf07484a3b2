"""Whether there is a tuned schedule for what is asked: the user's own before the shipped ones."""

from __future__ import annotations

import warnings

from portakern.backend import Target
from portakern.tuned.chosen import Chosen
from portakern.tuned.database import Database, Entry, TuningError, default_file, shipped
from portakern.tuned.keys import Key, looked_up


def tuned(key: Key, target: Target) -> Chosen | None:
    """The schedules kept under ``key``; ``None`` where there are none.

    A database that cannot be read is warned about and then is as one that holds nothing, since nothing depends on it but
    speed.
    """
    file = default_file()
    if file is None:
        return None
    try:
        entry, origin = _find(key, target, Database(file))
    except TuningError as error:
        warnings.warn(f"tuned schedules are not used: {error}", stacklevel=2)
        return None
    return None if entry is None else Chosen(entry.nests, origin, version=entry.emitter_version)


def _find(key: Key, target: Target, own: Database) -> tuple[Entry | None, str]:
    for k in looked_up(key, target.device):
        if (entry := own.find(k)) is not None:
            return entry, f"tuned here for {k.language}:{k.device} by {entry.by}"
        if (entry := shipped(k.language, k.device).get(k)) is not None:
            return entry, f"tuned schedule shipped for {k.language}:{k.device}, by {entry.by}"
    return None, ""
