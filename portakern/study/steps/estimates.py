"""What a cost model says of what was compiled, and of peers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from portakern.backend import (
    CompiledBinary,
    Estimate,
    EstimatesPeers,
    Estimator,
    Source,
    Target,
)
from portakern.errors import (
    PortakernError,
    defect,
)
from portakern.ir.program import Program
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study.row import estimate_dict
from portakern.study.steps.outcome import Build
from portakern.study.steps.source import emission_for
from portakern.study.work import Work
from portakern.tools.cache import Cache, digest


def estimated(made: Build, work: Work, binary: CompiledBinary, peers: bool) -> Build:
    def figures(estimator: Estimator) -> dict[str, Any]:
        assert made.source is not None
        found = estimate_of(estimator, made.source, binary, work)
        if peers and work.foreign is None:
            found = {**found, "peers": estimated_peers(estimator, made.source.target, work, found["us"])}
        return found

    return with_estimate(made, figures)


def with_estimate(made: Build, figures: Callable[[Estimator], dict[str, Any]]) -> Build:
    """With an estimate where there is a model of the target; what the model does not know is said, and is no failure."""
    assert made.source is not None
    estimator = registry().estimator(made.source.target)
    if estimator is None:
        return made
    if not (available := estimator.available(made.source.target)):
        return replace(made, row=made.row.but(method=f"{made.row.method}; no estimate: {available.detail}"))
    try:
        row = made.row.but(estimate=figures(estimator))
    except PortakernError as error:
        row = made.row.but(method=f"{made.row.method}; no estimate: {error.message}")
    except Exception as error:  # a model's defect must not take along that the kernel compiled
        row = made.row.but(method=f"{made.row.method}; no estimate: {defect(error).message}")
    return replace(made, row=row)


def estimate_of(estimator: Estimator, source: Source, binary: CompiledBinary, work: Work) -> dict[str, Any]:
    """The estimate as JSON, from the cache where the same code was estimated at the same sizes by this version of the model."""
    def program() -> Program | None:
        return None if work.foreign is not None else emission_for(work).program

    of = (work.program.digest, sorted(work.sizes.items()), repr(work.schedule), repr(work.chosen))
    return kept_estimate(estimator, source, binary, work.sizes, of, program)


def kept_estimate(estimator: Estimator, source: Source, binary: CompiledBinary, sizes: Mapping[str, int], of: Sequence[Any],
                  program: Callable[[], Program | None]) -> dict[str, Any]:  # fmt: skip
    """The same of a source that was emitted from ``program()``, which ``of`` tells from others."""
    from portakern.launch.dispatch import dispatch_sequence_of

    key = digest("estimate", type(estimator).__module__, estimator.version, str(source.target), source.digest, binary.digest,
                 *of)
    kept = Cache().get(key)
    if kept is not None:
        return json.loads(kept)
    sequence = dispatch_sequence_of(source, binary, sizes)
    found = estimate_dict(estimator.estimate(source, binary, sequence, program()))
    Cache().put(key, json.dumps(found).encode())
    return found


def estimated_peers(estimator: Estimator, target: Target, work: Work, ours_us: float) -> list[dict[str, Any]]:
    """What others make of the operator under the same model: ``ratio`` is how many times as long as ours they take."""
    if not isinstance(estimator, EstimatesPeers):
        return []
    program = bind(work.program, work.sizes)
    key = digest("estimated peers", type(estimator).__module__, estimator.version, str(target), program.digest)
    kept = Cache().get(key)
    entries = json.loads(kept) if kept is not None else [peer_entry(n, e) for n, e in estimator.peers(program, target).items()]
    if kept is None:
        Cache().put(key, json.dumps(entries).encode())
    return [{**e, "ratio": e["us"] / ours_us} if e.get("us") else e for e in entries]


def peer_entry(name: str, found: Estimate | PortakernError) -> dict[str, Any]:
    if isinstance(found, PortakernError):
        return {"name": name, "error": found.message}
    return {"name": name, **estimate_dict(found)}
