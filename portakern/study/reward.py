"""Rewards of a row, as published systems define them: each a named function of a row and nothing else.

``row.reward(name)`` calls one.  A speed-up is a peer's time over the kernel's; which peer is named by ``peer``, else it is the
first one that was timed.  What a row does not know earns nothing: a kernel that was not timed has no speed-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from portakern.errors import UsageError

if TYPE_CHECKING:
    from portakern.study.row import Row


def correctness(row: Row) -> float:
    """1 for a kernel that passed the check that its ``method`` names, else 0."""
    return float(row.correct is True and row.error is None)


def speedup(row: Row, peer: str | None = None) -> float:
    """The peer's median time over the kernel's; 0 for one that is wrong or was not timed beside it."""
    return correctness(row) * float((_peer(row, peer) or {}).get("ratio") or 0.0)


def sure_speedup(row: Row, peer: str | None = None) -> float:
    """The lower end of the interval of the speed-up: noise earns nothing."""
    return correctness(row) * float((_peer(row, peer) or {}).get("ci_low") or 0.0)


def fast_p(row: Row, p: float = 1.0, peer: str | None = None) -> float:
    """1 for a correct kernel whose speed-up is above ``p``, else 0: its mean over tasks is KernelBench's fast_p (Ouyang et al.,
    arXiv:2502.10517; fast_0 counts the correct ones)."""
    return float(correctness(row) > 0 and (p <= 0 or speedup(row, peer) > p))


def kevin(row: Row, peer: str | None = None) -> float:
    """0.3 for a correct kernel, and its speed-up (Kevin, arXiv:2507.11948, as public re-implementations quote it)."""
    return correctness(row) * 0.3 + speedup(row, peer)


GYM_WEIGHTS = {"correct": 0.5, "performance": 0.5, "least": 1.01}
"""``init_correct_weight``, ``init_performance_weight`` and 1 + ``speedup_eps`` of KernelGYM's ``kernel_trainer.yaml``."""


def kernelgym(row: Row, peer: str | None = None, coverage: float | None = None, weight: float = 0.0) -> float:
    """KernelGYM's ``calculate_reward_weighted`` (github.com/hkust-nlp/KernelGYM, drkernel/kernel/rewards/reward_client.py at
    3a84417f8c): 0.5 for being correct, 0.5 for a speed-up of 1.01 or more, and for correct kernels ``weight`` times the
    coverage.

    Args:
        coverage: share of the device's time that is spent in the candidate's own kernels, from a profile; that of the row's
            time where not given, and 0 where that does not say, as there.
        weight: ``coverage_reward.weight``, which its configuration leaves to the experiment.
    """
    return _gym(row, float(speedup(row, peer) >= GYM_WEIGHTS["least"]), coverage, weight)


def kernelgym_speedup(row: Row, peer: str | None = None, low: float = 0.0, high: float = 3.0, coverage: float | None = None,
                      weight: float = 0.0) -> float:  # fmt: skip
    """The same with the speed-up itself in place of whether there is one (``calculate_reward_speedup``): ``high`` where it is
    above, 0 where it is below ``low``.  The bounds are the experiment's; ours here."""
    ratio = min(speedup(row, peer), high)
    return _gym(row, ratio if ratio >= low else 0.0, coverage, weight)


def _gym(row: Row, performance: float, coverage: float | None, weight: float) -> float:
    correct = correctness(row)
    share = coverage if coverage is not None else float((row.time or {}).get("coverage") or 0.0)
    return correct * (GYM_WEIGHTS["correct"] + weight * share) + GYM_WEIGHTS["performance"] * performance


_STEPS = ((3.0, 1.0), (2.0, 0.8), (1.5, 0.6), (1.2, 0.4), (1.0, 0.2))


def kernelgym_steps(row: Row, peer: str | None = None) -> float:
    """KernelGYM's reward in steps (same file): -0.5 for what does not compile, -0.3 for what is wrong, -0.1 for what is slower
    than the peer, and 0.2, 0.4, 0.6, 0.8, 1 for speed-ups from 1, 1.2, 1.5, 2, 3."""
    if not row.reached("compiled"):
        return -0.5
    if not correctness(row):
        return -0.3
    ratio = speedup(row, peer)
    return next((reward for least, reward in _STEPS if ratio >= least), -0.1)


def share_of_roof(row: Row) -> float:
    """The larger share of what the kernel reached: of the measured copy bandwidth, or of a stated peak; between 0 and 1."""
    roof = (row.time or {}).get("roofline") or {}
    shares = [s for s in (roof.get("share_of_measured_copy"), roof.get("share_of_stated_peak")) if s]
    return correctness(row) * min(max(shares, default=0.0), 1.0)


def unhindered(row: Row) -> float:
    """1 less a quarter for each of :func:`hints`, at least 0, for a kernel whose machine code was read; it says nothing of a
    time."""
    return correctness(row) * max(0.0, 1.0 - len(hints(row)) / 4) if row.resources else 0.0


def hints(row: Row) -> tuple[str, ...]:
    """What the row knows of why a kernel is slow, in words, worst first."""
    used, roof = row.resources or {}, (row.time or {}).get("roofline") or {}
    found = []
    if used.get("spills"):
        found.append(f"{used['spills']} registers are spilled")
    if used.get("scratch_bytes"):
        found.append(f"{used['scratch_bytes']} bytes of scratch a thread")
    if used.get("occupancy") is not None and used["occupancy"] < 0.5:
        limited = f", limited by {used['limiter']}" if used.get("limiter") else ""
        found.append(f"occupancy is {used['occupancy']:.0%}{limited}")
    if roof and max(roof.get("share_of_measured_copy") or 0, roof.get("share_of_stated_peak") or 0) < 0.5:
        found.append("less than half of what the device can do" + (f" ({roof['limiter']})" if roof.get("limiter") else ""))
    return tuple(found)


def _peer(row: Row, name: str | None) -> Mapping[str, Any] | None:
    timed = [p for p in (row.time or {}).get("peers") or () if p.get("ratio")]
    return next((p for p in timed if name in (None, p["name"])), None)


REWARDS: dict[str, Callable[..., float]] = {
    f.__name__: f for f in (correctness, speedup, sure_speedup, fast_p, kevin, kernelgym, kernelgym_speedup, kernelgym_steps,
                            share_of_roof, unhindered)
}  # fmt: skip


def reward(row: Row, name: str, **options: Any) -> float:
    """Raises :class:`UsageError` for a name that is none of :data:`REWARDS`, or options that it does not take."""
    if name not in REWARDS:
        raise UsageError(f"no reward is called {name!r}", hint=f"there are {', '.join(REWARDS)}")
    try:
        return REWARDS[name](row, **options)
    except TypeError as error:
        raise UsageError(f"the reward {name} does not take {', '.join(options)}", hint=str(REWARDS[name].__doc__)) from error
