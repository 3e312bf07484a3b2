"""What runs the kernels of a target on this machine: silicon, a machine that is modelled, or a simulator."""

from __future__ import annotations

from portakern.backend import (
    HeldByOne,
    Language,
    Runtime,
    Simulator,
    Target,
)
from portakern.registry import registry


def install_hint(language: Language) -> str:
    return f"pip install 'portakern[{language.extra}]'" if language.extra else "see `portakern doctor`"


RUNNERS = ("runtime", "machine", "simulator")


def runner_part(language: Language, target: Target, runner: str) -> Runtime | Simulator | None:
    """The part that ``runner`` names."""
    return language.runtime if runner == "runtime" else simulator_of(language, target, runner)


def held_by_one(language: Language, runner: str) -> bool:
    """Whether kernels are run on a device that one process at a time may use."""
    return runner == "runtime" and isinstance(language.runtime, HeldByOne) and language.runtime.held_by_one


def simulator_of(language: Language, target: Target, runner: str) -> Simulator | None:
    """The simulator that ``runner`` names: that of the ``machine``, or the language's own."""
    if runner == "machine":
        machine = registry().machine(target)
        return machine.simulator if machine is not None else None
    return language.simulator


def runner_for(language: Language, target: Target) -> tuple[str, str]:
    """What can run a kernel of ``language`` here, and why nothing can.

    The silicon's ``runtime`` comes first, then a ``machine`` that executes what was compiled, then the language's own
    ``simulator``, which may only interpret the source.
    """
    reasons = []
    for name in RUNNERS:
        part = runner_part(language, target, name)
        if part is None:
            continue
        available = part.available(target)
        if available:
            return name, ""
        reasons.append(available.detail)
    return "", "; ".join(reasons) or f"no runtime or simulator for {target.device.name}"
