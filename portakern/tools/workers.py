"""Worker processes that run Python functions and survive what those do: a crash or a hang is a result.

    with WorkerPool(2, env={"OMP_WAIT_POLICY": "passive"}, preload=("numpy",)) as pool:
        jobs = [Job(row, "package.module:check", (row,), timeout_s=60) for row in rows]
        for outcome in pool.run(jobs):
            print(outcome.id, outcome.error or outcome.value)

A worker is a fresh interpreter, never a fork of this process, and serves many jobs. It is replaced when it dies.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import selectors
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from portakern.errors import PortakernError, WorkerError
from portakern.tools.process import end_process, merged_environment, signal_name
from portakern.tools.worker_main import LENGTH

_START = """\
import os, sys
from importlib.util import module_from_spec, spec_from_file_location
sys.path[:] = sys.argv[4].split(os.pathsep)
spec = spec_from_file_location("portakern", sys.argv[5])
sys.modules["portakern"] = module = module_from_spec(spec)
spec.loader.exec_module(module)
from portakern.tools.worker_main import main
main(*map(int, sys.argv[1:4]))
"""
"""Finds portakern by its file: a jail may keep the folder that it lies in from being listed, by which packages are found."""

_OURS = str(Path(__file__).parents[1] / "__init__.py")
_START_TIMEOUT_S = 180.0
_LOG_TAIL_BYTES = 8000
_READ_BYTES = 1 << 20


class WorkerFault(WorkerError):
    """A job failed for a reason of its own or took its worker with it.

    ``kind`` is ``exception`` (it raised), ``crash`` (the process died), ``timeout``, ``memory`` or ``worker-start``.

    Args:
        signal: name of the signal that ended the worker, e.g. ``"SIGSEGV"``; empty if there was none.
        log: the traceback, or the tail of what the worker printed.
    """

    def __init__(
        self, message: str, hint: str = "", where: str = "", *, kind: str = "", signal: str = "", log: str = ""
    ) -> None:
        super().__init__(message, hint, where, kind=kind)
        self.signal = signal
        self.log = log

    @property
    def what(self) -> str:
        """The message without the name of our own function, with which it begins."""
        return self.message.partition(" ")[2]


LATE = ("a limit is wall time, and a busy machine takes longer: try again when less else runs there, or allow more time where "
        "the command has a limit (`portakern suite run --limit`)")  # fmt: skip
"""What to do about a job that ran out of time."""

QUIET: Mapping[str, str] = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
"""For every worker that the user's environment does not say otherwise: threads of OpenMP do not spin when they are idle.  Those
of two runtimes in one process (a peer's and a kernel's) take each other's cores for milliseconds otherwise."""


