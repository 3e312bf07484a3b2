"""The inside of a worker process: reads jobs from one pipe, writes outcomes to another, and does nothing else.

Started by :mod:`portakern.tools.workers` in a fresh interpreter. What libraries print goes to the log file that is the
process's stdout and stderr; the pipes are descriptors of their own, so noise cannot corrupt the protocol.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import pickle
import signal
import struct
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn

from portakern.errors import PortakernError

LENGTH = struct.Struct("<Q")
_PR_SET_PDEATHSIG = 1


def main(requests: int, responses: int, parent: int) -> NoReturn:
    """Serves jobs until the parent closes its end.

    Args:
        requests: descriptor to read from; the first message holds ``preload``, ``memory_bytes`` and changes of the
            ``environment``, others are jobs.  Before it may come one that says what to do ``early``, as a job does.
        responses: descriptor to write to.
        parent: process id of the pool; the worker ends when it does.
    """
    for descriptor in (requests, responses):
        os.set_inheritable(descriptor, False)
    _die_with(parent)
    # A crash or a request to end leaves the Python stack in the log.
    faulthandler.enable()
    faulthandler.register(signal.SIGTERM, all_threads=True, chain=False)

    setup = pickle.loads(_read(requests))
    if "early" in setup:
        _perform(setup["early"])  # whoever needs it says what is wrong
        setup = pickle.loads(_read(requests))
    _send(responses, _prepare(**setup))
    while True:
        _send(responses, _perform(_read(requests)))


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _prepare(preload: tuple[str, ...], memory_bytes: int | None, environment: Mapping[str, str | None]) -> tuple[str, object]:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if memory_bytes is not None:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))
    try:
        for name in preload:
            import_module(name)
    except BaseException as error:
        return _failure(error)
    return "ready", None


def _perform(message: bytes) -> tuple[str, object]:
    try:
        function, args, kwargs = pickle.loads(message)
        value = find_function(function)(*args, **kwargs)
        # Pickled here so that a value that cannot be is this job's error.
        return "value", pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return _failure(error)


def find_function(path: str) -> Any:
    """The object named by ``"package.module:attribute.path"``."""
    module, _, attributes = path.partition(":")
    found: Any = import_module(module)
    for name in attributes.split("."):
        found = getattr(found, name)
    return found


def _failure(error: BaseException) -> tuple[str, object]:
    if isinstance(error, PortakernError):
        try:
            return "error", pickle.dumps(error, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:
            pass  # It carries something that cannot be pickled: its text goes back instead.
    kind = "memory" if isinstance(error, MemoryError) else "exception"
    summary = "".join(traceback.format_exception_only(error)).strip()
    return kind, (summary, "".join(traceback.format_exception(error)))


def _send(descriptor: int, message: tuple[str, object]) -> None:
    # What was printed belongs to the job that ends with this message.
    for stream in (sys.stdout, sys.stderr):
        # A job may have closed or replaced its stream; that is no reason to lose its outcome.
        with contextlib.suppress(Exception):
            stream.flush()
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    frame = memoryview(LENGTH.pack(len(body)) + body)
    while frame:
        frame = frame[os.write(descriptor, frame) :]


def _read(descriptor: int) -> bytes:
    (length,) = LENGTH.unpack(_read_exactly(descriptor, LENGTH.size))
    return _read_exactly(descriptor, length)


def _read_exactly(descriptor: int, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        chunk = os.read(descriptor, min(size - len(content), 1 << 20))
        if not chunk:
            # Without the clean-up of libraries, which may hang or crash at exit.
            os._exit(0)
        content += chunk
    return bytes(content)
