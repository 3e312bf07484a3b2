"""Room for recursion: what is lowered or written recursively is as deep as the longest chain of operations of a program."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")

SHALLOW = 100
"""Operations that fit into what Python allows by itself (1000 calls)."""
CALLS = 40
"""Nested calls that an operation takes at most, with what it is rewritten to."""
STACK_BYTES, MOST_BYTES = 1 << 16, 1 << 29
"""Of stack for an operation, and in all: what is not used takes no memory, but counts where that is limited."""

_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("inside", default=False)


def with_room(operations: int, work: Callable[[], Made]) -> Made:
    """What ``work`` gives, or raises, with room for recursion over so many operations in a row: a thread with a stack of its
    own, while the caller waits."""
    if operations <= SHALLOW or _inside.get():
        return work()
    context = contextvars.copy_context()
    context.run(_inside.set, True)
    made: list[Made] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            made.append(context.run(work))
        except BaseException as error:  # the caller's to handle
            raised.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(min(STACK_BYTES * (operations + SHALLOW), MOST_BYTES))
    sys.setrecursionlimit(max(limit, CALLS * operations))
    try:
        thread = threading.Thread(target=run, name="long program", daemon=True)
        thread.start()
        threading.stack_size(size)
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
    if raised:
        raise raised[0]
    return made[0]
