"""Processes for kernels of one language, forked of a zygote: milliseconds each, where a new interpreter would take seconds.

A process holds one kernel and is ended with it.  The next one is made while this one is used, so that it has entered its jail,
and where need be rehearsed, by the time it is asked for.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType

from portakern.errors import PortakernError
from portakern.referee.messages import Ended, receive, send
from portakern.referee.process import LOG_CHARACTERS, Fresh, KernelProcess, Start, lacks, start
from portakern.referee.surroundings import variables
from portakern.referee.zygote import Rehearsals
from portakern.tools.process import TailReader, await_end, descendants, end_process, kill
from portakern.tools.processors import processors

_ZYGOTE = """\
import sys
sys.path[:] = sys.argv[2].split(":")
from portakern.referee.zygote import main
main(int(sys.argv[1]))
"""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Importing numpy starts threads otherwise."""

_START_S = 180.0
_ANSWER_S = 30.0
_POLL_S = 0.002
_MOST_SPARES, _SOON_S = 4, 0.05


class Nursery:
    """Makes kernel processes with one environment.  Used from one thread.

    Args:
        language: of the kernels.
        environment: variables added to those that kernels find of ours.
        preload: modules that a zygote imports.
        rehearsals: what is done once before there is a kernel.
        jail, memory_bytes: as for :class:`KernelProcess`.
        spares: how many processes are kept ready at first.
        most: how many at most; there is one more wherever a kernel had to wait for its process (a fourth of the processors).

    Attributes:
        refused: why processes are new interpreters instead; empty where they are forked.
    """

    def __init__(self, language: str, environment: Mapping[str, str], preload: Sequence[str], rehearsals: Rehearsals,
                 jail: str = "auto", memory_bytes: int | None = None, spares: int = 1, most: int | None = None,
                 ) -> None:  # fmt: skip
        self._setup = pickle.dumps((language, tuple(preload), rehearsals))
        self._environment = variables({**environment, **_ONE_THREAD})
        self._jail, self._memory_bytes, self._spares = jail, memory_bytes, spares
        self._most = max(spares, min(_MOST_SPARES, processors() // 4)) if most is None else most
        self._zygote: Zygote | None = None
        self._ready: deque[KernelProcess] = deque()
        self.refused = "" if jail != "off" else "there is no jail that would keep a kernel from the zygote"

    def take(self, doing: str) -> KernelProcess:
        """One that has held no kernel, and is ended by who takes it."""
        while not self.refused:
            found = self._ready.popleft() if self._ready else self._made()
            if found is None:
                break
            asked = time.monotonic()
            try:
                found.ready()
            except PortakernError:
                found.close()
                if self._zygote is None or self._zygote.alive():
                    raise
                self._end_zygote()
                continue
            if lacking := lacks(found.parts or ()):
                found.close()
                self.close()
                self.refused = f"without {', '.join(lacking)} a kernel could reach the zygote"
                break
            if time.monotonic() - asked > _SOON_S:  # those to come are made side by side
                self._spares = min(self._spares + 1, self._most)
            found.doing = doing
            return found
        return KernelProcess(self._jail, self._memory_bytes, doing, self._fresh)

    def prepare(self) -> None:
        """Makes the spares that are missing, without waiting for them."""
        while not self.refused and len(self._ready) < self._spares and (made := self._made()) is not None:
            self._ready.append(made)

    def settle(self) -> None:
        """Waits for the spares."""
        for spare in self._ready:
            with contextlib.suppress(PortakernError):  # said to who takes it
                spare.ready()

    def close(self) -> None:
        while self._ready:
            self._ready.popleft().close()
        self._end_zygote()

    def _end_zygote(self) -> None:
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def _made(self) -> KernelProcess | None:
        """A process that is on its way; ``None`` where no zygote may be used."""
        if self._zygote is not None and not self._zygote.alive():
            self.close()
        if self._zygote is None:
            self._zygote = Zygote(self._environment, self._setup)
        if self._zygote.unclean:
            self.refused = f"its zygote would share {', '.join(self._zygote.unclean)[:400]}"
            self._end_zygote()
            return None
        return KernelProcess(self._jail, self._memory_bytes, start=self._zygote.fork, wait=False)

    @property
    def _fresh(self) -> Start:
        return lambda theirs: Fresh(theirs, self._environment)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Zygote:
    """The process that is forked, as the side that judges has it."""

    def __init__(self, environment: Mapping[str, str], setup: bytes) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = start(_ZYGOTE, theirs, environment)
        assert self._process.stdout is not None
        self._log = TailReader(self._process.stdout, LOG_CHARACTERS)
        try:
            send(self._control, {}, [setup])
            self.unclean: list[str] = receive(self._control, until=time.monotonic() + _START_S).body["unclean"]
        except (Ended, TimeoutError) as error:
            self.close()
            said = self._log.text()[-600:]
            raise PortakernError("worker-start", f"the process that kernels are forked of did not start: {said}",
                                 hint="see `portakern doctor`") from error

    def fork(self, theirs: socket.socket) -> Forked:
        read, write = os.pipe()
        try:
            pid = self.ask("fork", descriptors=(theirs.fileno(), write))["pid"]
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        return Forked(self, pid, TailReader(os.fdopen(read, "rb", buffering=0), LOG_CHARACTERS))

    def ask(self, do: str, descriptors: Sequence[int] = (), **body: int) -> dict[str, int]:
        """Raises :class:`PortakernError` where it is gone."""
        try:
            with self._lock:
                self._control.settimeout(_ANSWER_S)
                send(self._control, {"do": do, **body}, descriptors=descriptors)
                return dict(receive(self._control, until=time.monotonic() + _ANSWER_S).body)
        except (Ended, OSError) as error:
            raise PortakernError("worker-start", "the process that kernels are forked of has ended") from error

    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        end_process(self._process, grace_s=0.0)


class Forked:
    """A child of the zygote."""

    def __init__(self, zygote: Zygote, pid: int, log: TailReader) -> None:
        self._zygote, self._pid, self.log = zygote, pid, log
        self._status: int | None = None

    @property
    def number(self) -> int:
        return self._pid

    def alive(self) -> bool:
        if self._status is not None:
            return False
        try:
            return not self._zygote.ask("poll", pid=self._pid)["ended"]
        except PortakernError:
            return False

    def status(self, limit_s: float) -> int | None:
        until = time.monotonic() + limit_s
        while self._status is None and self.alive():
            if time.monotonic() > until:
                return None
            time.sleep(_POLL_S)
        return self._collected()

    def end(self) -> None:
        """Its family is looked up first: once their parent is gone, they cannot be found any more.  Nobody else may get its
        number before it is collected."""
        if self._status is None:
            family = descendants(self._pid)
            kill([self._pid, *family])
            self._collected()
            await_end(family)

    def _collected(self) -> int:
        if self._status is None:
            try:
                self._status = self._zygote.ask("reap", pid=self._pid)["status"]
            except PortakernError:
                self._status = -9  # with its zygote
        return self._status
