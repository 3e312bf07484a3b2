"""A study as a comparison gives it, with figures that were made up, and texts that were emitted."""

from __future__ import annotations

from typing import Any

from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.porting import porting_notes
from portakern.study.row import Row
from portakern.study.study import SourceFacts, Study
from portakern.study.work import like_typical, works

TARGETS = ("numba:cpu", "cuda:sm_90a", "triton:sm_90", "hip:gfx942", "pallas:v6e")

PTX = '''
	.loc	1 8 0
	ld.param.u64 	%rd1, [softmax_param_0];
	.loc	1 14 5
	.loc	2 42 9, function_name $L__info_string7, inlined_at 1 14 5
	cvt.f32.bf16 	%f1, %rs1;
	.file	1 "/softmax.cu"
	.file	2 "/pk/tile.cuh"
'''

ENVIRONMENT = {"portakern": "0.1.0", "python": "3.11.7", "system": "Linux", "processor": "a processor",
               "commit": "0123456789ab"}  # fmt: skip


def timed(us: float, peers: dict[str, float] | None = None, taken: str = "2026-11-26T10:00:00.000+00:00") -> dict[str, Any]:
    """The ``time`` of a row, each with 2 % on either side."""
    def about(x: float) -> dict[str, float]:
        return {"median_us": x, "ci_low_us": 0.98 * x, "ci_high_us": 1.02 * x}

    told = [{"name": name, "ratio": x / us, "ci_low": 0.97 * x / us, "ci_high": 1.03 * x / us,
             "verdict": "FASTER" if x > us else "SLOWER", **about(x)} for name, x in (peers or {}).items()]  # fmt: skip
    return {**about(us), "samples": 50, "mode": "cold", "peers": told, "provenance": {"taken": taken},
            "roofline": {"share_of_measured_copy": 0.5, "measured_copy_gbs": 20.0}}  # fmt: skip


def study(operator: str = "softmax") -> Study:
    """A row for each kind of mark and of ending: timed with peers, neither timed nor estimated, estimated, wrong, failed."""
    op = load_operator(operator)
    made = [steps.emit_row(w) for w in works(like_typical(op, {}, {}), [registry().target(t) for t in TARGETS], ["bf16"])]
    numba, cuda, triton, hip, pallas = (m.row.but(environment=ENVIRONMENT) for m in made)
    resources = {"registers": 128, "shared_bytes": 65536, "code_bytes": 4096, "occupancy": 0.25, "limiter": "registers"}
    rows = (
        numba.but(evidence="timed", correct=True, max_error_ratio=0.5,
                  time=timed(100.0, {"numpy": 900.0, "torch.eager": 80.0})),
        cuda.but(evidence="interpreted", correct=True, max_error_ratio=0.9, resources=resources, binary_hash="cubin"),
        triton.but(evidence="compiled", error={"kind": "check-died", "message": "gone <b>", "hint": "look & see"}),
        hip.but(evidence="simulated", correct=True, max_error_ratio=1.0, resources=resources, estimate={
            "us": 12.5, "limiter": "memory", "model": "amd", "version": "7", "confidence": "a bound", "peers": []}),
        pallas.but(evidence="interpreted", correct=False, max_error_ratio=7.0),
    )  # fmt: skip
    sources = [m.source for m in made if m.source is not None]
    facts = {s.digest: SourceFacts(s.suffix, m.operations) for s, m in zip(sources, made, strict=True)}
    return Study(rows, ENVIRONMENT, {s.digest: s.text for s in sources}, {"cubin": PTX}, porting_notes(rows), facts)


def sweep(times: dict[str, dict[int, float]], peers: dict[int, float] | None = None) -> tuple[Row, ...]:
    """Rows of row_sum over M: times in microseconds by target and size, and those of one peer of the first target."""
    first = next(iter(times))
    return tuple(
        Row("row_sum", target, shape={"M": m, "N": 64}, dtype="f32", evidence="timed", correct=True,
            cost={"bytes": 4 * m * 65, "flops": 64 * m, "peak": "peak_f32"},
            time=timed(us, {"numpy": peers[m]} if peers and target == first else None))
        for target, sizes in times.items() for m, us in sizes.items()
    )  # fmt: skip
