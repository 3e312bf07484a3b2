"""A task's kernels timed in turns with its own module, by PyTorch as it is and compiled.

What both compute on is the task's: its inputs and, prepared once as at a user's first call, its weights.  There is one set of
them, which may fill the device: outputs and inputs are told by fingerprints where :mod:`portakern.study.timing` keeps copies.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from portakern.backend import Prepared
from portakern.check.agreement import agreement
from portakern.check.sampled import NOISE
from portakern.errors import PortakernError, ToolMissing
from portakern.launch import prepare
from portakern.native import now_ns
from portakern.study.peer_calls import Differ, PeerCalls
from portakern.study.row import Row, without_samples
from portakern.study.steps import Build, guarded
from portakern.study.timing import Session
from portakern.study.work import Work
from portakern.suite.peer import counted
from portakern.suite.task_module import ModuleCall, TaskModule
from portakern.timing.inputs import InputSets, TorchPlace, bytes_of, give_back
from portakern.timing.measure import Contender, Options, Timing
from portakern.timing.peers import Peer, Subject, fresh_compiler, set_precision
from portakern.timing.same import fingerprint
from portakern.torch_import.arrays import in_pairs
from portakern.torch_import.trees import leaves

MODE = "default"
"""Of torch.compile: what a suite's users get."""


def time(work: Work, made: Build, of: TaskModule, against: Sequence[str] = (), options: Mapping[str, Any] | None = None,
         lost: Mapping[str, str] | None = None) -> Row:  # fmt: skip
    """The row with its ``time``, without raw samples; peers that cannot be timed are listed with the reason.

    Args:
        work, made: what was built and checked.
        of: the task that it was imported from.
        against: ``torch.eager``, ``torch.compile``, or both.
        options: those of :class:`portakern.timing.measure.Options`.
        lost: peers that are not tried, each with the reason.
    """
    if importlib.util.find_spec("torch") is None:
        raise ToolMissing("timing a suite needs torch", hint="pip install 'portakern[torch]'")
    import torch

    def step() -> Build:
        try:
            return Build(ModuleSession(work, made, Options(**(options or {})), of=of).run(against, lost or {}))
        except torch.OutOfMemoryError as error:
            raise PortakernError("memory", f"{work.target} has no room for what {work.row.operator} reads and writes",
                                 hint=str(error).splitlines()[0]) from None  # fmt: skip

    with torch.no_grad():
        row = guarded(made.row, step).row
    fresh_compiler()
    give_back()
    return without_samples(row)


@dataclass(frozen=True)
class ModulePeer(Peer):
    """The task's module.  ``launches`` are the kernels and library calls that a compiler made of it."""

    launches: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({"launches": self.launches} if self.launches is not None else {})


