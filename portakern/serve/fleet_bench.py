"""Jobs go to a fleet: into its store, out of which their rows come."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from portakern.errors import PortakernError
from portakern.fleet.fleet import Fleet
from portakern.fleet.resources import COMPILER, SILICON
from portakern.serve.bench import Ticket
from portakern.study.row import without_samples

_ROUND_S = 0.1


class FleetBench:
    """Hands tickets to the fleet of a folder, and looks for their rows.

    A job that is cancelled before a node has it is withdrawn; one that is judged already is judged to its end.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._fleet = Fleet(folder)
        if not self._fleet.status()["up"]:
            raise PortakernError("fleet", f"no fleet is up in {self._fleet.folder.path}",
                                 hint="`portakern fleet up` starts one")
        self._lock = threading.Lock()
        self._open: dict[str, list[Ticket]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="fleet-rows", daemon=True)
        self._thread.start()

    def targets(self) -> frozenset[str]:
        names = (n.removeprefix(COMPILER) for n in self._fleet.has() if not n.startswith(SILICON))
        return frozenset(names)

    def nodes(self) -> dict[str, Any]:
        found = self._fleet.status()
        return {key: found[key] for key in ("up", "nodes", "jobs", "under_way")}

    def put(self, tickets: Sequence[Ticket]) -> None:
        with self._lock:
            for ticket in tickets:
                self._open.setdefault(ticket.job.digest, []).append(ticket)
        self._fleet.submit([t.job for t in tickets])

    def cancel(self, ticket: Ticket) -> None:
        ticket.stopped = True
        self._drop(ticket)
        if not ticket.future.cancel() and not ticket.future.done():
            error = PortakernError("cancelled", "the candidate was cancelled")
            ticket.future.set_result(ticket.made.work.row.failed(error))

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        with self._lock:
            left = [t for tickets in self._open.values() for t in tickets]
        for ticket in left:
            ticket.future.cancel()

    # ---- rows

    def _look(self) -> None:
        while not self._closing.wait(_ROUND_S):
            try:
                self._round()
            except PortakernError:  # a store that is busy
                continue

    def _round(self) -> None:
        with self._lock:
            waiting = {digest: list(tickets) for digest, tickets in self._open.items()}
        for digest, kept in self._fleet.store.kept(list(waiting)).items():
            for ticket in waiting[digest]:
                if kept.begun and ticket.begun is None and not ticket.future.done():
                    ticket.begun = datetime.now(UTC)
                    ticket.future.set_running_or_notify_cancel()
                if kept.row is not None:
                    self._fulfil(ticket, kept.row)
        for ticket in (t for tickets in waiting.values() for t in tickets):
            if time.monotonic() > ticket.until:
                self._fulfil(ticket, ticket.expired())

    def _fulfil(self, ticket: Ticket, row: Any) -> None:
        self._drop(ticket)
        if not ticket.future.done():
            ticket.future.set_result(without_samples(row))

    def _drop(self, ticket: Ticket) -> None:
        """Nobody waits for it any more; it is withdrawn where nobody else does and it has no row."""
        digest = ticket.job.digest
        with self._lock:
            tickets = self._open.get(digest, [])
            if ticket in tickets:
                tickets.remove(ticket)
            last = not tickets and self._open.pop(digest, None) is not None
        if last:
            self._fleet.store.withdraw([digest])
