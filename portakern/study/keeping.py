"""Keeping timed rows as they are finished, so that neither an interrupt nor a store that fails loses a result."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from portakern.study.row import Row
from portakern.study.store import ResultStore, StoreError


def keeper(store: StoreLike) -> Keeper | None:
    """For the Python face: into a file, into the user's store for ``True``; failures are warnings."""
    if isinstance(store, Keeper):
        return store
    if store is None or store is False:
        return None
    return Keeper(ResultStore(None if store is True else store), lambda text: warnings.warn(text, stacklevel=3))


class Keeper:
    """A sink for :class:`portakern.study.study.Runner`: puts every row that has a time into a store.

    Args:
        store: where to.
        warn: told, once, that the store cannot be written and what to do; the rows go on to whoever asked for them.

    Attributes:
        kept: how many rows were written.
        failed: what kept the others from it, if anything did.
    """

    def __init__(self, store: ResultStore, warn: Callable[[str], None]) -> None:
        self.store, self._warn = store, warn
        self.kept = 0
        self.failed: StoreError | None = None

    def __call__(self, row: Row) -> None:
        if row.time is None:
            return
        try:
            self.kept += self.store.add([row])
        except StoreError as error:
            if self.failed is None:
                self._warn(f"the results are not kept: {error}")
            self.failed = error


StoreLike = str | Path | bool | Keeper | None
"""Where timed rows are kept: a file, ``True`` for the user's store; nowhere for ``None``."""
