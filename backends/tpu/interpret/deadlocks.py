"""Waits for semaphores that will not end: found by what the interpreter's threads are doing, and ended.

The interpreter that models semaphores waits as a TPU would, for ever.  A thread beside it looks at the stacks of the others:
where all that interpret wait, and have done for some seconds, nobody is left who could signal.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

STUCK_S = 3.0
"""Waits that last longer, while nothing else is interpreted, will not end."""

DEADLINE_S = 120.0
"""Of one run in an interpreter that models memories."""

LOOK_S = 0.5


@contextlib.contextmanager
def watched(active: bool) -> Iterator[None]:
    """Ends the interpretation inside when it waits for what will never come."""
    if not active:
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(over,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(over: threading.Event) -> None:
    stuck, waited = 0, 0.0
    while not over.wait(LOOK_S):
        waited += LOOK_S
        waits = _waits()
        stuck = stuck + 1 if waits else 0
        if stuck * LOOK_S >= STUCK_S and _failed(f"portakern-stuck: {waits[0]}"):
            return
        if waited >= DEADLINE_S and _failed(f"portakern-slow: not done within {DEADLINE_S:g} s"):
            return


def _waits() -> list[str]:
    """What the interpreter's threads wait for, where each of them waits; none where one of them works."""
    found = []
    for frame in sys._current_frames().values():
        inner = _interpreting(frame)
        if inner is None or inner.f_code.co_filename.endswith("thread_map.py"):  # the latter waits for its threads
            continue
        if inner.f_code.co_name != "wait":
            return []
        found.append(_wait_text(inner))
    return found


def _interpreting(frame: Any) -> Any:
    """The innermost frame of the interpreter on a stack, if there is one."""
    while frame is not None and "pallas/mosaic/interpret" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame


def _wait_text(frame: Any) -> str:
    """A wait in words, from the interpreter's own variables."""
    me, wanted = frame.f_locals.get("self"), frame.f_locals.get("value")
    caller = frame.f_back
    copy = caller is not None and "dma" in caller.f_code.co_name
    kind = "a copy that was never started on it, or was waited for before" if copy else "no signal comes"
    if me is not None and any(len(t) for t in getattr(me, "tasks", ())):
        return "a semaphore's pending copies"
    return f"the kernel waits for {wanted} on a semaphore: {kind}{_place(caller)}"


def _place(frame: Any) -> str:
    """`` at file.py:12``, from the source information that the interpreter carries along."""
    from jax._src import source_info_util

    info = frame.f_locals.get("source_info") if frame is not None else None
    if info is None:
        return ""
    return " at " + ":".join(source_info_util.summarize(info).partition(" (")[0].split(":")[:2])


def _failed(why: str) -> bool:
    """Ends what is interpreted, if it has begun."""
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter

    memory = interpreter._shared_memory
    if memory is not None:
        memory.set_failed(TimeoutError(why), top_level=False)
    return memory is not None
