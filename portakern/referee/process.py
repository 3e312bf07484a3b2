"""The kernel's process as the side that judges has it: started, asked, ended."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from portakern.errors import PortakernError
from portakern.referee.messages import TEXT_BYTES, Ended, Garbled, Message, limited, member, receive, send
from portakern.referee.surroundings import devices, private, readable, variables
from portakern.tools.cache import default_directory
from portakern.tools.jail import cgroup
from portakern.tools.jail.enter import PARTS, Spec
from portakern.tools.process import TailReader, descendants, end_process, held, let_go, memory_of, signal_name

MODES = ("require", "auto", "off")
"""Whether a jail must be whole, is made as whole as the machine allows, or is not made."""

OPTIONAL = ("user", "uid")
"""Parts of which one takes the other's place."""

GROUP = "cgroup"
"""The part that is made from outside.  A jail is whole without it: few machines delegate one, and memory is looked at."""

_START = """\
import sys
sys.path[:] = sys.argv[2].split(":")
from portakern.referee.runner import main
main(int(sys.argv[1]))
"""
LOG_CHARACTERS = 16000
_ANSWER_BYTES = 1 << 16
_START_S = 120.0
_MEANWHILE_S = 1e-4
_WEIGH_S = 0.1
"""How often it is looked how much memory it has."""


def spec_for(memory_bytes: int | None, scratch: str) -> Spec:
    return Spec(readable(), private(), (str(default_directory()),), scratch, devices(), memory_bytes)


class Body(Protocol):
    """A process as the system has it."""

    log: TailReader

    @property
    def number(self) -> int:
        """By which the system knows it."""
        ...

    def alive(self) -> bool: ...

    def status(self, limit_s: float) -> int | None:
        """How it ended: exit status, or minus a signal's number; ``None`` where it has not within the limit."""
        ...

    def end(self) -> None:
        """Ends it with all that it started."""
        ...


class Allowance:
    """Seconds that processes may take to answer, all together; what who asks does between does not count."""

    def __init__(self, seconds: float) -> None:
        self.seconds = self.left = seconds


Start = Callable[[socket.socket], Body]
"""Makes a process that serves the other end of a channel."""


