"""How good the NVIDIA estimate is: kernels and schedules measured on a GPU, constants fitted on one half, errors on the other.

    python benchmarks/nvidia_estimate.py cuda:h100-sxm --out h100.jsonl              measures, fits and prints
    python benchmarks/nvidia_estimate.py cuda:h100-sxm --out h100.jsonl --limit 500  begins no case after 500 seconds
    python benchmarks/nvidia_estimate.py --report h100.jsonl                         fits and prints what was measured, no GPU
    python benchmarks/nvidia_estimate.py cuda:h200 --dry --out dry.jsonl             no GPU: times made up by the model itself

The same command goes on where it stopped.  A case is an operator at a size, a dtype and one of the schedules that the backend
lists.  Kernels are compiled in worker processes; each is timed by the protocol of docs/timing.md for a quarter of a second at
most, with cold caches.  Every line of the file is one case: what the model makes of its machine code, and the time (or why
there is none).  Cases of one operator, size and dtype are on the same side of the split.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from portakern.backends.cuda.cost.estimator import Constants, predicted
from portakern.backends.cuda.cost.features import Features
from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.work import Problem, Work, works
from portakern.tools.workers import Job, WorkerPool

ROWS = tuple({"M": m, "N": n} for m, n in ((512, 512), (2048, 2048), (4096, 1000), (1024, 16384), (8192, 8192)))
PRODUCTS = tuple(
    {"M": m, "N": n, "K": k}
    for m, n, k in (
        (512, 512, 512),
        (1024, 1024, 1024),
        (2048, 1000, 512),
        (4096, 512, 4096),
        (128, 4096, 4096),
        (3000, 2000, 1000),
        (4096, 4096, 4096),
    )
)
HEADS = tuple(
    {"B": b, "H": 8, "G": 1, "SQ": s, "SK": s, "D": 64, "causal": c}
    for b, s, c in ((1, 512, False), (2, 1024, True), (1, 4096, True))
)
BY_ROWS = ("softmax", "rms_norm", "layer_norm", "add_relu", "silu_mul", "row_sum", "transpose", "cumsum", "cross_entropy")
SIZES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    **dict.fromkeys(BY_ROWS, ROWS),
    "matmul": PRODUCTS,
    "matmul_bias_gelu": PRODUCTS,
    "attention": HEADS,
}
DTYPES = ("bf16", "f32")
SCHEDULES = 3
"""Of each operator, size and dtype: the default and others spread over the backend's list."""
BUDGET_S = 0.25
HIDDEN = Constants(2.2, 0.7, 0.65, 0.9, 0.6, 0.5, 0.87, 1.3, 3.0)
"""Of a dry run's chip, which the fit does not know."""


@dataclass(frozen=True)
class Case:
    operator: str
    sizes: tuple[tuple[str, Any], ...]
    dtype: str
    schedule: str

    @property
    def problem(self) -> str:
        return f"{self.operator} {','.join(f'{k}={v}' for k, v in self.sizes)} {self.dtype}"

    @property
    def name(self) -> str:
        return f"{self.problem} {self.schedule}"


def work_of(case: Case, target: str) -> Work:
    op = load_operator(case.operator)
    sizes = dict(case.sizes)
    dims = {k: v for k, v in sizes.items() if k in op.dims}
    params = {k: v for k, v in sizes.items() if k not in op.dims}
    (work,) = works(Problem(op, dims, params), [registry().target(target)], [case.dtype], case.schedule or None)
    return work


def cases(target: str, schedules: int) -> Iterator[Case]:
    """Those that the backend has schedules for; programs of several nests have their default one."""
    from portakern.tuning.tuner import nests_of

    aim = registry().target(target)
    listed = registry().language(aim.language).schedules
    for operator, sizes in SIZES.items():
        for size in sizes:
            for dtype in DTYPES:
                plain = Case(operator, tuple(size.items()), dtype, "")
                try:
                    nests = nests_of(work_of(plain, target))
                except PortakernError:
                    continue
                if len(nests) != 1:
                    yield plain
                    continue
                texts = list(dict.fromkeys(map(str, listed(nests[0], aim.device))))
                for n in sorted({round(i * (len(texts) - 1) / max(1, schedules - 1)) for i in range(schedules)}):
                    yield replace(plain, schedule=texts[n])