@dataclass
class ModuleSession(Session):
    """A session on a task's own inputs and weights, of which there is one set."""

    of: TaskModule = field(kw_only=True)
    module: ModuleCall = field(init=False)

    def _make_sets(self) -> None:
        import torch

        where = self.place.device if isinstance(self.place, TorchPlace) else torch.device("cpu")
        self.place = TorchPlace(str(where))
        self.module = self.of.on(where)
        arrays = self.module.arrays(self.of.places, self.program, self.work.families, where)
        size = sum(map(bytes_of, (*self.program.args, *self.program.results)))
        self.sets = InputSets(self.place, [{}], [arrays], size)

    def _prepare(self) -> None:
        self.prepared = [prepare(self.executable, self.sets.arrays[0], self.work.sizes)]
        self.before = [self._outputs(self.prepared[0])]

    def _read(self, p: Prepared) -> list[Any]:
        return [fingerprint(x) for x in p.outputs]

    # ---- after the loop

    def _recheck(self, ours: Timing) -> None:
        """The outputs are what they were, after the loop and after a call into poisoned ones; nobody wrote inputs."""
        (p,), (before,) = self.prepared, self.before
        self._wait()
        self._expect(self._read(p), before, "the outputs after timing differ from those before it")
        self._expect(self._outputs(p), before, "after timing, a call does not give the outputs that it gave before")

    def _expect(self, have: Sequence[Any], want: Sequence[Any], message: str) -> None:
        for name, a, b in zip(self.program.outputs, have, want, strict=True):
            if a != b:
                raise PortakernError("unstable", f"{message} ({name})", hint="the kernel keeps state between calls, or races")

    # ---- contenders

    def _peer_calls(self) -> PeerCalls:
        calls = super()._peer_calls()
        return ModuleCalls(calls.subject, calls.place, calls.sets, calls.blocking, calls.stream, session=self)

    def peer(self, name: str, subject: Subject) -> Peer:
        """The module as ``name`` runs it, after a call whose results are ours."""
        try:
            return self._tried(name, subject)
        finally:
            give_back()  # what a peer that failed had taken is what the next one needs

    def _tried(self, name: str, subject: Subject) -> Peer:
        """Raises, as PyTorch may, where the peer fails or gives something else."""
        set_precision(subject)
        peer = ModulePeer(name, "torch", self.module, "the task's module")
        if name == "torch.compile":
            peer = self._compiled(peer)
        written = [x._version for x in self.module.tensors()]
        results = _arrays(peer.call())
        if written != [x._version for x in self.module.tensors()]:
            self.before = [self._outputs(p) for p in self.prepared]  # what they hold now is as good for the others
            raise PortakernError("other", "writes the arrays that it is called with; not timed")
        if len(results) < len(self.program.outputs):
            raise PortakernError("other", f"gives {len(results)} outputs, not {len(self.program.outputs)}; not timed")
        if not self.of.random:
            self._hold(results, subject.dtypes)
        return peer

    def _compiled(self, peer: ModulePeer) -> ModulePeer:
        import torch
        from torch._inductor.utils import run_and_get_code

        fresh_compiler()
        call = replace(self.module, call=torch.compile(self.module.call, mode=MODE, dynamic=False))
        begun = now_ns()
        _, codes = run_and_get_code(call)
        self._wait()
        return replace(peer, call=call, mode=MODE, compile_s=(now_ns() - begun) / 1e9, launches=counted(codes))

    def _hold(self, theirs: Sequence[Any], dtypes: tuple[str, ...]) -> None:
        """Raises where results are not those of our kernel; what they change by with a rounding of the inputs is none."""
        noise: list[float] | None = None
        for at, (output, ours) in enumerate(zip(self.program.outputs, self.prepared[0].outputs, strict=True)):
            message = agreement(ours, theirs[at], dtypes).message
            if message:
                noise = self._noise(theirs) if noise is None else noise
                message = agreement(ours, theirs[at], dtypes, noise[at]).message
            if message:
                raise PortakernError("other", f"computes something else ({output}: {message}); not timed")

    def _noise(self, results: Sequence[Any]) -> list[float]:
        others = _arrays(self.module.with_tensors(_moved)())
        return [NOISE * float((a.float() - b.float()).abs().nanmedian()) if a.is_floating_point() and a.numel() else 0.0
                for a, b in zip(results, others, strict=True)]  # fmt: skip


@dataclass(frozen=True)
class ModuleCalls(PeerCalls):
    """Calls of the task's module, which holds its arrays itself."""

    session: ModuleSession = field(kw_only=True)

    def _ready(self, name: str, differ: Differ) -> Peer:
        return self.session.peer(name, self.subject)

    def beside(self, peer: Peer) -> bool:
        """On a CPU PyTorch works while it is called, whatever queue our kernels have."""
        return self.blocking or self.session.target.device.kind != "cpu"

    def contender(self, peer: Peer) -> Contender:
        return Contender(peer.name, lambda i: peer.call(), self.stream)


def _arrays(results: Any) -> list[Any]:
    """What PyTorch gives, as our kernels give it."""
    return [in_pairs(x) for x in leaves(results) if hasattr(x, "detach")]


def _moved(x: Any) -> Any:
    """Every second element or so, the next number of its dtype."""
    import torch

    if not x.is_floating_point():
        return x
    return torch.where(torch.rand(x.shape, device=x.device) < 0.5, x, torch.nextafter(x, torch.full_like(x, float("inf"))))
