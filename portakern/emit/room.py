"""What a compiler alone knows in the end: that the blocks of a kernel take more shared memory than there is."""

from __future__ import annotations

import re

from portakern.backend import Source
from portakern.errors import CompileError, ScheduleError


def explained(error: CompileError, source: Source, words: re.Pattern[str]) -> CompileError | ScheduleError:
    """``error``, or a :class:`ScheduleError` where its log says by ``words`` that an emitted kernel has no room.

    Args:
        words: the compiler's own, with the groups ``kernel``, ``taken`` and ``room``, the last two numbers of bytes.
    """
    found = words.search(error.log)
    if found is None or not source.schedule:  # a text that was written elsewhere has no schedule to blame
        return error
    return no_room(source, found["kernel"], int(found["taken"], 0), int(found["room"], 0))


def no_room(source: Source, kernel: str, taken: int, room: int) -> ScheduleError:
    """That the blocks of ``kernel`` take ``taken`` bytes of shared memory where they may have ``room``."""
    numbers = [n for n, launch in enumerate(source.launches) if launch.kernel == kernel]
    known = len(numbers) == 1 and len(source.launches) == len(source.schedule)
    schedule = str(source.schedule[numbers[0]]) if known else ""
    return ScheduleError(
        f"{kernel} takes {taken} bytes of shared memory{f' with {schedule}' if schedule else ''}, "
        f"a block of {source.target.device.name} has {room}",
        hint="take smaller tiles or fewer stages",
        where=next((str(a.loc) for a in source.arrays if a.loc), ""),
        schedule=schedule,
    )
