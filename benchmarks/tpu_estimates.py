"""Estimates for TPUs: ours beside XLA's under the same model (libtpu's static profile), no TPU and no measurement.

    python benchmarks/tpu_estimates.py                                    all operators at 4096, v5e, v6e and tpu7x
    python benchmarks/tpu_estimates.py --only softmax,matmul --generations v6e --report
    python benchmarks/tpu_estimates.py --peak                             bf16 matmul of 8192: share of the peak
    python benchmarks/tpu_estimates.py --attention-blocks --generations v6e   the default against all block pairs

Kernels and XLA's programs are compiled and profiled in worker processes; results are kept in portakern's cache by the versions
of the model and of libtpu.  A first run takes minutes (XLA's programs are profiled whole), a second one seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study.row import Row
from portakern.study.work import Problem, Work, works
from portakern.tools.workers import Job, WorkerPool

N = 4096
MATRIX = {"M": N, "N": N}
PRODUCT = {**MATRIX, "K": N}
CASES: Mapping[str, Mapping[str, Any]] = {
    "softmax": MATRIX,
    "rms_norm": MATRIX,
    "layer_norm": MATRIX,
    "add_relu": MATRIX,
    "silu_mul": MATRIX,
    "cross_entropy": MATRIX,
    "row_sum": MATRIX,
    "transpose": MATRIX,
    "cumsum": MATRIX,
    "rope": {"B": 1, "S": N, "H": 32, "D": 64},
    "matmul": PRODUCT,
    "matmul_bias_gelu": PRODUCT,
    "attention": {"B": 1, "H": 8, "G": 1, "SQ": N, "SK": N, "D": 128, "causal": True},
}
BLOCKS = (128, 256, 512, 1024, 2048)


def work_of(operator: str, sizes: Mapping[str, Any], generation: str, dtype: str, schedule: Any = None) -> Work:
    op = load_operator(operator)
    dims = {k: v for k, v in sizes.items() if k in op.dims}
    params = {k: v for k, v in sizes.items() if k not in op.dims}
    (work,) = works(Problem(op, dims, params), [registry().target(f"pallas:{generation}")], [dtype], schedule)
    return work


def estimated(asked: Sequence[Work], jobs: int, peers: bool) -> Iterator[tuple[int, Row]]:
    """Rows as they are ready, with the number of the work."""
    environment = dict(registry().language("pallas").environment)
    with WorkerPool(jobs, env=environment) as pool:
        todo = [Job(i, "portakern.study.steps:build", (w,), {"estimate": True, "peers": peers}, 900.0)
                for i, w in enumerate(asked)]  # fmt: skip
        for outcome in pool.run(todo):
            number = int(str(outcome.id))
            yield number, outcome.value.row if outcome.error is None else asked[number].row.failed(outcome.error)


def told(row: Row) -> str:
    """Why there is no figure."""
    if row.error is not None:
        return row.error["message"].splitlines()[0][:120]
    return (row.method or "").rpartition("no estimate: ")[2][:160]


def compare(args: argparse.Namespace) -> list[Row]:
    asked = [work_of(o, CASES[o], g, args.dtype) for o in args.only for g in args.generations]
    print(f"{'operator':18} {'target':8} {'ours us':>9} {'XLA us':>9} {'ours/XLA':>8}  what bounds ours")
    rows = []
    for number, row in estimated(asked, args.jobs, peers=True):
        work, found = asked[number], row.estimate
        rows.append(row)
        head = f"{work.row.operator:18} {work.target.partition(':')[2]:8}"
        if found is None:
            print(f"{head} {'-':>9} {told(row)}", flush=True)
            continue
        peer = next(iter(found.get("peers") or []), {})
        theirs = f"{peer['us']:9.1f} {1 / peer['ratio']:8.3f}" if peer.get("ratio") else f"{'-':>9} {'-':>8}"
        why = "" if peer.get("ratio") else f"; no XLA: {peer.get('error', '')[:110]}"
        low = " (low confidence)" if found["confidence"].startswith("low") else ""
        print(f"{head} {found['us']:9.1f} {theirs}  {found['limiter']}{low}{why}", flush=True)
        if args.report:
            print("\n".join(f"    {line}" for line in (*found["report"], found["confidence"], *peer.get("report", ()))))
    return rows


def peak(args: argparse.Namespace) -> list[Row]:
    sizes = {"M": 8192, "N": 8192, "K": 8192}
    rows = []
    for number, row in estimated([work_of("matmul", sizes, g, "bf16") for g in args.generations], args.jobs, peers=False):
        generation = args.generations[number]
        rows.append(row)
        if row.estimate is None:
            print(f"{generation}: {told(row)}")
            continue
        of = row.estimate["details"]["core"]["peak"]
        us = row.estimate["us"]
        print(f"matmul 8192 bf16 {generation:6} {us:8.1f} us, {2 * 8192**3 / us * 1e6 / of:.1%} of {of / 1e12:.0f} TFLOP/s"
              f" ({row.estimate['limiter']}; {row.schedule})", flush=True)  # fmt: skip
    return rows


def attention_blocks(args: argparse.Namespace) -> list[Row]:
    sizes = {"B": 1, "H": 8, "G": 1, "SQ": 2048, "SK": 2048, "D": 128, "causal": args.causal}
    pairs = list(itertools.product(BLOCKS, BLOCKS))
    rows = []
    for generation in args.generations:
        asked = [work_of("attention", sizes, generation, "bf16", s) for s in [None, *({"m": m, "n": n} for m, n in pairs)]]
        found: dict[int, float] = {}
        for number, row in estimated(asked, args.jobs, peers=False):
            rows.append(row)
            if row.estimate is not None:
                found[number] = row.estimate["us"]
        best = min(found, key=lambda i: found[i])
        named = "the default" if best == 0 else "m={}, n={}".format(*pairs[best - 1])
        print(f"attention 8x2048x128 {generation}: default {found[0]:.1f} us, best of {len(found) - 1} pairs that compile "
              f"{found[best]:.1f} us ({named}); {found[0] / found[best]:.3f}", flush=True)  # fmt: skip
        for number in sorted(found, key=lambda i: found[i]):
            if args.report and number:
                print(f"    m={pairs[number - 1][0]:5} n={pairs[number - 1][1]:5} {found[number]:9.1f} us")
    return rows


def main() -> None:
    names = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, default=list(CASES), help="operators")
    parser.add_argument("--generations", type=names, default=["v5e", "v6e", "tpu7x"])
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="where the cycles and bytes go")
    parser.add_argument("--peak", action="store_true")
    parser.add_argument("--attention-blocks", action="store_true")
    parser.add_argument("--causal", action="store_true", help="of --attention-blocks")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = peak(args) if args.peak else attention_blocks(args) if args.attention_blocks else compare(args)
    if args.json is not None:
        args.json.write_text(json.dumps([r.to_dict() for r in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
