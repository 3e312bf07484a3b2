"""Compilers and other tools in child processes, with limits on time, memory and output."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from portakern.errors import CompileError, PortakernError, ToolMissing

_GRACE_S = 0.5
_END_S = 5.0
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How one run of a tool ended.

    ``status`` is its exit status, or minus the number of the signal that ended it. ``stdout`` and ``stderr`` are text,
    cut in the middle where they were too long. ``seconds`` is wall time.
    """

    command: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def log(self) -> str:
        """All that the tool printed, errors first."""
        return "\n".join(text for text in (self.stderr.strip(), self.stdout.strip()) if text)

    def ending(self) -> str:
        """How it ended, in words."""
        return f"was ended by {signal_name(-self.status)}" if self.status < 0 else f"exited with status {self.status}"

    def checked(self, what: str, hint: str = "") -> ToolResult:
        """Itself if the tool succeeded.

        Args:
            what: what was being made, for the error text, e.g. ``"softmax for gfx942"``.

        Raises:
            CompileError: the tool failed; the log is in its message and in ``log``.
        """
        if self.ok:
            return self
        tool = Path(self.command[0]).name
        raise CompileError(f"{tool} {self.ending()} on {what}:\n{self.log or '(no output)'}", hint=hint, log=self.log)


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; the number in words if it has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def find_tool(name: str, hint: str = "") -> str:
    """The path of an executable.

    Raises:
        ToolMissing: it is not on PATH.
    """
    path = shutil.which(name)
    if path is None:
        raise ToolMissing(f"the tool {name!r} was not found on PATH", hint=hint)
    return path


def run_tool(
    command: Sequence[str | os.PathLike[str]],
    *,
    timeout_s: float = 120.0,
    memory_bytes: int | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: bytes = b"",
    output_limit: int = 200_000,
    missing_hint: str = "",
) -> ToolResult:
    """Runs a tool to its end, or ends it and its children at the limit.

    Args:
        command: the executable and its arguments; no shell takes part.
        timeout_s: wall time after which the whole process tree is ended.
        memory_bytes: limit on each process's data (anonymous memory that it may write); None for no limit.
        env: added to this process's environment; None removes a variable.
        output_limit: characters kept of each of stdout and stderr.
        missing_hint: what to install if the tool is not there.

    Returns:
        The result, also if the tool failed or crashed: see :meth:`ToolResult.checked`.

    Raises:
        ToolMissing: the executable does not exist or may not be run.
        CompileError: kind ``compile-timeout``.
    """
    arguments = tuple(os.fspath(part) for part in command)
    started = time.monotonic()
    process = _start(arguments, memory_bytes, cwd, env, missing_hint)
    assert process.stdout is not None and process.stderr is not None and process.stdin is not None
    readers = [TailReader(process.stdout, output_limit), TailReader(process.stderr, output_limit)]
    feeder = threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True)
    feeder.start()
    try:
        wait_for(process, timeout_s)
    except subprocess.TimeoutExpired:
        end_process(process)
        log = "\n".join(reader.text() for reader in reversed(readers)).strip()
        raise CompileError(
            f"{Path(arguments[0]).name} did not finish within {timeout_s:g} s and was ended",
            hint="ask for a smaller tile or unroll factor, or allow more time",
            kind="compile-timeout",
            log=log,
        ) from None
    except BaseException:
        end_process(process)
        raise
    stdout, stderr = (reader.text() for reader in readers)
    return ToolResult(arguments, process.returncode, stdout, stderr, time.monotonic() - started)


