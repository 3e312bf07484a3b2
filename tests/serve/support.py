"""A desk whose bench does as it is told, and a server of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from portakern.serve.app import application
from portakern.serve.bench import Bench, Ticket
from portakern.serve.desk import Desk
from portakern.serve.settings import Settings
from portakern.study.row import Row

TASK = {"target": "cpp:cpu", "operator": "softmax", "dtype": "f32", "values": {"M": 8, "N": 33}}


def passed(ticket: Ticket) -> Row:
    return ticket.made.work.row.but(evidence="executed", correct=True, method="as told", max_error_ratio=0.5)


class Told:
    """A bench on which nothing is judged: ``answer`` gives the rows, at once or when :meth:`release` is called."""

    def __init__(self, answer: Callable[[Ticket], Row] = passed, held: bool = False,
                 have: frozenset[str] | None = None) -> None:  # fmt: skip
        self.answer, self.held, self.have = answer, held, have
        self.taken: list[Ticket] = []

    def put(self, tickets: Sequence[Ticket]) -> None:
        self.taken += tickets
        if not self.held:
            self.release()

    def release(self) -> None:
        while self.taken:
            ticket = self.taken.pop(0)
            if ticket.future.set_running_or_notify_cancel():
                ticket.future.set_result(self.answer(ticket))

    def cancel(self, ticket: Ticket) -> None:
        ticket.future.cancel()

    def targets(self) -> frozenset[str] | None:
        return self.have

    def nodes(self) -> dict[str, Any] | None:
        return None

    def close(self) -> None:
        for ticket in self.taken:
            ticket.future.cancel()


@contextmanager
def serving(bench: Bench, settings: Settings | None = None, token: str | None = None, **options: Any) -> Iterator[httpx.Client]:
    """A client of a server on a free port of loopback."""
    desk = Desk(settings or Settings(), bench)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(application(desk, token, **options), log_level="error",
                                               timeout_graceful_shutdown=2))  # fmt: skip
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with httpx.Client(base_url=url, timeout=120.0, headers=headers, trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


def until(found: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.02)
    raise AssertionError("it never came")
