"""The kernel's process as the side that judges has it: started, asked, ended."""

from __future__ import annotations

import os
import pickle
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from portakern.errors import PortakernError
from portakern.referee.messages import TEXT_BYTES, Ended, Garbled, Message, member, receive, send
from portakern.tools.cache import default_directory
from portakern.tools.jail.enter import PARTS, Spec
from portakern.tools.process import TailReader, end_process, signal_name

MODES = ("require", "auto", "off")
"""Whether a jail must be whole, is made as whole as the machine allows, or is not made."""

OPTIONAL = ("user", "uid")
"""Parts of which one takes the other's place."""

_START = """\
import sys
sys.path[:] = sys.argv[2].split(":")
from portakern.referee.runner import main
main(int(sys.argv[1]))
"""
_LOG_CHARACTERS = 16000
_ANSWER_BYTES = 1 << 16
_START_S = 120.0
_MEANWHILE_S = 1e-4

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix", "/proc", "/sys", "/etc/ld.so.cache",
           "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/OpenCL", "/etc/localtime")  # fmt: skip
"""What programs need of the system to be read."""

_SECRET = re.compile("TOKEN|SECRET|PASSW|CREDENTIAL|_KEY$|COOKIE|^SSH_|^AWS_|^GH_|^GITHUB_|^GIT_|PROXY|^DBUS_|^XDG_|^PYTEST",
                     re.IGNORECASE)  # fmt: skip


def readable() -> tuple[str, ...]:
    """What a runner must read: the system, the interpreter, portakern, and what it imports."""
    search = [p for p in sys.path if p]
    root = Path(__file__).parents[1]
    packages = [str(root)]
    if (plugins := find_spec("portakern.backends")) is not None:
        packages += plugins.submodule_search_locations or ()
    tools = [p for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    found = [*search, *packages, *map(os.path.realpath, packages), sys.prefix, sys.base_prefix,
             os.path.realpath(sys.executable), *tools, *map(os.path.realpath, tools)]  # fmt: skip
    private = _private()
    return (*_SYSTEM, *(p for p in dict.fromkeys(map(os.path.abspath, found)) if p not in ("/", *private)))


def _private() -> tuple[str, ...]:
    folders = ["/tmp", "/var/tmp", "/dev/shm", "/run", tempfile.gettempdir(), str(Path.home())]
    return tuple(dict.fromkeys(os.path.realpath(f) for f in folders if os.path.realpath(f) != "/"))


def spec_for(memory_bytes: int | None, scratch: str) -> Spec:
    return Spec(readable(), _private(), (str(default_directory()),), scratch, memory_bytes)


class KernelProcess:
    """One process for one kernel.  Used with ``with``: nothing that it started outlives it.

    Args:
        jail: one of :data:`MODES`.
        memory_bytes: limit on its data.
        doing: what it is asked to do, for the text of errors.

    Raises:
        PortakernError: of kind ``no-jail`` where the jail must be whole and is not.
    """

    def __init__(self, jail: str = "auto", memory_bytes: int | None = None, doing: str = "the kernel") -> None:
        self.doing = doing
        self._asked = 0
        self._scratch = tempfile.mkdtemp(prefix="portakern-")
        os.chmod(self._scratch, 0o777)  # for the user that it becomes
        spec = spec_for(memory_bytes, self._scratch) if jail != "off" else None
        ours, theirs = socket.socketpair()
        self._channel = ours
        environment = {k: v for k, v in os.environ.items() if not _SECRET.search(k)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno()), ":".join(p for p in sys.path if p)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                pass_fds=(theirs.fileno(),), start_new_session=True)  # fmt: skip
        assert self._process.stdout is not None
        self._log = TailReader(self._process.stdout, _LOG_CHARACTERS)
        try:
            self.parts, self.missing = self._start(spec)
            if jail == "require" and (lacking := lacks(self.parts)):
                raise PortakernError("no-jail", f"the jail lacks {', '.join(lacking)}: "
                                     + "; ".join(self.missing.get(p, "") for p in lacking), hint="see `portakern doctor`")
        except BaseException:
            self.close()
            raise

    def _start(self, spec: Spec | None) -> tuple[list[str], dict[str, str]]:
        self._channel.settimeout(_START_S)
        try:
            send(self._channel, {}, [pickle.dumps({"jail": spec, "scratch": self._scratch})])
            body = receive(self._channel, _ANSWER_BYTES, 0).body
        except (Ended, TimeoutError) as error:
            raise PortakernError("worker-start", f"the process for {self.doing} did not start: {self._log.text()[-600:]}",
                                 hint="see `portakern doctor`") from error
        self._channel.settimeout(None)
        return list(body["parts"]), dict(body["missing"])

    def ask(self, do: str, body: Mapping[str, Any] | None = None, blobs: Sequence[bytes] = (), descriptors: Sequence[int] = (),
            text_bytes: int = _ANSWER_BYTES, blob_bytes: int = 0, meanwhile: Callable[[], None] | None = None
            ) -> Message:  # fmt: skip
        """What it answered; until it does, ``meanwhile`` is called again and again.  Raises what it said went wrong, or how it
        ended, as a :class:`PortakernError`."""
        self._asked += 1
        try:
            send(self._channel, {"id": self._asked, "do": do, **(body or {})}, blobs, descriptors)
            while meanwhile is not None and not select.select([self._channel], [], [], _MEANWHILE_S)[0]:
                meanwhile()
            answer = receive(self._channel, text_bytes, blob_bytes)
        except Ended:
            raise self._ended() from None
        if member(answer.body, "id", int) != self._asked:
            raise Garbled("an answer to another question")
        if member(answer.body, "status", str) == "done":
            return answer
        words = [member(answer.body, name, str) for name in ("kind", "message", "hint")]
        kind = words[0] if re.fullmatch("[a-z][a-z-]{0,39}", words[0]) else "exception"
        text = f"{self.doing} {words[1]}" if kind in ("exception", "memory") else words[1]
        raise PortakernError(kind, text, hint=words[2])

    def call(self, function: str, args: tuple[Any, ...], descriptors: Sequence[int] = (),
             meanwhile: Callable[[], None] | None = None) -> Mapping[str, Any]:  # fmt: skip
        """The JSON object that ``"package.module:function"`` gives there, called with ``args`` and the descriptors; nothing in
        it can be relied on."""
        found = self.ask("call", {}, [pickle.dumps((function, args))], descriptors, TEXT_BYTES, meanwhile=meanwhile)
        return member(found.body, "value", dict)

    def alive(self) -> bool:
        return self._process.poll() is None

    def _ended(self) -> PortakernError:
        try:
            status = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return PortakernError("crash", f"{self.doing} closed its channel")
        name = signal_name(-status) if status < 0 else ""
        how = f"ended its process by {name}" if name else f"ended its process with exit status {status}"
        hint = "the system may have run out of memory" if name == "SIGKILL" else ""
        return PortakernError("crash", f"{self.doing} {how}", hint=hint)

    @property
    def method(self) -> str:
        """For a row: what kept the kernel in."""
        if not self.parts:
            return "in a process of its own without a jail"
        lacking = lacks(self.parts)
        return "jailed" + (f" but for {', '.join(lacking)}" if lacking else "")

    def close(self) -> None:
        self._channel.close()
        end_process(self._process, grace_s=0.0)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> KernelProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def lacks(parts: Sequence[str]) -> list[str]:
    """The parts that a jail is not whole without."""
    found = [p for p in PARTS if p not in parts and p not in OPTIONAL]
    return found if any(p in parts for p in OPTIONAL) else [*OPTIONAL[:1], *found]
