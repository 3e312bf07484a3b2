"""The cache of binaries, as ``portakern cache`` has it: ``pk.cache.size()``, ``pk.cache.prune(size="2GB")``."""

from __future__ import annotations

from portakern.tools import limits
from portakern.tools.cache import default_directory
from portakern.tools.limits import Limits, Pruned


def asked(size: str | None = None, age: str | None = None) -> Limits:
    """The limits, those of the environment where not given."""
    here = Limits.of_environment()
    return Limits(here.size if size is None else limits.bytes_of(size), here.age_s if age is None else limits.seconds_of(age))


def size() -> dict[str, tuple[int, int]]:
    """By kind of what is kept, how many pieces there are and what they take in bytes."""
    return limits.sizes(default_directory())


def prune(size: str | None = None, age: str | None = None, dry_run: bool = False) -> Pruned:
    """Remove what is beyond the limits, what was used longest ago first.  Safe beside running processes.

    Args:
        size: what may be left, as ``"500MB"``; ``PORTAKERN_CACHE_SIZE``, else 5 GB, where not given.
        age: how long ago it may have been used, as ``"30d"``; ``PORTAKERN_CACHE_AGE``, else 30 days, where not given.
        dry_run: say it and remove nothing.
    """
    return limits.prune(default_directory(), asked(size, age), dry_run)
