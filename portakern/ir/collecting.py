"""Programs are made of many small objects, most of which stay.

Python's collector looks for cycles among all objects of a process each time their number has grown by a quarter, torch's and
the model's with them: a third of the time of an import or of a lowering, for nothing.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """The collector waits until this is over; what has no more references is freed as always."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
