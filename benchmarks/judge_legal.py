"""Whether the judge rejects kernels that are right: those of the library under many schedules, of modules of PyTorch, and
hand-written ones.

    python benchmarks/judge_legal.py [--targets T,..] [--count N] [--seed S] [--level quick|full] [--workers N] [--from KIND,..]

``library`` are the operators of the library at their own cases, in the dtypes that they declare, under the default schedule
and under ones that are drawn from the backend's space; ``torch`` modules and functions of PyTorch, imported; ``written`` the
texts of ``tests/judge`` that are right and look odd.  For each target as many are drawn as are asked for, of each kind in turn.
What the target cannot emit, has no room for under a schedule, or an interpreter does not get through in time is not counted;
each kernel that is not found correct is printed with what was said of it.  Exit status 1 where there is one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import portakern as pk
from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.asking import operators_of
from portakern.study.judging import Judge, Limits
from portakern.study.row import Row
from portakern.study.task import space_of
from portakern.study.work import Problem, Work, of_case, schedule_asked, works

TARGETS = "cpp:cpu,numba:cpu,opencl:cpu,hip:gfx942,triton:sm_90,pallas:v6e"
INTERPRETED = ("triton", "pallas", "hip", "cuda")
MOST = {"": 1 << 22, "interpreted": 1 << 15}
"""Elements and operations of a program beyond which it is not taken, since that would take minutes."""

UNTRIED = ("tool-missing", "no-emitter", "schedule", "missing-rule", "no-room", "timeout")
TRIES = 40


@dataclass(frozen=True)
class Legal:
    """A kernel that is right: what it computes, its text, and what it is."""

    work: Work
    text: str
    what: str
    entry: str | None = None


def small(work: Work, language: str) -> bool:
    cost = work.row.cost or {}
    most = MOST["interpreted" if language in INTERPRETED else ""]
    figures = [v for v in cost.values() if isinstance(v, int | float)]
    return all(f <= 64 * most for f in figures)


def emitted(work: Work, rng: random.Random, what: str) -> Legal | None:
    """The kernel under the default schedule, or every other time under one that is drawn; ``None`` where it has no room."""
    target = registry().target(work.target)
    try:
        if rng.random() < 1 / 2:
            space = space_of(work, registry().language(target.language))
            chosen = rng.choice(space) if space else ""
            source = steps.emit(replace(work, schedule=schedule_asked(chosen or "default"), chosen=None))[0]
            what += f" {chosen}"
        else:
            source = steps.emission(work).source
    except PortakernError:
        return None
    return Legal(work, source.text, what)


def library(target: str, rng: random.Random) -> Iterator[Legal | None]:
    every = operators_of("all")
    while True:
        op = rng.choice(every)
        case, dtype = rng.choice(list(op.cases)), rng.choice(list(op.dtypes))
        yield taken(of_case(op, case), target, dtype, rng, f"{op.name} {case.name}")


def taken(problem: Problem, target: str, dtype: str, rng: random.Random, what: str) -> Legal | None:
    try:
        (work,) = works(problem, [registry().target(target)], [dtype])
    except PortakernError:
        return None
    return emitted(work, rng, f"{what} {dtype}") if small(work, target.partition(":")[0]) else None


def modules() -> dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """Of PyTorch: a module or function, and arrays to call it with."""
    import torch
    from torch import nn
    from torch.nn import functional as f

    def rows(m: int = 6, n: int = 40) -> Any:
        return torch.randn(m, n)

    return {
        "LayerNorm": lambda: (nn.LayerNorm(40), (rows(),)), "RMSNorm": lambda: (nn.RMSNorm(40), (rows(),)),
        "GroupNorm": lambda: (nn.GroupNorm(4, 8), (torch.randn(2, 8, 5, 5),)),
        "BatchNorm2d": lambda: (nn.BatchNorm2d(6).eval(), (torch.randn(2, 6, 5, 5),)),
        "Softmax": lambda: (nn.Softmax(-1), (rows(),)), "LogSoftmax": lambda: (nn.LogSoftmax(-1), (rows(),)),
        "GELU": lambda: (nn.GELU(), (rows(),)), "SiLU": lambda: (nn.SiLU(), (rows(),)), "Mish": lambda: (nn.Mish(), (rows(),)),
        "Softplus": lambda: (nn.Softplus(), (rows(),)), "Hardswish": lambda: (nn.Hardswish(), (rows(),)),
        "Linear": lambda: (nn.Linear(40, 24), (rows(),)), "Tanh": lambda: (nn.Tanh(), (rows(),)),
        "Conv1d": lambda: (nn.Conv1d(4, 6, 3, padding=1), (torch.randn(2, 4, 17),)),
        "Conv2d": lambda: (nn.Conv2d(4, 6, 3, stride=2), (torch.randn(1, 4, 9, 9),)),
        "ConvTranspose2d": lambda: (nn.ConvTranspose2d(4, 3, 3, stride=2), (torch.randn(1, 4, 5, 5),)),
        "MaxPool2d": lambda: (nn.MaxPool2d(2), (torch.randn(1, 4, 8, 8),)),
        "AvgPool2d": lambda: (nn.AvgPool2d(3, padding=1), (torch.randn(1, 4, 8, 8),)),
        "cross_entropy": lambda: (f.cross_entropy, (rows(), torch.randint(0, 40, (6,)))),
        "mse_loss": lambda: (f.mse_loss, (rows(), rows())), "huber_loss": lambda: (f.huber_loss, (rows(), rows())),
        "cumsum": lambda: (lambda x: torch.cumsum(x, -1), (rows(),)), "var": lambda: (lambda x: x.var(-1), (rows(),)),
        "norm": lambda: (lambda x: x.norm(dim=-1), (rows(),)),
        "logsumexp": lambda: (lambda x: torch.logsumexp(x, -1), (rows(),)),
        "bmm": lambda: (lambda a, b: a @ b, (torch.randn(2, 5, 7), torch.randn(2, 7, 9))),
        "attention": lambda: (lambda q, k, v: f.scaled_dot_product_attention(q, k, v), tuple(torch.randn(3, 1, 2, 9, 16))),
        "GLU": lambda: (nn.GLU(), (rows(),)), "cosine": lambda: (lambda a, b: f.cosine_similarity(a, b), (rows(), rows())),
        "Embedding": lambda: (nn.Embedding(20, 12), (torch.randint(0, 20, (5,)),)),
        "Sequential": lambda: (nn.Sequential(nn.Linear(40, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 8)), (rows(),)),
    }  # fmt: skip


def torch(target: str, rng: random.Random) -> Iterator[Legal | None]:
    from portakern.spec.operator import Operator

    found: dict[str, Operator] = {}
    choices = modules()
    while True:
        name = rng.choice(sorted(choices))
        if name not in found:
            module, inputs = choices[name]()
            found[name] = pk.from_torch(module, inputs)
        op = found[name]
        yield taken(of_case(op, op.typical), target, op.dtypes[0], rng, f"torch {name}")


def written(target: str, rng: random.Random) -> Iterator[Legal | None]:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.judge import decoys
    from tests.judge.unusual import UNUSUAL

    hosts = getattr(decoys, f"{target.partition(':')[0].upper()}_LEGAL", ())
    all_of = [(a, a.entry) for a in UNUSUAL if a.target == target] + [(h, None) for h in hosts]
    rng.shuffle(all_of)
    for text, entry in all_of:
        dims = {n: s for n, s in text.dims.items() if s is not None}
        (work,) = works(Problem(load_operator(text.operator), dims, {}), [registry().target(target)], ["f32"])
        yield Legal(work, text.text, f"written {text.name}", entry)


KINDS: dict[str, Callable[[str, random.Random], Iterator[Legal | None]]] = {
    "library": library, "torch": torch, "written": written}


def drawn(target: str, kinds: list[str], count: int, rng: random.Random) -> Iterator[Legal]:
    """So many, of each kind in turn, none twice."""
    seen: set[tuple[str, str]] = set()
    sources = {k: KINDS[k](target, rng) for k in kinds}
    failed = 0
    while len(seen) < count and sources and failed < TRIES * len(sources):
        for kind in list(sources):
            try:
                found = next(sources[kind])
            except StopIteration:
                del sources[kind]
                continue
            key = (found.text, found.what) if found is not None else ("", "")
            failed += 1
            if found is not None and key not in seen and len(seen) < count:
                seen.add(key)
                failed = 0
                yield found


def judged(target: str, legal: Iterator[Legal], workers: int, level: str) -> Iterator[tuple[Legal, Row]]:
    """A few ahead, in their order."""
    first = next(legal)
    with Judge(first.work, workers, level, Limits(120.0)) as judge:
        under_way: list[tuple[Legal, Future[Row]]] = []
        for one in itertools.chain([first], legal):
            under_way.append((one, judge.submit((one.text, one.entry), work=one.work)))
            while len(under_way) > 2 * workers:
                kernel, future = under_way.pop(0)
                yield kernel, future.result()
        for kernel, future in under_way:
            yield kernel, future.result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--count", type=int, default=170, help="kernels of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--level", choices=("quick", "full"), default="quick")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--from", dest="kinds", default=",".join(KINDS))
    args = parser.parse_args()
    rejected = 0
    for target in args.targets.split(","):
        begun, found = time.perf_counter(), Counter[str]()
        legal = drawn(target, args.kinds.split(","), args.count, random.Random(f"{args.seed} {target}"))
        for kernel, row in judged(target, legal, args.workers, args.level):
            kind = (row.error or {}).get("kind", "")
            found["right" if row.correct else "not tried" if kind in UNTRIED else "rejected"] += 1
            if not row.correct:
                message = (row.error or {}).get("message", "").splitlines()[:3]
                print(f"{target} {kernel.what}: {kind}: {' / '.join(message)[:300]}", flush=True)
        rejected += found["rejected"]
        print(f"{target}: " + ", ".join(f"{n} {what}" for what, n in found.items())
              + f", in {time.perf_counter() - begun:.0f} s at load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
    return int(rejected > 0)


if __name__ == "__main__":
    sys.exit(main())
