"""What a step reached, and how its failure becomes the row's error."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from portakern.backend import (
    Source,
)
from portakern.errors import (
    PortakernError,
)
from portakern.study.operations import Operation
from portakern.study.row import Row


@dataclass(frozen=True)
class Build:
    """What :func:`build` reached: the row, the source, the binary's key in the cache, and what can run it here.

    ``runner`` is ``runtime``, ``machine``, ``simulator`` or empty.  ``preparation`` is the source of what hangs on weights
    alone, where the work names some, and ``preparation_key`` its binary's key.  ``operations`` are those of its kernels.
    """

    row: Row
    source: Source | None = None
    binary_key: str = ""
    runner: str = ""
    preparation: Source | None = None
    preparation_key: str = ""
    operations: tuple[Operation, ...] = ()


def guarded(row: Row, step: Callable[[], Build]) -> Build:
    """``step()``, or ``row`` with the error it raised; an error nobody foresaw is one too, and says where it arose."""
    try:
        return step()
    except PortakernError as error:
        return Build(row.failed(error))
    except Exception as error:
        return Build(row.failed(defect(error)))


def defect(error: Exception) -> PortakernError:
    """An unforeseen exception as an error with its place."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.filename.rsplit('/portakern/', 1)[-1]}:{place.lineno}"
    return PortakernError("defect", f"{type(error).__name__}: {error} (raised at {where})",
                          hint="this is a defect of portakern or of the backend; please report it")
