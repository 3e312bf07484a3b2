"""A process that has imported what kernels of one language need, and has never held one: those that do are forked of it.

Importing torch or jax takes seconds, a fork milliseconds.  What a kernel does to its process ends with that; nothing leads from
there back into this one, which only a side that judges talks to:

- it is outside of the jail, and every child enters a jail of its own before it is told of a kernel: other processes, other
  user, other mounts;
- it has no threads, whose locks would be held for ever in a child, no writable memory that a child would share, no children,
  and no descriptors but its own.  :func:`unclean` looks for all of them before the first fork, and who judges does without a
  zygote that has any.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from portakern.backend import CompiledBinary, HostBuffer, ReadyToFork
from portakern.referee.messages import Ended, receive, send
from portakern.referee.runner import loaded, serve
from portakern.registry import registry
from portakern.tools.jail import system
from portakern.tools.jail.enter import _may_unshare

PAGE = 4096

Made = TypeVar("Made")

Rehearsals = tuple["Rehearsal | None", "Rehearsal | None"]
"""What the process does once that is forked, and what each of its children does, in its jail."""

_NEEDED = ("ml_dtypes", "portakern.check.buffers", "portakern.launch", "portakern.referee.shared")
"""What every runner imports."""

_HARMLESS = ("/dev/null", "/dev/urandom", "/dev/zero", "/proc/", "/sys/")
"""Files that a child may have inherited open: there is nothing of others behind them."""


@dataclass(frozen=True)
class Rehearsal:
    """A kernel of ours that is compiled and run once, so that what a language sets up at the first time is set up.

    Args:
        source: of an operator that nobody is asked for.
        runner: as :func:`portakern.referee.runner.loaded` takes it; empty to compile only.
        buffers: makes its arrays: (name, shape, dtype) of each.
    """

    source: Any
    runner: str
    buffers: tuple[tuple[str, tuple[int, ...], str], ...]

    def perform(self) -> None:
        """Whatever goes wrong is no kernel's fault, and will be seen again with the first one.  Where kernels are interpreted
        they may be compiled in another environment only."""
        binary = self._tried(self._compiled)
        if self.runner:
            self._tried(lambda: loaded(self.source, binary, self.runner).run({b[0]: _buffer(*b) for b in self.buffers}, {}))

    def _compiled(self) -> CompiledBinary | None:
        toolchain = registry().language(self.source.target.language).toolchain
        return toolchain.compile(self.source) if toolchain is not None else None

    def _tried(self, step: Callable[[], Made]) -> Made | None:
        try:
            return step()
        except Exception as error:
            print(f"the rehearsal failed: {type(error).__name__}: {error}", file=sys.stderr)
            return None


def _buffer(name: str, shape: tuple[int, ...], dtype: str) -> HostBuffer:
    """Of ones, between bands as in a check."""
    import ml_dtypes  # noqa: F401  (numpy knows bfloat16 by name then)
    import numpy as np

    ones = np.ones(shape, np.dtype(dtype))
    storage = np.zeros(ones.nbytes + 3 * PAGE, np.uint8)
    start = -storage.ctypes.data % PAGE
    buffer = HostBuffer(name, storage[start : start + ones.nbytes + 2 * PAGE], PAGE, shape, ones.dtype)
    buffer.array[...] = ones
    return buffer


def main(descriptor: int) -> NoReturn:
    control = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    parent = os.getppid()
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    language, preload, (before, after) = pickle.loads(receive(control).blobs[0])
    for name in (*_NEEDED, *preload):
        with contextlib.suppress(ImportError):  # said when a kernel needs it
            import_module(name)
    runtime = registry().language(language).runtime
    if os.geteuid() == 0:
        _may_unshare()
    if before is not None:
        before.perform()
    if after is not None and isinstance(runtime, ReadyToFork):
        runtime.before_fork()
    gc.collect()
    gc.freeze()  # children do not copy what a collection would touch
    send(control, {"unclean": unclean(descriptor)})
    while os.getppid() == parent:
        try:
            message = receive(control, descriptors=2)
        except Ended:
            os._exit(0)
        send(control, _ANSWERS[message.body["do"]](message.body.get("pid", 0), message.descriptors, control, after))
    os._exit(0)


def _fork(_: int, descriptors: list[int], control: socket.socket, rehearsal: Rehearsal | None) -> dict[str, int]:
    """A child that serves the one descriptor and prints to the other."""
    zygote = os.getpid()
    channel, log = descriptors
    sys.stdout.flush()
    sys.stderr.flush()
    if (child := os.fork()) == 0:
        try:
            control.close()
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
            os.setsid()
            system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == zygote:
                serve(socket.socket(fileno=channel), rehearsal.perform if rehearsal is not None else None)
        finally:
            os._exit(1)  # never back into the loop of the zygote
    os.close(channel)
    os.close(log)
    return {"pid": child}


def _reap(pid: int, *_: object) -> dict[str, int]:
    """Its exit status, or minus the signal that ended it.  Who asks has seen it end, or has ended it."""
    return {"status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


def _poll(pid: int, *_: object) -> dict[str, bool]:
    """Whether it has ended; it is not collected yet, so that its number stays its own."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return {"ended": found is not None}


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {"fork": _fork, "reap": _reap, "poll": _poll}


# ---- what must not be inherited ----------------------------------------------------------------------------------------------


def unclean(*own: int) -> list[str]:
    """What a child would share with this process, or miss in it: nothing, where it may be forked.  ``own`` are descriptors
    that a child closes."""
    return [*_threads(), *_shared(), *_children(), *_descriptors({0, 1, 2, *own})]


def _threads() -> list[str]:
    count = len(os.listdir("/proc/self/task"))
    return [f"{count} threads"] if count > 1 else []


def _shared() -> list[str]:
    """Writable mappings that a child would write to as well."""
    lines = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    return [f"shared memory {' '.join(f[5:])}" for f in lines if "w" in f[1] and f[1].endswith("s")]


def _children() -> list[str]:
    tasks = Path("/proc/self/task").iterdir()
    found = [child for task in tasks for child in (task / "children").read_text().split()]
    return [f"{len(found)} children"] if found else []


def _descriptors(own: set[int]) -> list[str]:
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the folder that was listed
            path = os.readlink(f"/proc/self/fd/{number}")
            if number not in own and not path.startswith(_HARMLESS) and not path.startswith(f"/proc/{os.getpid()}/"):
                found.append(f"descriptor {number} of {path}")
    return found
