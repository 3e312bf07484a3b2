"""What a node can judge, and what a job needs, as Ray counts them.

A target is a resource by its name.  Where its silicon is, there are as many as devices, so that one job at a time has each;
where it is simulated, as many as cores.  :data:`HOST` is the processor of a node, of which a job that is timed there takes all,
and any other a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from portakern.backend import Target
from portakern.errors import PortakernError
from portakern.jobs.job import Job
from portakern.launch import device_of
from portakern.native import driver_names, open_device, probe_driver
from portakern.registry import registry
from portakern.tools import environment
from portakern.tools.processors import processors
from portakern.tools.workers import Job as Call
from portakern.tools.workers import WorkerPool

HOST = "host"
SILICON = "silicon "
"""Before the name of a target: the node has its silicon."""

COMPILER = "compiler "
"""Before the name of a target that the node can compile for, and nothing else: it has jobs of the level ``compile`` alone."""

A_LITTLE = 0.001
"""Of :data:`HOST`: Ray counts in ten-thousandths."""

_LIMIT_S = 120.0


@dataclass(frozen=True)
class Node:
    """What a node offers: ``gpus`` devices with memory of their own, and how many of each resource."""

    cores: int
    gpus: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def targets(self) -> dict[str, float]:
        return targets_in(self.resources)


def targets_in(resources: Mapping[str, float]) -> dict[str, float]:
    """The targets among the resources of a node or a fleet."""
    return {n: c for n, c in ours(resources).items() if not n.startswith((SILICON, COMPILER))}


def ours(resources: Mapping[str, float]) -> dict[str, float]:
    """Without Ray's own."""
    return {n: c for n, c in resources.items() if ":" in n and not n.startswith("node:")}


def node(cores: int | None = None, gpus: int | None = None, pattern: str = "all") -> Node:
    """What this machine offers of the targets that match.  Takes some seconds: every language is asked.

    Args:
        cores, gpus: in place of what is found.
    """
    cores = cores or processors()
    wanted = {str(t) for t in registry().match(pattern)}
    able = {target: a for target, a in abilities(pattern).items() if pattern == "all" or target in wanted}
    most = max((a.devices for a in able.values()), default=0) if gpus is None else gpus
    found: dict[str, float] = {HOST: 1.0}
    for target, (kind, devices) in able.items():
        count = {"host": 1, "device": min(devices, most) if gpus is None else gpus, "simulator": cores, "compiler": cores}[kind]
        if count:
            found[COMPILER + target if kind == "compiler" else target] = float(count)
            if kind in ("host", "device"):
                found[SILICON + target] = float(count)
    return Node(cores, most if any(a.kind == "device" for a in able.values()) else 0, found)


class Ability(NamedTuple):
    """By what kernels of a target can be judged: ``host`` or ``device`` where their silicon is, ``simulator``, or ``compiler``
    where they can be compiled alone; and how many ``devices`` of the target there are."""

    kind: str
    devices: int = 0


def abilities(pattern: str = "all") -> dict[str, Ability]:
    """Of the targets of a pattern's languages whose kernels can be judged here."""
    found: dict[str, Ability] = {}
    asked = {t.language for t in registry().match(pattern)}
    for language in registry().languages.values():
        if language.adopt is None or language.name not in asked:
            continue
        with WorkerPool(env=dict(language.environment)) as pool:
            (outcome,) = pool.run([Call(None, f"{__name__}:able", (language.name,), timeout_s=_LIMIT_S)])
        if outcome.error is None:
            found.update(outcome.value)
    return found


def able(language: str) -> dict[str, Ability]:
    """Of one language, asked in this process."""
    targets = [Target(language, device) for device in registry().devices(language).values()]
    return {str(t): Ability(kind, _devices(t) if kind == "device" else 0) for t in targets if (kind := _kind(t))}


def _kind(target: Target) -> str:
    def works(part: str) -> bool:
        try:
            return any(bool(found.available(target)) for found in environment.offers(target, part))
        except PortakernError:
            return False

    if not works("toolchain"):
        return ""
    if works("runtime"):
        return "host" if target.device.kind == "cpu" else "device"
    return "simulator" if works("simulator") else "compiler"


def _devices(target: Target) -> int:
    """Those like the one that the target's kernels run on: its driver may know a processor and other chips, too."""
    runtime = registry().language(target.language).runtime
    assert runtime is not None
    try:
        first = device_of(runtime, target)
        if first is None or first.driver not in driver_names():
            return 1
        others = (open_device(first.driver, n) for n in range(probe_driver(first.driver).device_count))
        return sum(d.facts.name == first.facts.name for d in others)
    except PortakernError:
        return 1


# ---- what a job needs ------------------------------------------------------------------------------------------------------


def needs(job: Job, have: Mapping[str, float]) -> dict[str, Any] | None:
    """Ray's options for a job in a fleet that has those resources, or ``None`` where no node of it can judge the job.

    A device with memory of its own is one of Ray's GPUs, so that its worker sees that one only.
    """
    target = job.task.target
    if not have.get(target):
        compiles = job.level == "compile" and have.get(COMPILER + target)
        return {"num_cpus": 1, "num_gpus": 0, "resources": {COMPILER + target: 1.0, HOST: A_LITTLE}} if compiles else None
    silicon = bool(have.get(SILICON + target))
    on_host = registry().target(target).device.kind == "cpu"
    wanted = {target: 1.0, **({SILICON + target: 1.0} if silicon else {})}
    wanted[HOST] = 1.0 if on_host and job.level == "timed" else A_LITTLE
    return {"num_cpus": 1, "num_gpus": int(silicon and not on_host), "resources": wanted}
