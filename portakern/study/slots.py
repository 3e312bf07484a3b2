"""Keeps a few worker processes busy with tasks that want different environments.

Each slot is a thread that drives one worker at a time.  A worker belongs to a *room*, which is a language and its
environment: importing torch or jax takes seconds, so a slot stays in its room while there is work, and goes to the room
with most work that no other slot is in when there is none.
"""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, runtime_checkable

from portakern.errors import PortakernError, WorkerError
from portakern.study.row import Row
from portakern.study.turns import Turn, memory
from portakern.tools.processors import share
from portakern.tools.workers import Job, Outcome, WorkerPool

Room = tuple[str, tuple[tuple[str, str], ...]]

_OPEN_ROOMS = 4  # workers that a slot keeps alive: the one in use and three that it may come back to

SPENT = ("device-lost", "memory", "timeout")
"""Errors after which a process is of no more use, though it lives: work that passed its deadline may still be running."""


def room(language: str, environment: Mapping[str, str]) -> Room:
    return language, tuple(sorted(environment.items()))


@dataclass(frozen=True)
class SlotTask:
    """A job and the room it is done in, all of whose jobs have the same limit of memory (``None``: that of the slots).

    ``turn`` is what it waits for: a device, where others may be timed; ``needs`` how many bytes of the machine's memory it
    waits for, beyond what any process has.  ``by_one``: all tasks of the room are done by one worker, which holds a device that
    no other process can have meanwhile."""

    room: Room
    job: Job
    memory_bytes: int | None = None
    turn: Turn | None = None
    needs: int = 0
    by_one: bool = False


@runtime_checkable
class HasRow(Protocol):
    """What a job gives that is more than a row."""

    @property
    def row(self) -> Row: ...


class Slots:
    """``count`` workers at once over all rooms.

    Args:
        count: how many tasks run at the same time, each with its share of the processors but where it is to be alone.
        memory_bytes: limit on each worker's memory.
    """

    def __init__(self, count: int = 2, memory_bytes: int | None = None) -> None:
        self._count = count
        self._memory_bytes = memory_bytes
        self._changed = threading.Condition()
        self._waiting: dict[Room, deque[SlotTask]] = {}
        self._inside: dict[Room, int] = {}
        self._held: dict[Room, int] = {}
        """Rooms whose tasks are done by one worker, and the slot that has it."""
        self._done: queue.SimpleQueue[tuple[SlotTask, Outcome]] = queue.SimpleQueue()
        self._closing = False
        self._threads: list[threading.Thread] = []

    def run(self, tasks: Iterable[SlotTask], follow: Callable[[SlotTask, Outcome], Iterable[SlotTask]]) -> Iterator[Outcome]:
        """The outcomes as they are reached.  ``follow`` is asked after each for the tasks that come of it."""
        left = self._add(tasks)
        self._start()
        while left:
            task, outcome = self._done.get()
            left += self._add(follow(task, outcome)) - 1
            yield outcome

    def close(self) -> None:
        """Lets the slots go; a task under way is not waited for."""
        with self._changed:
            self._closing = True
            self._waiting.clear()
            self._changed.notify_all()

    def __enter__(self) -> Slots:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None:
            for thread in self._threads:
                thread.join()

    def _add(self, tasks: Iterable[SlotTask]) -> int:
        added = 0
        with self._changed:
            for task in tasks:
                self._waiting.setdefault(task.room, deque()).append(task)
                added += 1
            self._changed.notify_all()
        return added

    def _start(self) -> None:
        while len(self._threads) < self._count:
            # Daemons, so that an interrupt ends the program; the workers die with their thread.
            number = len(self._threads)
            thread = threading.Thread(target=self._serve, args=(number,), name=f"slot-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, number: int) -> None:
        pools: OrderedDict[Room, WorkerPool] = OrderedDict()
        here: Room | None = None
        try:
            while (task := self._next(number, here)) is not None:
                here = task.room
                self._done.put((task, self._perform(pools, task)))
        finally:
            for pool in pools.values():
                pool.close()

    def _perform(self, pools: OrderedDict[Room, WorkerPool], task: SlotTask) -> Outcome:
        pool = pools.pop(task.room, None)
        if pool is None:
            alone = task.turn is not None and task.turn.alone
            environment = {**({} if alone else share(self._count)), **dict(task.room[1])}
            pool = WorkerPool(1, env=environment, memory_bytes=task.memory_bytes or self._memory_bytes)
        pools[task.room] = pool
        while len(pools) > _OPEN_ROOMS:
            room, old = pools.popitem(last=False)
            old.close()
            self._let_go(room)
        try:
            with memory().taken(task.needs), task.turn.taken() if task.turn is not None else nullcontext():
                (outcome,) = pool.run([task.job])
            if _spent(outcome):
                pools.pop(task.room).close()
                self._let_go(task.room)
        except PortakernError as error:
            return Outcome(task.job.id, error=error)
        except Exception as error:  # the thread must live on, or the tasks left would never be answered
            return Outcome(task.job.id, error=WorkerError(f"the worker failed: {type(error).__name__}: {error}"))
        return outcome

    def _next(self, number: int, here: Room | None) -> SlotTask | None:
        """The next task for the slot ``number`` in the room ``here``; waits for one, and gives ``None`` at the end."""
        with self._changed:
            while True:
                if self._closing:
                    return None
                chosen = self._choose(number, here)
                if chosen is not None:
                    self._move(here, chosen)
                    task = self._waiting[chosen].popleft()
                    if task.by_one:
                        self._held[chosen] = number
                    return task
                self._changed.wait()

    def _let_go(self, room: Room) -> None:
        """The worker of a room has ended."""
        with self._changed:
            if self._held.pop(room, None) is not None:
                self._changed.notify_all()

    def _choose(self, number: int, here: Room | None) -> Room | None:
        if here is not None and self._waiting.get(here):
            return here
        ready = [r for r, tasks in self._waiting.items() if tasks and self._held.get(r, number) == number]
        return max(ready, key=lambda r: (not self._inside.get(r), len(self._waiting[r])), default=None)

    def _move(self, here: Room | None, to: Room) -> None:
        if here != to:
            if here is not None:
                self._inside[here] = self._inside.get(here, 1) - 1
            self._inside[to] = self._inside.get(to, 0) + 1


def _spent(outcome: Outcome) -> bool:
    """Whether the job left its process unfit, as its own error or as that of the row it gave."""
    row = outcome.value.row if isinstance(outcome.value, HasRow) else outcome.value
    told = row.error if isinstance(row, Row) else None
    kind = outcome.error.kind if outcome.error is not None else told["kind"] if told is not None else ""
    return kind in SPENT