# ---- the model and the chip ----------------------------------------------------------------------------------------------


def modelled(case: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Features of the launches of a :class:`Case` (its fields), or why there are none.  Runs in a worker."""
    try:
        row = steps.build(work_of(Case(**case), target), estimate=True).row
    except PortakernError as error:
        return {"error": error.message.splitlines()[0]}
    if row.estimate is None:
        return {"error": (row.error or {}).get("message", row.method or "no estimate").splitlines()[0]}
    return {"features": row.estimate["details"]["kernels"]}


class Chip:
    """The GPU of a target, by torch's arrays and the timing core."""

    def __init__(self, target: str) -> None:
        import torch

        from portakern.timing import Options

        aim = registry().target(target)
        runtime: Any = registry().language(aim.language).runtime
        if not (there := runtime.available(aim)):
            raise SystemExit(f"{target} cannot be timed here: {there.detail}")
        self.torch, self.target, self.device = torch, target, runtime.device(aim)
        self.options = Options(budget_s=BUDGET_S, min_samples=5, max_samples=200, warm_up_s=0.02)

    def us(self, case: Case) -> float:
        import portakern as pk
        from portakern.launch.packing import shape_of
        from portakern.timing import Contender, measure

        built = pk.build(case.operator, self.target, dtype=case.dtype, schedule=case.schedule or None, **dict(case.sizes))
        arrays = [self._array(shape_of(a, {}), a.dtype) for a in built.program.arrays if a.role == "input"]
        prepared = built.prepare(*arrays)
        if prepared.call is None:
            raise PortakernError("no-call", f"{self.target} has no calls for the timing core")
        contender = Contender(case.name, [prepared.call], prepared.stream)
        return measure(self.device, [contender], self.options).timings[0].median_us

    def _array(self, shape: Sequence[int], dtype: str) -> Any:
        words = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "bool": "bool"}
        if dtype in words and dtype != "bool":
            return self.torch.randn(*shape, device="cuda").to(getattr(self.torch, words[dtype]))
        integer = words.get(dtype, dtype.replace("i", "int").replace("u", "uint"))
        return self.torch.zeros(*shape, device="cuda", dtype=getattr(self.torch, integer))


def made_up(found: Sequence[Mapping[str, Any]], name: str) -> float:
    """A time by the model with other constants, and noise of 5%."""
    noise = random.Random(name).gauss(0, 0.05)
    return sum(predicted(f, HIDDEN) for f in restored(found)) * (1 + noise)


def restored(found: Sequence[Mapping[str, Any]]) -> list[Features]:
    return [Features(**{**f, "doubts": tuple(f["doubts"])}) for f in found]


def measured(target: str, asked: argparse.Namespace) -> None:
    """Appends a line for every case that the file does not have."""
    out: Path = asked.out
    have = {entry["case"] for entry in lines_of(out)}
    todo = [c for c in cases(target, asked.schedules) if c.name not in have and asked.only in c.name][: asked.most]
    print(f"{len(have)} cases in {out}, {len(todo)} to go", file=sys.stderr)
    chip = None if asked.dry else Chip(target)
    begin = time.monotonic()
    here = f"{Path(__file__).stem}:modelled"  # whose folder is on sys.path, which workers get
    jobs = [Job(n, here, (asdict(c), target), {}, 300.0) for n, c in enumerate(todo)]
    with WorkerPool(asked.jobs) as pool, out.open("a") as file:
        for outcome in pool.run(jobs):
            case = todo[int(str(outcome.id))]
            entry: dict[str, Any] = outcome.value if outcome.error is None else {"error": outcome.error.message.splitlines()[0]}
            if "features" in entry:
                try:
                    entry["us"] = chip.us(case) if chip is not None else made_up(entry["features"], case.name)
                except Exception as error:  # one case must not end the others
                    entry = {"error": f"not timed: {type(error).__name__}: {error}"[:300]}
            entry = {"case": case.name, "problem": case.problem, "operator": case.operator, "target": target} | entry
            print(json.dumps(entry), file=file, flush=True)
            if time.monotonic() - begin > asked.limit:
                print("the time is over; the same command goes on", file=sys.stderr)
                return