def _start(
    arguments: tuple[str, ...],
    memory_bytes: int | None,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str | None] | None,
    missing_hint: str,
) -> subprocess.Popen[bytes]:
    environment = merged_environment(env)
    if shutil.which(arguments[0], path=environment.get("PATH")) is None:
        raise ToolMissing(f"the tool {arguments[0]!r} is not there or may not be run", hint=missing_hint)
    limited = arguments
    if memory_bytes is not None:
        # A shell sets the limit before the tool starts; code between fork and exec is not safe beside threads.
        limited = ("/bin/sh", "-c", f'ulimit -d {memory_bytes // 1024} && exec "$@"', "sh", *arguments)
    try:
        return subprocess.Popen(
            limited,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolMissing(f"the tool {arguments[0]!r} cannot be run: {error.strerror}", hint=missing_hint) from error


def merged_environment(changes: Mapping[str, str | None] | None) -> dict[str, str]:
    """This process's environment with ``changes``; a value of None removes the variable."""
    environment = dict(os.environ)
    for name, value in (changes or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def wait_for(process: subprocess.Popen[bytes], timeout_s: float | None) -> int:
    """The status of a process, as soon as it has ended: ``Popen.wait`` looks every 50 ms where it has a limit.

    Raises:
        subprocess.TimeoutExpired: it has not, in ``timeout_s`` seconds.
    """
    if timeout_s is not None and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # an old kernel, or it has been waited for
            descriptor = os.pidfd_open(process.pid)
            try:
                ended = select.poll()
                ended.register(descriptor, select.POLLIN)
                ended.poll(max(timeout_s, 0) * 1000)
            finally:
                os.close(descriptor)
            timeout_s = 0
    return process.wait(timeout_s)


def end_process(process: subprocess.Popen[bytes], grace_s: float = _GRACE_S) -> None:
    """Ends a process and all its descendants: asks first, and kills what is left after ``grace_s``.

    Returns when they have ended; a process that the kernel cannot end (one waiting for a disk) is left after a few seconds.
    """
    # Looked up first: once their parent is gone, the descendants cannot be found any more.
    family = descendants(process.pid)
    if process.poll() is None and grace_s > 0:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    kill(family)
    # The process was started as the leader of its own group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    await_end(family)


def kill(pids: Sequence[int]) -> None:
    """Those that are gone, or belong to others by now, are left."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def await_end(pids: Sequence[int], limit_s: float = _END_S) -> None:
    """Returns when none of ``pids`` runs any more, or after ``limit_s``: a killed one goes on until it is scheduled."""
    deadline = time.monotonic() + limit_s
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    """Whether /proc knows a process that has not ended; one that nobody has waited for yet has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def descendants(root: int) -> list[int]:
    """The living descendants of ``root`` that /proc knows; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything; the parent is the second field after it.
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def held(root: int) -> list[int]:
    """Stops a process and all that it has started, which cannot start more then; their numbers.

    A signal takes a moment to stop who runs, and until then it may start others, let them go on, or end and leave its children
    to one whose list has been read: so only a look that begins when all known ones stand still, and finds no new one, is the
    last.  Raises :class:`PortakernError` where that does not come to an end.
    """
    found: list[int] = []
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        running = [pid for pid in found if not _waits(pid)]
        new = [pid for pid in (root, *_family(root)) if pid not in found]
        if not (running or new):
            return found
        found += new
        for pid in (*running, *new):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(5e-5)
    raise PortakernError("unstable", "a process that should stand still starts others without end")


def let_go(pids: Sequence[int]) -> None:
    """They go on, those that were started last first."""
    for pid in reversed(pids):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)


def _family(root: int) -> list[int]:
    """As :func:`descendants`, by the lists that Linux keeps of each thread's children, which are quicker to read."""
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        return descendants(root)
    found: list[int] = []
    queue = [root]
    while queue:
        below: list[int] = []
        parent = queue.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                with contextlib.suppress(OSError):
                    below += map(int, Path(f"/proc/{parent}/task/{task}/children").read_text().split())
        found += below
        queue += below
    return found


def memory_of(root: int) -> int:
    """Bytes that a process and all that it started have for themselves: written pages, shared memory, and files without a name
    that they hold in memory.  What they share counts once."""
    family = [root, *_family(root)]
    unnamed = sum({(f.st_dev, f.st_ino): f.st_blocks * 512 for pid in family for f in _unnamed(pid)}.values())
    mapped = sum(_pages(pid, "status", ("RssAnon:", "RssShmem:")) for pid in family)
    if mapped > _SHARED_BYTES and len(family) > 1:  # what is quicker to read counts it for each
        mapped = sum(_pages(pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for pid in family)
    return max(mapped, unnamed)


_SHARED_BYTES = 1 << 28


def _pages(pid: int, file: str, names: Sequence[str]) -> int:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(tuple(names)))


def _unnamed(pid: int) -> Iterator[os.stat_result]:
    """Files of memory (``memfd_create``) that a process has open."""
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{number}").startswith("/memfd:"):
                    yield os.stat(f"/proc/{pid}/fd/{number}")


def _waits(pid: int) -> bool:
    """Whether a process is stopped, with all of its threads, or gone."""
    try:
        return all(_state(pid, task) in "TtZX" for task in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return True


def _state(pid: int, task: str) -> str:
    try:
        return Path(f"/proc/{pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _feed(pipe: IO[bytes], content: bytes) -> None:
    with contextlib.suppress(OSError), pipe:
        pipe.write(content)


class TailReader:
    """Drains a pipe in the background and keeps the head and the tail of it."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self._pipe = pipe
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._pipe:
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        # A child that was left running may hold the pipe open; what it prints later is not the tool's output.
        self._thread.join(timeout=1.0)
        cut = f"\n... {self._dropped} bytes left out ...\n" if self._dropped else ""
        return self._head.decode("utf-8", "replace") + cut + self._tail.decode("utf-8", "replace")
