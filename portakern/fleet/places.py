"""Where a fleet keeps what it knows: a folder with a file for each node that was started here, and one of the whole."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from portakern.fleet.processes import Process, alive
from portakern.study.store import default_file


def default_folder() -> Path:
    """``PORTAKERN_FLEET``, or beside the user's store."""
    named = os.environ.get("PORTAKERN_FLEET")
    return Path(named).expanduser() if named else default_file().parent / "fleet"


@dataclass(frozen=True)
class NodeFile:
    """A node that was started from here.

    Args:
        role: ``head`` or ``node``.
        keeper: the process that holds it; ``processes`` are those below it when they were last counted.
        address: the head's.
    """

    name: str
    role: str
    address: str
    keeper: Process
    processes: tuple[Process, ...] = ()
    starts: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        return alive(self.keeper)


class Folder:
    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path).expanduser() if path else default_folder()

    @property
    def store(self) -> Path:
        """Jobs and rows."""
        return self.path / "jobs.sqlite"

    @property
    def whole(self) -> Path:
        return self.path / "fleet.json"

    @property
    def token(self) -> Path:
        """What the nodes know each other by."""
        return self.path / "token"

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def nodes(self) -> Iterator[NodeFile]:
        for file in sorted(self.path.glob("node-*.json")):
            if (data := read(file)) is not None:
                yield NodeFile(data["name"], data["role"], data["address"], Process(*data["keeper"]),
                               tuple(Process(*p) for p in data["processes"]), data["starts"], data["resources"])  # fmt: skip

    def keep(self, node: NodeFile) -> None:
        write(self.path / f"node-{node.name}.json", asdict(node))

    def forget(self, name: str) -> None:
        (self.path / f"node-{name}.json").unlink(missing_ok=True)

    def state(self) -> Mapping[str, Any]:
        """What the dispatcher wrote last: ``nodes``, ``resources``, ``seen`` by target, and ``at``, when."""
        return read(self.whole) or {}


def fresh(state: Mapping[str, Any], seconds: float = 30.0) -> bool:
    return time.time() - state.get("at", 0.0) < seconds


def read(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def write(file: Path, data: Any) -> None:
    """In one step: who reads meanwhile finds the old text or the new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_text(json.dumps(data))
    os.replace(beside, file)
