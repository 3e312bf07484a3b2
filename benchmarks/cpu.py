"""Operators on this machine's processor beside PyTorch eager, in turns, in one process.

    python benchmarks/cpu.py                                        every case on cpp:cpu, one thread
    python benchmarks/cpu.py --targets cpp:cpu,opencl:cpu --only matmul,conv --dtype bf16
    python benchmarks/cpu.py --threads 2                            all by the clock on the wall: for a quiet machine
    python benchmarks/cpu.py --only matmul --shape M=777,N=1111,K=3333

With one thread the process is bound to one core and what is counted is the processor time of the whole process, so that what
other processes do to the clock on the wall does not count (what they do to caches and to the clock rate does).  A round is one
short run of ours and one of PyTorch's, and its ratio is PyTorch's time over ours; printed are the median of the rounds' ratios
and its quartiles.  Results are compared with PyTorch's before anything is timed.  Caches are warm.
Ours writes into an array that was made before, PyTorch makes its result anew, as its users do; with --fresh ours does as well,
which matters where results are large and quickly computed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """An operator with its dims and parameters; ``dtypes`` are those it is timed in."""

    operator: str
    values: Mapping[str, Any]
    dtypes: tuple[str, ...] = ("f32", "bf16")

    @property
    def text(self) -> str:
        return f"{self.operator} {','.join(f'{k}={v}' for k, v in self.values.items())}"


def product(m: int, n: int, k: int, **more: Any) -> Case:
    return Case("matmul", {"M": m, "N": n, "K": k, **more})


def image(operator: str, n: int, hw: int, c: int, **more: Any) -> Case:
    return Case(operator, {"N": n, "H": hw, "W": hw, "C": c, **more})


F32 = ("f32",)
CASES = (
    product(1024, 1024, 1024), product(512, 512, 512), product(1000, 777, 333), product(64, 4096, 4096),
    product(4096, 64, 4096), product(2048, 2048, 2048), product(256, 256, 256, B=(12,)), product(128, 128, 64, B=(96,)),
    product(1024, 1024, 1024, transpose_b=True), product(1024, 1024, 1024, transpose_a=True), product(1, 4096, 4096),
    Case("matmul_bias_gelu", {"M": 1024, "N": 1024, "K": 1024}),
    Case("attention", {"B": 1, "H": 8, "G": 1, "SQ": 1024, "SK": 1024, "D": 64, "causal": True}),
    Case("attention", {"B": 1, "H": 8, "G": 1, "SQ": 1024, "SK": 1024, "D": 64}),
    Case("attention", {"B": 4, "H": 8, "G": 1, "SQ": 1, "SK": 2048, "D": 64}),
    image("conv2d", 1, 56, 64, O=64), image("conv2d", 8, 28, 128, O=128), image("conv2d", 1, 14, 256, O=256),
    image("conv2d", 1, 56, 64, O=256, window=1, padding=0), image("conv2d", 1, 224, 3, O=64, window=7, stride=2, padding=3),
    image("conv2d", 1, 56, 64, O=64, layout="NCHW"), image("conv2d_bias_relu", 1, 56, 64, O=64),
    image("depthwise_conv", 1, 56, 128), image("depthwise_conv", 1, 112, 64, stride=2),
    image("depthwise_conv", 1, 28, 256, window=5, padding=2),
    image("max_pool", 1, 112, 64), image("max_pool", 8, 56, 128, window=2, padding=0),
    image("avg_pool", 1, 112, 64), image("avg_pool", 1, 56, 128, window=3, stride=1, padding=1),
    Case("softmax", {"M": 4096, "N": 4096}), Case("rms_norm", {"M": 4096, "N": 4096}),
    Case("layer_norm", {"M": 4096, "N": 4096}), Case("row_sum", {"M": 4096, "N": 4096}),
    Case("cross_entropy", {"M": 1024, "N": 32000}, F32), Case("add_relu", {"M": 4096, "N": 4096}),
    Case("silu_mul", {"M": 4096, "N": 4096}), Case("transpose", {"M": 4096, "N": 4096}),
    Case("cumsum", {"M": 1024, "N": 4096}, F32),
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cpp:cpu")
    parser.add_argument("--only", default="", help="parts of the cases' texts, with commas")
    parser.add_argument("--typical", action="store_true", help="every operator of the library at its typical case instead")
    parser.add_argument("--shape", default="", help="one case of the operator named by --only, at these dims")
    parser.add_argument("--schedule", default=None)
    parser.add_argument("--dtype", default="f32,bf16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--fresh", action="store_true", help="make new arrays in every call of ours, too")
    asked = parser.parse_args(arguments)
    limit_threads(asked.threads)
    from quiet import Others

    others, found = Others(), dict[str, list[float]]()
    print(f"{'case':58s} {'dtype':5s} {'target':11s} {'torch us':>9s} {'ours us':>9s} {'ratio':>6s} {'quartiles':>12s}")
    for case in chosen(asked):
        for dtype in (d for d in asked.dtype.split(",") if d in case.dtypes):
            for target in asked.targets.split(","):
                ratio = line(case, dtype, target, asked)
                if ratio:
                    found.setdefault(f"{target} {dtype}", []).append(ratio)
    for key, ratios in found.items():
        behind = sum(r < 1 for r in ratios)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{key}: geometric mean {mean:.2f} of {len(ratios)} cases, {behind} below 1.00, least {min(ratios):.2f}")
    print(others)
    return 0


def limit_threads(threads: int) -> None:
    """Before any library starts its own."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    for name in ("PORTAKERN_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(threads)
    import torch

    torch.set_num_threads(threads)


