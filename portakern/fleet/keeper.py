"""The process that holds a node: Ray's processes below it, and beside a head the dispatcher.

What dies is started again.  All that it starts stays below it, also where a process between them dies, so that `down` ends the
node by ids and nothing else.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portakern.fleet.places import Folder, NodeFile
from portakern.fleet.processes import Process, alive, descendants, end, process
from portakern.fleet.resources import Node

_PR_SET_CHILD_SUBREAPER = 36
_ROUND_S = 0.25
_STORE_BYTES = 100 << 20
"""Of Ray's object store: rows and texts are small."""

BACKOFF_S = 5.0
SILENT_S = "10"
"""After so many seconds without the head a node's Ray ends, and is started again."""


@dataclass(frozen=True)
class Plan:
    """What a keeper holds.

    Args:
        folder: the fleet's.
        role: ``head`` or ``node``.
        host, port: the head's.
        node: what it offers.
        jail: of kernels.
        token_file: what Ray's own processes know each other by.
    """

    folder: str
    name: str
    role: str
    host: str
    port: int
    node: Node
    jail: str = "auto"
    token_file: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def text(self) -> str:
        data = {**vars(self), "node": {**vars(self.node), "resources": dict(self.node.resources)}}
        return json.dumps(data)

    @staticmethod
    def read(text: str) -> Plan:
        data = json.loads(text)
        return Plan(**{**data, "node": Node(**data["node"])})


def ray_command(plan: Plan, scratch: str) -> list[str]:
    """``ray start`` in the foreground, on the addresses of the plan alone."""
    tool = str(Path(sys.executable).with_name("ray"))
    start = [tool] if os.access(tool, os.X_OK) else [sys.executable, "-m", "ray.scripts.scripts"]
    common = ["start", "--block", "--disable-usage-stats", f"--num-cpus={plan.node.cores}", f"--num-gpus={plan.node.gpus}",
              f"--resources={json.dumps(dict(plan.node.resources))}", f"--object-store-memory={_STORE_BYTES}"]  # fmt: skip
    if plan.role == "head":
        return [*start, *common, "--head", f"--port={plan.port}", f"--node-ip-address={plan.host}", "--include-dashboard=false",
                f"--temp-dir={scratch}"]  # fmt: skip
    return [*start, *common, f"--address={plan.address}"]


def environment(plan: Plan, scratch: str) -> dict[str, str]:
    """Ray's settings, the search path that its workers need to import what this process imports, and a place for what those
    leave that are killed."""
    found = {**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": SILENT_S, "RAY_enable_worker_prestart": "0",
             "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
             "TMPDIR": scratch, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **plan.environment}  # fmt: skip
    if plan.token_file:
        found |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": plan.token_file}
    return found


class Keeper:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.folder = plan, Folder(plan.folder)
        self.me = process(os.getpid())
        self.scratch = ""
        self.starts = 0
        self.ray: subprocess.Popen[bytes] | None = None
        self.dispatcher: subprocess.Popen[bytes] | None = None
        self._noted: tuple[Process, ...] = ()

    def run(self) -> None:
        import tempfile

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGTERM, _leave)
        self.scratch = tempfile.mkdtemp(prefix="pkf-", dir="/tmp")  # short: Ray makes sockets in it
        try:
            while True:
                self._hold()
                self._reap()
                self._note()
                time.sleep(_ROUND_S)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._clear()
            import shutil

            shutil.rmtree(self.scratch, ignore_errors=True)

    def _hold(self) -> None:
        """Starts what is not there, all of it anew where Ray has died."""
        if self.ray is None or self.ray.poll() is not None:
            if self.ray is not None:
                self._log(f"ray ended with {self.ray.returncode}")
                self._clear()
                time.sleep(min(BACKOFF_S, 0.5 * self.starts) if self.plan.role == "node" else 0.5)
            self.ray = self._start(ray_command(self.plan, self.scratch))
            self.starts += 1
        if self.plan.role == "head" and (self.dispatcher is None or self.dispatcher.poll() is not None):
            if self.dispatcher is not None:
                self._log(f"the dispatcher ended with {self.dispatcher.returncode}")
                time.sleep(0.5)
            self.dispatcher = self._start([sys.executable, "-m", "portakern.fleet.dispatcher", self.plan.folder,
                                           self.plan.address, self.plan.jail])  # fmt: skip

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.folder.log(self.plan.name), "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    env=environment(self.plan, self.scratch))  # fmt: skip

    def _clear(self) -> None:
        end(descendants(os.getpid()))
        self._reap()

    def _reap(self) -> None:
        """Those that came here when their parents died."""
        held = {p.pid for p in (self.ray, self.dispatcher) if p is not None}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in held and _is_dead_child(int(entry.name)):
                try:
                    os.waitpid(int(entry.name), os.WNOHANG)
                except ChildProcessError:
                    continue

    def _note(self) -> None:
        assert self.me is not None
        found = tuple(descendants(os.getpid()))
        if found != self._noted:
            self._noted = found
            plan = self.plan
            self.folder.keep(NodeFile(plan.name, plan.role, plan.address, self.me, found, self.starts, plan.node.resources))

    def _log(self, text: str) -> None:
        with open(self.folder.log(self.plan.name), "a") as log:
            log.write(f"portakern: {text}\n")


def _leave(number: int, frame: Any) -> None:
    raise SystemExit(0)


def _is_dead_child(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    state, parent = text[text.rindex(")") + 2 :].split()[:2]
    return state == "Z" and int(parent) == os.getpid()


def start(plan: Plan) -> Process:
    """A keeper of its own session.  It is noted before this returns."""
    folder = Folder(plan.folder)
    folder.path.mkdir(parents=True, exist_ok=True)
    with open(folder.log(plan.name), "ab") as log:
        made = subprocess.Popen([sys.executable, "-m", "portakern.fleet.keeper", plan.text()], stdin=subprocess.DEVNULL,
                                stdout=log, stderr=log, start_new_session=True)  # fmt: skip
    found = process(made.pid)
    assert found is not None
    folder.keep(NodeFile(plan.name, plan.role, plan.address, found, (), 0, plan.node.resources))
    return found


def stop(folder: Folder, node: NodeFile) -> int:
    """Ends a node by the ids that were noted of it, and what is below them; gives how many processes there were."""
    below = {p: None for root in (node.keeper, *node.processes) if alive(root) for p in (root, *descendants(root.pid))}
    count = end([node.keeper], grace_s=15.0) if node.alive else 0
    rest = end(below)
    folder.forget(node.name)
    return max(len(below), count, rest)




if __name__ == "__main__":
    Keeper(Plan.read(sys.argv[1])).run()