@dataclass(frozen=True, slots=True)
class Job:
    """One call to make in a worker.

    Args:
        id: comes back with the outcome.
        function: ``"package.module:name"``, imported in the worker.
        args, kwargs: what can be pickled.
        timeout_s: wall time after which the worker is ended.
    """

    id: Hashable
    function: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: a ``value``, or an ``error`` (the PortakernError it raised, or a :class:`WorkerFault`).

    ``log`` is the tail of what was printed during the job; ``seconds`` is wall time.
    """

    id: Hashable
    value: Any = None
    error: PortakernError | None = None
    seconds: float = 0.0
    log: str = ""

    def unwrap(self) -> Any:
        """The value, or raises the error."""
        if self.error is not None:
            raise self.error
        return self.value


class WorkerPool:
    """A number of worker processes with one environment.

    Used from one thread. Workers start when there is work for them and end with the pool or with this process.

    Args:
        workers: how many run at once.
        env: added to this process's environment; None removes a variable.
        preload: modules imported before the first job, so that its deadline does not pay for them.
        memory_bytes: limit on each worker's data (anonymous memory that it may write), imports included.
        start_timeout_s: time for the interpreter to start and import ``preload``.
    """

    def __init__(
        self,
        workers: int = 1,
        *,
        env: Mapping[str, str | None] | None = None,
        preload: Sequence[str] = (),
        memory_bytes: int | None = None,
        start_timeout_s: float = _START_TIMEOUT_S,
    ) -> None:
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, not {workers}")
        self._size = workers
        self._env = {**_quiet(), **(env or {})}
        self._preload = tuple(preload)
        self._memory_bytes = memory_bytes
        self._start_timeout_s = start_timeout_s
        self._workers: list[_Worker] = []
        # Not __del__, which may come when the interpreter has taken the modules apart that it needs.
        self._ended = weakref.finalize(self, _end_from, os.getpid(), self._workers)

    def call(self, function: str, *args: Any, timeout_s: float = 120.0, **kwargs: Any) -> Any:
        """Runs one function and returns its value.

        Raises:
            PortakernError: the one the function raised, or a WorkerFault.
        """
        (outcome,) = self.run([Job(None, function, args, kwargs, timeout_s)])
        return outcome.unwrap()

    def run(self, jobs: Iterable[Job]) -> Generator[Outcome, None, None]:
        """Runs the jobs on the workers; outcomes come as they are reached, so not in order.

        Leaving the iteration early ends the jobs under way. If a worker cannot start, the jobs that are left fail for
        the same reason at once.
        """
        waiting = iter(jobs)
        start_fault: WorkerFault | None = None
        try:
            while True:
                if start_fault is None:
                    self._hand_out(waiting)
                busy = [worker for worker in self._workers if worker.job is not None]
                if not busy:
                    break
                for outcome in self._collect(busy):
                    if isinstance(outcome.error, WorkerFault) and outcome.error.kind == "worker-start":
                        start_fault = outcome.error
                    yield outcome
            for job in waiting:
                yield Outcome(job.id, error=start_fault)
        finally:
            for worker in self._workers:
                if worker.job is not None:
                    worker.end()
            self._forget_dead()

    def close(self) -> None:
        """Ends the workers."""
        _end(self._workers)

    def interrupt(self) -> None:
        """From another thread: what runs ends as a crash."""
        for worker in list(self._workers):
            worker.interrupt()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hand_out(self, waiting: Iterator[Job]) -> None:
        """Gives jobs to the workers that have none."""
        while (worker := self._free_worker()) is not None:
            job = next(waiting, None)
            if job is None:
                return
            worker.assign(job)

    def _free_worker(self) -> _Worker | None:
        for worker in self._workers:
            if worker.job is None and not worker.is_alive():
                worker.end()
        self._forget_dead()
        for worker in self._workers:
            if worker.job is None:
                return worker
        if len(self._workers) == self._size:
            return None
        worker = _Worker(self._env, self._preload, self._memory_bytes, self._start_timeout_s)
        self._workers.append(worker)
        return worker

    def _forget_dead(self) -> None:
        self._workers[:] = [worker for worker in self._workers if not worker.ended]

    def _collect(self, busy: list[_Worker]) -> list[Outcome]:
        """Waits until at least one of the workers has news; the outcomes that are there then."""
        with selectors.DefaultSelector() as selector:
            for worker in busy:
                selector.register(worker.responses, selectors.EVENT_READ, worker)
            earliest = min(worker.deadline for worker in busy)
            ready = selector.select(max(earliest - time.monotonic(), 0.0))
        outcomes = [key.data.receive() for key, _ in ready]
        late = [worker for worker in busy if worker.job is not None and worker.deadline <= time.monotonic()]
        outcomes += [worker.give_up() for worker in late]
        return [outcome for outcome in outcomes if outcome is not None]


def _end_from(process: int, workers: list[_Worker]) -> None:
    """In a fork of the process that started them nothing ends."""
    if os.getpid() == process:
        _end(workers)


def _end(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.end()
    workers.clear()


class _Worker:
    """One process and the job it has. It accepts a job at once; a starting process gets it when it is ready."""

    def __init__(
        self,
        env: Mapping[str, str | None],
        preload: tuple[str, ...],
        memory_bytes: int | None,
        start_timeout_s: float,
    ) -> None:
        self.job: Job | None = None
        self.deadline = float("inf")
        self.ended = False
        self._ready = False
        self._start_timeout_s = start_timeout_s
        self._started = 0.0
        self._memory_bytes = memory_bytes
        self._received = bytearray()
        begun, change = _begun_for(env)
        self._log, self._process, self._requests, self.responses = begun
        self._write(pickle.dumps({"preload": preload, "memory_bytes": memory_bytes, "environment": change}))

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def assign(self, job: Job) -> None:
        self.job = job
        self._started = time.monotonic()
        if self._ready:
            self._submit(job)
        else:
            self.deadline = self._started + self._start_timeout_s

    def receive(self) -> Outcome | None:
        """Takes in what has arrived; the job's outcome if that completes it."""
        chunk = b""
        with contextlib.suppress(OSError):
            chunk = os.read(self.responses, _READ_BYTES)
        if not chunk:
            return self._finish(self._died())
        self._received += chunk
        if len(self._received) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._received)
        if len(self._received) < LENGTH.size + length:
            return None
        status, body = pickle.loads(memoryview(self._received)[LENGTH.size : LENGTH.size + length])
        self._received.clear()
        return self._handle(status, body)

    def give_up(self) -> Outcome:
        """Ends a worker that ran out of time."""
        assert self.job is not None
        self.end()
        if not self._ready:
            fault = self._fault("worker-start", f"did not start within {self._start_timeout_s:g} s")
        else:
            fault = self._fault("timeout", f"did not finish within {self.job.timeout_s:g} s and was ended")
        return self._finish(fault)

    def interrupt(self) -> None:
        if self.job is not None:
            self._process.kill()

    def end(self) -> None:
        """Ends the process and everything it started."""
        if self.ended:
            return
        self.ended = True
        # An idle worker has nothing to say; a busy one prints its stack when asked to end.
        end_process(self._process, grace_s=0.2 if self.job is not None else 0.0)
        os.close(self._requests)
        os.close(self.responses)

    def _handle(self, status: str, body: Any) -> Outcome | None:
        if status == "ready":
            self._ready = True
            if self.job is not None:
                self._started = time.monotonic()
                self._submit(self.job)
            return None
        if not self._ready:
            text, trace = body if isinstance(body, tuple) else (str(pickle.loads(body)), "")
            self.end()
            return self._finish(self._fault("worker-start", f"failed to start: {text}", log=trace))
        if status in ("value", "error"):
            try:
                result = pickle.loads(body)
            except Exception as error:
                return self._finish(self._fault("exception", f"gave a result that cannot be read here: {error!r}"))
            return self._finish(result) if status == "error" else self._finish(None, result)
        text, trace = body
        return self._finish(self._fault(status, f"raised {text}", log=trace))

    def _submit(self, job: Job) -> None:
        self.deadline = time.monotonic() + job.timeout_s
        self._write(pickle.dumps((job.function, job.args, dict(job.kwargs)), protocol=pickle.HIGHEST_PROTOCOL))

    def _write(self, body: bytes) -> None:
        _written(self._requests, body)

    def _died(self) -> WorkerFault:
        """The fault of a process that closed its pipe, which is then ended for certain."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self.end()
        status = self._process.returncode
        name = signal_name(-status) if status < 0 else ""
        how = f"by {name}" if name else f"with exit status {status}"
        kind = "crash" if self._ready else "worker-start"
        hint = ""
        if name == "SIGKILL":
            hint = "the system may have run out of memory"
        elif self._memory_bytes is not None:
            hint = f"it may have met its memory limit of {self._memory_bytes >> 20} MiB"
        return self._fault(kind, f"took its process down {how}", hint=hint, signal=name)

    def _fault(self, kind: str, what: str, *, hint: str = "", signal: str = "", log: str = "") -> WorkerFault:
        function = self.job.function if self.job is not None else "the worker"
        return WorkerFault(f"{function} {what}", hint, kind=kind, signal=signal, log=log or self._printed())

    def _finish(self, error: PortakernError | None, value: Any = None) -> Outcome:
        assert self.job is not None
        outcome = Outcome(self.job.id, value, error, time.monotonic() - self._started, self._printed())
        self.job = None
        self.deadline = float("inf")
        # The process appends, so the next job's log begins at the start.
        with contextlib.suppress(OSError):
            os.ftruncate(self._log.fileno(), 0)
        return outcome

    def _printed(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), _LOG_TAIL_BYTES, max(size - _LOG_TAIL_BYTES, 0))
        return tail.decode("utf-8", "replace")


# ---- interpreters -----------------------------------------------------------------------------------------------------


class _Begun(NamedTuple):
    """An interpreter, with what it prints and the descriptors to write requests to and to read responses from."""

    log: IO[bytes]
    process: subprocess.Popen[bytes]
    requests: int
    responses: int


class _Early(NamedTuple):
    """One that was started before there was work for it, and where: its environment, working folder and search path."""

    begun: _Begun
    environment: Mapping[str, str]
    folder: str
    path: tuple[str, ...]

    def fits(self, wanted: Mapping[str, str]) -> bool:
        """Whether it can be a worker with that environment."""
        here = self.folder == os.getcwd() and self.path == tuple(sys.path) and self.begun.process.poll() is None
        return here and not any(n.startswith(_AT_START) for n in self.changes(wanted))

    def changes(self, wanted: Mapping[str, str]) -> dict[str, str | None]:
        names = self.environment.keys() | wanted.keys()
        return {n: wanted.get(n) for n in names if self.environment.get(n) != wanted.get(n)}


_AT_START = ("PYTHON", "LD_", "OPENBLAS_", "MKL_", "GOTO_")
"""Beginnings of the names of variables that are read when an interpreter starts, or numpy is imported."""

_early: list[_Early] = []
_lock = threading.Lock()


def expect_one(function: str, *args: object) -> None:
    """Starts an interpreter that will be a worker, and has it call ``function`` of this path, which imports what it will need,
    while this process finds out what is to be done."""
    wanted = merged_environment(_quiet())
    with _lock:
        if any(e.fits(wanted) for e in _early):
            return
        if not _early:
            atexit.register(_end_early)
        begun = _spawn(_quiet())
        _written(begun.requests, pickle.dumps({"early": pickle.dumps((function, args, {}))}))
        _early.append(_Early(begun, wanted, os.getcwd(), tuple(sys.path)))


def _quiet() -> dict[str, str]:
    """What is not said here."""
    return {n: v for n, v in QUIET.items() if n not in os.environ}


def _end_early() -> None:
    while _early:
        end_process(_early.pop().begun.process, grace_s=0.0)


def _begun_for(env: Mapping[str, str | None]) -> tuple[_Begun, dict[str, str | None]]:
    """An interpreter for this environment, one that was started early if that fits, and what to change in it."""
    wanted = merged_environment(env)
    with _lock:
        for early in _early:
            if early.fits(wanted):
                _early.remove(early)
                return early.begun, early.changes(wanted)
    return _spawn(env), {}


def _written(descriptor: int, body: bytes) -> None:
    frame = memoryview(LENGTH.pack(len(body)) + body)
    # A worker that died shows as the end of its responses.
    with contextlib.suppress(BrokenPipeError):
        while frame:
            frame = frame[os.write(descriptor, frame) :]


def _spawn(env: Mapping[str, str | None]) -> _Begun:
    """Starts the interpreter."""
    import fcntl

    kept = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the worker)
    log = kept.fileno()
    fcntl.fcntl(log, fcntl.F_SETFL, fcntl.fcntl(log, fcntl.F_GETFL) | os.O_APPEND)
    child_requests, requests = os.pipe()
    responses, child_responses = os.pipe()
    arguments = [str(child_requests), str(child_responses), str(os.getpid()), os.pathsep.join(sys.path), _OURS]
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=merged_environment(env),
            pass_fds=(child_requests, child_responses),
            start_new_session=True,
        )
    finally:
        os.close(child_requests)
        os.close(child_responses)
    return _Begun(kept, process, requests, responses)