def chosen(asked: argparse.Namespace) -> list[Case]:
    if asked.shape:
        return [Case(asked.only, {k: literal(v) for k, v in (x.split("=") for x in asked.shape.split(","))})]
    cases = typical() if asked.typical else list(CASES)
    return [c for c in cases if not asked.only or any(part in c.text for part in asked.only.split(","))]


def literal(text: str) -> Any:
    return {"true": True, "false": False}.get(text, int(text) if text.lstrip("-").isdigit() else text)


def typical() -> list[Case]:
    from portakern.spec.load import library

    return [Case(o.name, {**o.typical.dims, **o.typical.params}) for o in library()]


def line(case: Case, dtype: str, target: str, asked: argparse.Namespace) -> float | None:
    from portakern.errors import PortakernError

    begin = f"{case.text[:58]:58s} {dtype:5s} {target:11s}"
    try:
        ours, theirs = calls(case, dtype, target, asked)
    except (PortakernError, NotImplementedError) as error:  # PyTorch has not every operator in every dtype
        print(f"{begin} {str(error).splitlines()[0]}")
        return None
    clock = time.process_time_ns if asked.threads == 1 else time.perf_counter_ns
    rounds = [turn(ours, theirs, clock, n) for n in range(asked.rounds)]
    ratios = sorted(b / a for a, b in rounds)
    ratio, (low, high) = ratios[len(ratios) // 2], (ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4])
    print(f"{begin} {min(b for _, b in rounds):9.1f} {min(a for a, _ in rounds):9.1f} {ratio:6.2f}  {low:.2f} to {high:.2f}",
          flush=True)  # fmt: skip
    return ratio


def calls(case: Case, dtype: str, target: str, asked: argparse.Namespace) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """(ours, PyTorch's) on the same numbers, whose results were compared."""
    import portakern as pk
    from portakern.spec.inputs import make_inputs
    from portakern.spec.load import load_operator
    from portakern.timing.inputs import TorchPlace
    from portakern.timing.peers import Subject, find

    operator = load_operator(case.operator)
    built = pk.build(case.operator, target=target, dtype=dtype, schedule=asked.schedule, **case.values)
    sizes = {k: v for k, v in case.values.items() if k not in operator.params and isinstance(v, int)}
    host = make_inputs(built.tensor_program, operator.families, sizes=sizes)
    place = TorchPlace("cpu")
    tensors = [place.put(x) if getattr(x, "ndim", 0) else x for x in host.values()]
    params = operator.check_params({k: v for k, v in case.values.items() if k in operator.params})
    peer = find("torch.eager", Subject(built.tensor_program, operator.torch, params))
    ours = built.prepare(*tensors)
    ours()
    compare(case, ours.outputs, peer.call(*tensors))
    if asked.fresh:
        return lambda: built(*tensors), lambda: peer.call(*tensors)
    wait = getattr(getattr(ours, "call", None), "device", None)
    return (lambda: (ours(), wait.synchronize())) if wait is not None else ours, lambda: peer.call(*tensors)


def compare(case: Case, ours: Sequence[Any], theirs: Any) -> None:
    several = theirs if isinstance(theirs, tuple | list) else (theirs,)
    for mine, other in zip(ours, several, strict=True):
        mine, other = mine.double(), other.double().reshape(mine.shape)
        error, size = float((mine - other).abs().max()), float(other.abs().max())
        if not error <= 0.02 * max(size, 1e-3):
            print(f"{case.text}: differs from PyTorch by {error:.3g} of {size:.3g}")


def turn(ours: Callable[[], Any], theirs: Callable[[], Any], clock: Callable[[], int], number: int) -> tuple[float, float]:
    """Microseconds a call of each, after one another; every other turn PyTorch goes first."""
    if number % 2:
        other = spent(theirs, clock)
        return spent(ours, clock), other
    mine = spent(ours, clock)
    return mine, spent(theirs, clock)


def spent(call: Callable[[], Any], clock: Callable[[], int], least_us: float = 20_000) -> float:
    count = 1
    while True:
        begun = clock()
        for _ in range(count):
            call()
        taken = (clock() - begun) / 1e3
        if taken >= least_us:
            return taken / count
        count = max(count + 1, min(count * 8, int(count * least_us * 1.2 / max(taken, 1))))


if __name__ == "__main__":
    sys.exit(main())
