"""What a step reached, and how its failure becomes the row's error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from portakern.backend import (
    Source,
)
from portakern.errors import (
    PortakernError,
    defect,
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
