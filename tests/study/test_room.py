"""Memory that tasks ask for before they begin."""

from __future__ import annotations

import threading
import time

import pytest

from portakern.study.turns import Room

pytestmark = pytest.mark.quick


def begun(room: Room, size: int, order: list[int], go: threading.Event) -> threading.Thread:
    def work() -> None:
        with room.taken(size):
            order.append(size)
            go.wait(10)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.05)
    return thread


def test_tasks_wait_until_there_is_room_and_a_large_one_is_not_overtaken():
    room, order, go = Room(100), [], threading.Event()
    threads = [begun(room, size, order, go) for size in (60, 90, 30)]
    assert order == [60], "90 waits for room, and 30 does not go before it"
    with room.taken(0):
        pass  # who needs little does not ask
    go.set()
    for thread in threads:
        thread.join(10)
    assert order == [60, 90, 30]


def test_more_than_there_is_is_taken_alone():
    room, order, go = Room(100), [], threading.Event()
    first = begun(room, 1, order, go)
    second = begun(room, 1000, order, go)
    assert order == [1]
    go.set()
    first.join(10)
    second.join(10)
    assert order == [1, 1000]
