"""The side of whoever asks a fleet: jobs in, rows out."""

from __future__ import annotations

import os
import platform
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError, ToolMissing, UsageError
from portakern.fleet import keeper
from portakern.fleet.dispatcher import nobody, recent
from portakern.fleet.keeper import Plan
from portakern.fleet.places import Folder, NodeFile, fresh
from portakern.fleet.resources import Node, needs
from portakern.jobs.job import Job
from portakern.jobs.store import JobStore
from portakern.jobs.tokens import token_of
from portakern.study.row import Row

PORT = 6400
START_S = 120.0
_POLL_S = 0.1


class Fleet:
    """A fleet by the folder of its head: what :func:`up` was given, or the default.

    Used on the machine of the head; from elsewhere it is asked through `portakern serve --fleet`.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Folder(folder)
        self.store = JobStore(self.folder.store)

    def submit(self, jobs: Iterable[Job]) -> tuple[str, ...]:
        """Keeps jobs and gives their digests; what has a row, or is asked for already, is not judged again."""
        given = list(jobs)
        self.store.ask(given)
        have = self.has()
        for job in given:
            if have and needs(job, have) is None:  # nobody waits for what will never be
                self.store.tell(job.digest, nobody(job, have), "", 0.0)
        return tuple(job.digest for job in given)

    def rows(self, digests: Iterable[str], timeout_s: float | None = None) -> Iterator[tuple[str, Row]]:
        """(digest, row) as they are found.  Raises :class:`TimeoutError`."""
        left = dict.fromkeys(digests)
        until = time.monotonic() + timeout_s if timeout_s is not None else None
        while left:
            for digest, kept in self.store.kept(list(left)).items():
                if kept.row is not None:
                    del left[digest]
                    yield digest, kept.row
            if left:
                if until is not None and time.monotonic() > until:
                    raise TimeoutError(f"{len(left)} jobs have no row yet")
                time.sleep(_POLL_S)

    def has(self) -> dict[str, float]:
        """One of each resource that its nodes have, or had a short while ago; none where it has not said so yet."""
        return recent(self.folder.state().get("seen") or {})

    def status(self) -> dict[str, Any]:
        """``up``, ``nodes``, ``jobs``, and what was started ``here``."""
        state = self.folder.state()
        here = [{"name": n.name, "role": n.role, "address": n.address, "alive": n.alive, "starts": n.starts,
                 "processes": len(n.processes)} for n in self.folder.nodes()]  # fmt: skip
        return {"folder": str(self.folder.path), "up": fresh(state), "nodes": state.get("nodes", []) if fresh(state) else [],
                "resources": state.get("resources", {}) if fresh(state) else {}, "under_way": state.get("under_way", 0),
                "jobs": self.store.counts(), "here": here}  # fmt: skip


# ---- starting and ending nodes ---------------------------------------------------------------------------------------------


def need_ray() -> None:
    """Raises :class:`ToolMissing` where Ray is not installed; it is not imported."""
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise ToolMissing("a fleet needs ray", hint="pip install 'portakern[fleet]'")


def up(node: Node, folder: str | Path | None = None, host: str = "127.0.0.1", port: int = PORT, jail: str = "auto",
       token_file: str | None = None, name: str = "head") -> NodeFile:  # fmt: skip
    """Starts a fleet's head here, which is its first node, and waits until it answers.  A token is made where none is given:
    whoever reaches Ray's ports, which are not on loopback alone, could run anything.  Raises :class:`PortakernError`."""
    need_ray()
    place = Folder(folder)
    if (running := next((n for n in place.nodes() if n.role == "head" and n.alive), None)) is not None:
        raise UsageError(f"a fleet is up at {running.address}",
                         hint="`portakern fleet down` ends it; --dir gives another fleet its folder")
    for left in list(place.nodes()):  # of a keeper that was killed
        if not left.alive:
            keeper.stop(place, left)
    port = port or _free_port(host)
    place.whole.unlink(missing_ok=True)
    if token_file is None and not place.token.exists():
        _make_token(place.token)
    plan = Plan(str(place.path), name, "head", host, port, node, jail, _token(place, token_file))
    return _started(place, plan, lambda: fresh(place.state()))


def join(address: str, node: Node, folder: str | Path | None = None, jail: str = "auto", token_file: str | None = None,
         name: str = "") -> NodeFile:  # fmt: skip
    """Starts a node here that belongs to the head at ``address``, and waits until it runs.  Raises :class:`PortakernError`."""
    need_ray()
    place = Folder(folder)
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"{address!r} is no address of a head",
                         hint="an address looks like 10.0.0.7:6400; `portakern fleet up` prints it")
    taken = {n.name for n in place.nodes()}
    name = name or next(n for n in (f"{platform.node()}-{k}" for k in range(1, 10_000)) if n not in taken)
    if name in taken:
        raise UsageError(f"a node {name!r} runs on this machine already", hint="--name gives another name")
    try:
        with socket.create_connection((host, int(port)), timeout=10.0):
            pass
    except OSError as error:
        raise PortakernError("fleet", f"nothing answers at {address}: {error}",
                             hint="is the head up, and reachable from here?") from error
    if token_file is None and not place.token.exists():
        raise UsageError(f"there is no token for the fleet at {address}",
                         hint=f"copy the head's token (in its folder): --token-file FILE, or put the copy at {place.token}")
    plan = Plan(str(place.path), name, "node", host, int(port), node, jail, _token(place, token_file))
    return _started(place, plan, lambda: "Ray runtime started" in place.log(name).read_text(errors="replace"))


def down(folder: str | Path | None = None, name: str = "") -> dict[str, int]:
    """Ends the nodes that were started from here, or one of them, by the ids of their processes: how many each had."""
    place = Folder(folder)
    found = sorted((n for n in place.nodes() if name in ("", n.name)), key=lambda n: n.role == "head")
    if name and not found:
        raise UsageError(f"no node {name!r} was started on this machine", hint="`portakern fleet status` names them")
    ended = {n.name: keeper.stop(place, n) for n in found}
    if any(n.role == "head" for n in found):
        place.whole.unlink(missing_ok=True)
    return ended


def _started(place: Folder, plan: Plan, ready: Any) -> NodeFile:
    place.path.mkdir(parents=True, exist_ok=True)
    place.log(plan.name).unlink(missing_ok=True)
    keeper.start(plan)
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        node = next((n for n in place.nodes() if n.name == plan.name), None)
        if node is None or not node.alive:
            break
        if ready():
            return node
        time.sleep(_POLL_S)
    said = place.log(plan.name).read_text(errors="replace")[-1500:]
    down(place.path, plan.name)
    raise PortakernError("fleet", f"the node {plan.name} did not start: {said}", hint=f"see {place.log(plan.name)}")


def _token(place: Folder, given: str | None) -> str:
    """The path of the file, which must be as a server's is."""
    path = str(Path(given).expanduser().resolve() if given else place.token.resolve())
    token_of(path, "127.0.0.1")
    return path


def _make_token(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(secrets.token_hex())


def _free_port(host: str) -> int:
    with socket.socket() as found:
        found.bind((host, 0))
        return found.getsockname()[1]