def lines_of(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:  # cut off by an interrupt
            continue
    return found


# ---- fitting and judging ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    problem: str
    operator: str
    launches: tuple[Features, ...]
    us: float

    def ratio(self, c: Constants) -> float:
        return sum(predicted(f, c) for f in self.launches) / self.us


FREE = tuple(f.name for f in fields(Constants))
LIMITS = {"launch_us": (0.2, 20.0), "latency": (0.2, 5.0), "exponent": (1.0, 16.0)}
SHARE = (0.1, 1.2)
"""Between which bounds the constants may be, where not said."""


def error_of(points: Sequence[Point], c: Constants) -> float:
    """Mean of |predicted - measured| / measured."""
    return sum(abs(p.ratio(c) - 1) for p in points) / len(points)


def fitted(points: Sequence[Point], start: Constants) -> Constants:
    """By steps of one constant after the other, smaller where none helps."""
    best, least, step = start, error_of(points, start), 1.5
    while step > 1.005:
        before = least
        for name in FREE:
            low, high = LIMITS.get(name, SHARE)
            for factor in (step, 1 / step):
                tried = replace(best, **{name: min(high, max(low, getattr(best, name) * factor))})
                error = error_of(points, tried)
                if error < least:
                    best, least = tried, error
        if least > before - 1e-5:
            step = step**0.5
    return best


def split(points: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """To fit on, and held out: by problem, each second one in an order that its name's hash gives."""
    names = sorted({p.problem for p in points}, key=lambda n: hashlib.sha256(n.encode()).hexdigest())
    first = set(names[::2])
    return [p for p in points if p.problem in first], [p for p in points if p.problem not in first]


def spearman(points: Sequence[Point], c: Constants) -> float:
    """Correlation of the ranks of predicted and measured times."""
    import numpy as np

    def ranks(values: Sequence[float]) -> Any:
        return np.argsort(np.argsort(values)).astype(float)

    if len(points) < 2:
        return float("nan")
    a, b = ranks([p.ratio(c) * p.us for p in points]), ranks([p.us for p in points])
    return float(np.corrcoef(a, b)[0, 1])


def report(entries: Sequence[Mapping[str, Any]]) -> int:
    points = [Point(e["problem"], e["operator"], tuple(restored(e["features"])), e["us"]) for e in entries if "us" in e]
    failed = [e for e in entries if "us" not in e]
    if len(points) < 4:
        print(f"{len(points)} cases have a time: too few to fit")
        return 1
    known, held = split(points)
    c = fitted(known, Constants())
    targets = ", ".join({e["target"] for e in entries})
    print(f"{len(points)} kernels and schedules with a time, {len(failed)} without, of {targets}")
    for name, part in (("fitted on", known), ("held out", held)):
        before = error_of(part, Constants())
        print(f"{name:<10}{len(part):>5} cases: mean error {error_of(part, c):6.1%} (as shipped {before:6.1%}), "
              f"Spearman {spearman(part, c):.3f}")  # fmt: skip
    print("\noperator            cases  mean error  median of predicted/measured   (held out)")
    for operator in dict.fromkeys(p.operator for p in held):
        part = [p for p in held if p.operator == operator]
        ratios = sorted(p.ratio(c) for p in part)
        print(f"{operator:<20}{len(part):>5}{error_of(part, c):>11.1%}{ratios[len(ratios) // 2]:>12.2f}")
    print("\nconstants: " + ", ".join(f"{k}={v:.3g}" for k, v in asdict(c).items()))
    for e in failed[:10]:
        print(f"no time: {e['case']}: {e.get('error', '')}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", default="")
    parser.add_argument("--out", type=Path, default=Path("nvidia_estimate.jsonl"), help="a line a case; what is there is kept")
    parser.add_argument("--report", type=Path, metavar="FILE", help="measures nothing")
    parser.add_argument("--dry", action="store_true", help="times are made up: shows that all of it works")
    parser.add_argument("--limit", type=float, default=1e9, metavar="S", help="seconds after which no case is begun")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="of each operator, size and dtype")
    parser.add_argument("--most", type=int, default=10**6, help="cases in this run")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="workers that compile")
    asked = parser.parse_args(arguments)
    if asked.report is not None:
        return report(lines_of(asked.report))
    if not asked.target:
        parser.error("which target? cuda:h100-sxm, for one")
    measured(asked.target, asked)
    return report(lines_of(asked.out))


if __name__ == "__main__":
    raise SystemExit(main())
