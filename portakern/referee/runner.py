"""The inside of the kernel's process: enters the jail, then compiles, loads and calls as it is told.

It is told by pickles, which come from the side that judges and are read before the kernel is there or hold none of its
doing; it answers in JSON.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

from portakern.referee.messages import Ended, Message, receive, send
from portakern.tools.jail import system
from portakern.tools.jail.enter import Entered, Spec, enter
from portakern.tools.worker_main import find_function


def main(descriptor: int) -> NoReturn:
    serve(socket.socket(fileno=descriptor))


def serve(channel: socket.socket, rehearse: Callable[[], None] | None = None) -> NoReturn:
    """Enters the jail, rehearses there, and does as it is told until the other side has gone."""
    os.set_inheritable(channel.fileno(), False)
    setup = pickle.loads(receive(channel).blobs[0])
    if setup["judge"] == os.getppid():
        with contextlib.suppress(OSError):
            system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)  # which reaches also who stands still
    spec: Spec | None = setup["jail"]
    found = enter(spec) if spec is not None else Entered()
    # The jail has a /tmp of its own; where it has not, a folder made for this kernel stands in.
    os.environ.update(environment_in("/tmp" if "mount" in found.parts else setup["scratch"]))
    tempfile.tempdir = None  # which was found before
    faulthandler.enable()
    if rehearse is not None:
        rehearse()
    send(channel, {"parts": found.parts, "missing": found.missing})
    served = Served()
    while True:
        try:
            message = receive(channel, descriptors=1)
        except Ended:
            os._exit(0)
        send(channel, *answer(served, message))
        flush()


def environment_in(folder: str) -> dict[str, str]:
    os.chdir(folder)
    return {"HOME": folder, "TMPDIR": folder, "XDG_CACHE_HOME": f"{folder}/cache", "PORTAKERN_CACHE": f"{folder}/portakern",
            "USER": "kernel", "LOGNAME": "kernel", "PORTAKERN_KERNEL_PROCESS": "1"}  # fmt: skip


def answer(served: Served, message: Message) -> tuple[Mapping[str, Any], tuple[bytes, ...]]:
    from portakern.errors import PortakernError

    number = message.body["id"]
    try:
        body, blobs = getattr(served, message.body["do"])(message)
        return {"id": number, "status": "done", **body}, blobs
    except PortakernError as error:
        return {"id": number, "status": "error", **error.to_dict()}, ()
    except MemoryError:
        return {"id": number, "status": "error", "kind": "memory", "message": "ran out of memory", "hint": ""}, ()
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        return {"id": number, "status": "error", "kind": "exception", "message": f"raised {text}"[:4000], "hint": ""}, ()


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # a kernel may have closed or replaced it
            continue


class Served:
    """What can be asked for, by name."""

    def __init__(self) -> None:
        self.executable: Any = None

    def compile(self, message: Message) -> tuple[dict[str, Any], tuple[bytes, ...]]:
        from portakern.registry import registry

        source = pickle.loads(message.blobs[0])
        toolchain = registry().language(source.target.language).toolchain
        assert toolchain is not None
        binary = toolchain.compile(source)
        body = {"format": binary.format, "tool": binary.tool, "log": binary.log, "machine_code": binary.machine_code,
                "has_assembly": binary.assembly is not None,
                "resources": [{**vars(r), "extra": list(map(list, r.extra))} for r in binary.resources]}  # fmt: skip
        return body, (binary.data, (binary.assembly or "").encode())

    def load(self, message: Message) -> tuple[dict[str, Any], tuple[bytes, ...]]:
        source, binary, runner = pickle.loads(message.blobs[0])
        self.executable = loaded(source, binary, runner)
        return {"guards": bool(self.executable.guards)}, ()

    def call(self, message: Message) -> tuple[dict[str, Any], tuple[bytes, ...]]:
        function, args = pickle.loads(message.blobs[0])
        return {"value": find_function(function)(*args, *message.descriptors)}, ()

    def run(self, message: Message) -> tuple[dict[str, Any], tuple[bytes, ...]]:
        from portakern.backend import SaysMethod
        from portakern.referee.shared import mapped

        (descriptor,) = message.descriptors
        try:
            buffers = mapped(descriptor, message.body["bytes"], message.body["buffers"])
        finally:
            os.close(descriptor)
        if part := message.body["part"]:
            return {"method": self.executable.run_part(part, buffers, message.body["sizes"])[:400]}, ()
        self.executable.run(buffers, message.body["sizes"])
        did = self.executable.method if isinstance(self.executable, SaysMethod) else ""
        return {"method": did}, ()


def loaded(source: Any, binary: Any, runner: str) -> Any:
    from portakern.backend import RunsInPart, Runtime, ShowsParts, Simulator
    from portakern.registry import registry

    language = registry().language(source.target.language)
    machine = registry().machine(source.target) if runner == "machine" else None
    parts: Mapping[str, Callable[[], Runtime | Simulator | None]] = {
        "runtime": lambda: language.runtime, "simulator": lambda: language.simulator,
        "machine": lambda: machine.simulator if machine is not None else None,
    }  # fmt: skip
    part = parts[runner]()
    assert part is not None
    executable = part.load(source, binary)
    if isinstance(part, RunsInPart):
        cast(ShowsParts, executable).watch()
    return executable