class Fresh:
    """A new interpreter; where no ``environment`` is given it has what a kernel finds of ours."""

    def __init__(self, theirs: socket.socket, environment: Mapping[str, str] | None = None) -> None:
        self._process = start(_START, theirs, variables() if environment is None else environment)
        assert self._process.stdout is not None
        self.log = TailReader(self._process.stdout, LOG_CHARACTERS)

    @property
    def number(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def status(self, limit_s: float) -> int | None:
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        end_process(self._process, grace_s=0.0)


def start(program: str, theirs: socket.socket, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """An interpreter that runs ``program`` with the number of the channel and our search path, and inherits nothing else."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(theirs.fileno()), ":".join(p for p in sys.path if p)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(environment),
        pass_fds=(theirs.fileno(),), start_new_session=True)  # fmt: skip


def _judge() -> int:
    """The process with which a kernel's ends however that ends; 0 where this thread, at whose end the system would end it, may
    end before."""
    return os.getpid() if threading.current_thread() is threading.main_thread() else 0


class KernelProcess:
    """One process for one kernel.  Used with ``with``: nothing that it started outlives it.

    Args:
        jail: one of :data:`MODES`.
        memory_bytes: limit on its data.
        doing: what it is asked to do, for the text of errors.
        start: makes it; a new interpreter where not given.
        wait: whether it is waited for until it can be asked; else :meth:`ready` does.

    Attributes:
        allowance: it is ended when that is used up; none where it may take as long as it likes.

    Raises:
        PortakernError: of kind ``no-jail`` where the jail must be whole and is not.
    """

    def __init__(self, jail: str = "auto", memory_bytes: int | None = None, doing: str = "the kernel",
                 start: Start = Fresh, wait: bool = True) -> None:  # fmt: skip
        self.doing, self.jail = doing, jail
        self.allowance: Allowance | None = None
        self._until: float | None = None
        self._asked = 0
        self._held: list[int] = []
        self._most = memory_bytes if jail != "off" else None
        self._given = 0
        self._weighed = 0.0
        self._scratch = tempfile.mkdtemp(prefix="portakern-")
        os.chmod(self._scratch, 0o777)  # for the user that it becomes
        spec = spec_for(memory_bytes, self._scratch) if jail != "off" else None
        ours, theirs = socket.socketpair()
        self._channel = ours
        self.parts: list[str] | None = None
        self.missing: dict[str, str] = {}
        try:
            with theirs:
                self._body = start(theirs)
        except BaseException:
            ours.close()
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        self._group = self._in_group(spec) if spec is not None else None
        try:
            self._channel.settimeout(_START_S)
            with contextlib.suppress(Ended):  # said by what is received, or is not
                told = {"jail": spec, "scratch": self._scratch, "judge": _judge()}
                send(self._channel, {}, [pickle.dumps(told)])
            if wait:
                self.ready()
        except BaseException:
            self.close()
            raise

    def _in_group(self, spec: Spec) -> cgroup.Group | None:
        """It is put there before it is told anything, and all that it will start with it."""
        try:
            group = cgroup.group_in(cgroup.delegated(), spec.memory_bytes, spec.processes)
        except OSError as error:
            self.missing[GROUP] = str(error)
            return None
        try:
            group.take(self._body.number)
        except OSError as error:
            group.end()
            self.missing[GROUP] = f"nothing can be put into a group: {error}"
            return None
        return group

    def ready(self) -> None:
        """Waits until it is in its jail."""
        if self.parts is not None:
            return
        try:
            body = receive(self._channel, _ANSWER_BYTES, 0, until=time.monotonic() + _START_S).body
        except (Ended, TimeoutError) as error:
            raise PortakernError("worker-start", f"the process for {self.doing} did not start: {self._body.log.text()[-600:]}",
                                 hint="see `portakern doctor`") from error
        self._channel.settimeout(None)
        self.parts, self.missing = list(body["parts"]), {**dict(body["missing"]), **self.missing}
        if self._group is not None:
            self.parts.append(GROUP)
        if self.jail == "require" and (lacking := lacks(self.parts)):
            raise PortakernError("no-jail", f"the jail lacks {', '.join(lacking)}: "
                                 + "; ".join(self.missing.get(p, "") for p in lacking), hint="see `portakern doctor`")

    def ask(self, do: str, body: Mapping[str, Any] | None = None, blobs: Sequence[bytes] = (), descriptors: Sequence[int] = (),
            text_bytes: int = _ANSWER_BYTES, blob_bytes: int = 0, meanwhile: Callable[[], None] | None = None
            ) -> Message:  # fmt: skip
        """What it answered; until it does, ``meanwhile`` is called again and again.  Raises what it said went wrong, or how it
        ended, as a :class:`PortakernError`; of kind ``timeout`` where its time was over."""
        self._asked += 1
        allowance = self.allowance
        self._until = time.monotonic() + allowance.left if allowance is not None else None
        try:
            limited(self._channel, self._until)
            send(self._channel, {"id": self._asked, "do": do, **(body or {})}, blobs, descriptors)
            self._given = max(self._given, sum(os.fstat(d).st_size for d in descriptors))
            pause_s = _MEANWHILE_S if meanwhile is not None else _WEIGH_S
            while not select.select([self._channel], [], [], pause_s)[0]:
                limited(self._channel, self._until)
                self._weigh()
                if meanwhile is not None:
                    meanwhile()
            answer = receive(self._channel, text_bytes, blob_bytes, until=self._until)
        except Ended:
            raise self._ended() from None
        except TimeoutError:
            self._body.end()
            seconds = allowance.seconds if allowance is not None else 0.0
            raise PortakernError("timeout", f"{self.doing} did not finish within {seconds:g} s and was ended") from None
        finally:
            if allowance is not None and self._until is not None:
                allowance.left = self._until - time.monotonic()
        if member(answer.body, "id", int) != self._asked:
            raise Garbled("an answer to another question")
        if member(answer.body, "status", str) == "done":
            return answer
        words = [member(answer.body, name, str) for name in ("kind", "message", "hint")]
        kind = words[0] if re.fullmatch("[a-z][a-z-]{0,39}", words[0]) else "exception"
        text = f"{self.doing} {words[1]}" if kind in ("exception", "memory") else words[1]
        raise PortakernError(kind, text, hint=words[2])

    def _weigh(self) -> None:
        """Ends it where it and what it started have more memory than one of them may have: limits of processes count neither
        all of them together nor shared memory."""
        if self._most is None or time.monotonic() - self._weighed < _WEIGH_S:
            return
        self._weighed = time.monotonic()
        if memory_of(self._body.number) > self._most + self._given:
            self._body.end()
            raise self._too_much()

    def _too_much(self) -> PortakernError:
        limit = f"more than {self._most / 1e9:.3g} GB" if self._most is not None else "more memory than there is"
        return PortakernError("memory", f"{self.doing} took {limit} with all that it started",
                              hint="memory_bytes says how much it may have")

    def call(self, function: str, args: tuple[Any, ...], descriptors: Sequence[int] = (),
             meanwhile: Callable[[], None] | None = None) -> Mapping[str, Any]:  # fmt: skip
        """The JSON object that ``"package.module:function"`` gives there, called with ``args`` and the descriptors; nothing in
        it can be relied on."""
        found = self.ask("call", {}, [pickle.dumps((function, args))], descriptors, TEXT_BYTES, meanwhile=meanwhile)
        return member(found.body, "value", dict)

    def alive(self) -> bool:
        return self._body.alive()

    def family(self) -> list[int]:
        """The numbers of it and of all that it started and that lives."""
        return [self._body.number, *descendants(self._body.number)]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """It and all that it started stand still meanwhile, which does not count as its time."""
        begun = time.monotonic()
        self.hold()
        try:
            yield
        finally:
            self.let_go()
            if self._until is not None:
                self._until += time.monotonic() - begun

    def hold(self) -> None:
        """It and all that it started stand still, until :meth:`let_go`."""
        if not self._held:
            self._held = held(self._body.number)

    def let_go(self) -> None:
        let_go(self._held)
        self._held = []

    def _ended(self) -> PortakernError:
        status = self._body.status(5.0)
        if status is None:
            return PortakernError("crash", f"{self.doing} closed its channel")
        if self._group is not None and self._group.ran_out():
            return self._too_much()
        name = signal_name(-status) if status < 0 else ""
        how = f"ended its process by {name}" if name else f"ended its process with exit status {status}"
        hint = "the system may have run out of memory" if name == "SIGKILL" else ""
        return PortakernError("crash", f"{self.doing} {how}", hint=hint)

    @property
    def method(self) -> str:
        """For a row: what kept the kernel in."""
        if not self.parts:
            return "in a process of its own without a jail"
        lacking = [*lacks(self.parts), *([GROUP] if GROUP not in self.parts else [])]
        return "jailed" + (f" but for {', '.join(lacking)}" if lacking else "")

    def close(self) -> None:
        self._channel.close()
        self._body.end()
        if self._group is not None:
            self._group.end()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> KernelProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def lacks(parts: Sequence[str]) -> list[str]:
    """The parts that a jail is not whole without."""
    found = [p for p in PARTS if p not in parts and p not in OPTIONAL]
    return found if any(p in parts for p in OPTIONAL) else [*OPTIONAL[:1], *found]
