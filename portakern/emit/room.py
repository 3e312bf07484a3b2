"""What a compiler alone knows in the end: that the blocks of a kernel take more shared memory than there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

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


def no_room(source: Source, kernel: str, taken: int, room: int, kernels: Sequence[str] = ()) -> ScheduleError:
    """That the blocks of ``kernel`` take ``taken`` bytes of shared memory where they may have ``room``.

    ``kernels`` are all that the binary holds, which a text that launches them by itself defines in their order.
    """
    names = [launch.kernel for launch in source.launches] or sorted(kernels, key=lambda k: source.text.find(f"def {k}("))
    known = names.count(kernel) == 1 and len(names) == len(source.schedule)
    schedule = str(source.schedule[names.index(kernel)]) if known else ""
    return ScheduleError(
        f"{kernel} takes {taken} bytes of shared memory{f' with {schedule}' if schedule else ''}, "
        f"a block of {source.target.device.name} has {room}",
        hint="take smaller tiles or fewer stages",
        where=next((str(a.loc) for a in source.arrays if a.loc), ""),
        schedule=schedule,
    )
