"""A kernel in a process of its own, as what checks and times executables sees it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.backend import CompiledBinary, HostBuffer, Resources, Source
from portakern.errors import PortakernError, UsageError
from portakern.referee import shared
from portakern.referee.messages import BLOB_BYTES, TEXT_BYTES, Garbled, Message, member, plain_values, printable
from portakern.referee.process import KernelProcess
from portakern.referee.secret import Secret

_FIGURES = {"registers", "spills", "scratch_bytes", "shared_bytes", "code_bytes"}
_PLAIN = (int, float, str, bool)
_MOST = 1 << 53


SizeKey = tuple[tuple[str, int], ...]


def size_key(sizes: Mapping[str, int]) -> SizeKey:
    return tuple(sorted(sizes.items()))


@dataclass(frozen=True)
class Run:
    """A whole run: its ``sizes``, how long it took, and the integers and numbers that it was ``given`` or gave."""

    sizes: Mapping[str, int]
    seconds: float
    given: Mapping[str, np.ndarray]


class RemoteExecutable:
    """An :class:`~portakern.backend.Executable` whose kernel runs in ``process``.

    Every run has memory of its own, in which arrays lie where ``secret`` has them, and what is judged is a copy made when the
    run has ended.  ``ran`` has the last whole run at each size, the very last one at the end.
    """

    def __init__(self, process: KernelProcess, source: Source, binary: CompiledBinary | None, runner: str,
                 secret: Secret) -> None:  # fmt: skip
        self.process = process
        self.secret, self.runs = secret, 0
        self.method = ""
        self.ran: dict[SizeKey, Run] = {}
        found = process.ask("load", blobs=[pickle.dumps((source, binary, runner))])
        self.guards = member(found.body, "guards", bool)
        self.edges = runner == "runtime" and source.target.device.kind == "cpu"

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        begun = time.monotonic()
        self.method = self.run_part("", buffers, sizes)
        given = {n: np.array(b.array) for n, b in buffers.items() if not b.shape or b.dtype.kind in "biu"}
        self.ran.pop(key := size_key(sizes), None)
        self.ran[key] = Run(dict(sizes), time.monotonic() - begun, given)

    def run_part(self, part: str, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> str:
        self.runs += 1
        windows = {n: self._window(n, b) for n, b in buffers.items()}
        arena = shared.arena_for(windows, self.secret.random("places", self.runs))
        try:
            shared.written(arena, buffers)
            told = [shared.described(arena, n, b.shape, b.dtype) for n, b in buffers.items()]
            body = {"bytes": len(arena.memory), "buffers": told, "sizes": dict(sizes), "part": part}
            found = self.process.ask("run", body, descriptors=[arena.descriptor])
            shared.taken(arena, buffers)
        except PortakernError as error:
            raise arena.explained(error) from error
        finally:
            arena.close()
        return member(found.body, "method", str, 400)

    def _window(self, name: str, buffer: HostBuffer) -> shared.Window:
        """One side of an array after the other, which first is drawn: two runs see both."""
        size, offset, reach = buffer.storage.nbytes, buffer.offset, buffer.reach
        if not self.edges:
            return shared.whole(size, offset, reach)
        return shared.with_edge(size, offset, reach, bool((self.secret.number("side", name) + self.runs) % 2))

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        raise UsageError("a kernel in another process is run on arrays of ours only")


def compile_remotely(process: KernelProcess, source: Source) -> CompiledBinary:
    """Compiled in ``process``, since a compiler that reads a stranger's text may run it."""
    found = process.ask("compile", blobs=[pickle.dumps(source)], text_bytes=TEXT_BYTES, blob_bytes=BLOB_BYTES)
    if len(found.blobs) != 2:
        raise Garbled("no binary and assembly")
    body = found.body
    assembly = printable(found.blobs[1].decode("utf-8", "replace")) if member(body, "has_assembly", bool) else None
    return CompiledBinary(member(body, "format", str), found.blobs[0], member(body, "tool", str), _resources(found), assembly,
                          member(body, "log", str, 200_000), member(body, "machine_code", bool))  # fmt: skip


def _resources(message: Message) -> tuple[Resources, ...]:
    kernels = member(message.body, "resources", list)
    if len(kernels) > 1000 or not all(isinstance(k, dict) for k in kernels):
        raise Garbled("resources of no kernels")
    return tuple(_resource(k) for k in kernels)


def _resource(k: Mapping[str, Any]) -> Resources:
    figures = {n: k.get(n) for n in _FIGURES}
    if not all(v is None or (type(v) is int and 0 <= v <= _MOST) for v in figures.values()):
        raise Garbled("resources that are no numbers")
    occupancy, limiter = k.get("occupancy"), plain_values(k.get("limiter"))
    if occupancy is not None and not (type(occupancy) in (int, float) and 0 <= occupancy <= 1):
        raise Garbled("an occupancy that is no share")
    extra = tuple((printable(str(p[0])[:100]), plain_values(p[1])) for p in member(k, "extra", list)[:100]
                  if isinstance(p, list) and len(p) == 2 and (p[1] is None or type(p[1]) in _PLAIN))  # fmt: skip
    return Resources(member(k, "kernel", str), occupancy=occupancy, limiter=limiter if isinstance(limiter, str) else None,
                     source=member(k, "source", str), extra=extra, **figures)  # fmt: skip
