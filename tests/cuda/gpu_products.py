"""Products off the usual path on a GPU: one array in several roles, sums over several axes, mixed dtypes, chains.

    python -m tests.cuda.gpu_products [cuda:h200,triton:h200] [JOBS]

builds each case for every target, checks it there (or in the interpreter, where there is no GPU) and prints a line. The exit
status is 1 where one of them is not right.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections import Counter

import portakern as pk
from portakern.fuzz.files import read
from portakern.fuzz.outcome import FOUND, OK, TargetOutcome
from portakern.fuzz.program import FuzzProgram
from portakern.fuzz.workshop import Workshop
from portakern.spec.operator import Operator

STAGES = ("integers", "nonfinite", "cancelling")


@pk.operator
def rows_by_rows(x: pk.Tensor["M", "N"]):
    return x @ x.T


@pk.operator
def columns_by_columns(x: pk.Tensor["M", "N"]):
    return x.T @ x


@pk.operator
def squared(x: pk.Tensor["M", "M"]):
    return x @ x


@pk.operator
def newton_schulz(x: pk.Tensor["M", "N"]):
    a = x @ x.T
    return 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x


@pk.operator
def batched_gram(x: pk.Tensor["B", "M", "N"]):
    return pk.einsum("bmn,bkn->bmk", x, x)


@pk.operator
def self_attention(x: pk.Tensor["M", "D"]):
    return pk.softmax(x @ x.T, axis=-1) @ x


@pk.operator
def output_projection(a: pk.Tensor["B", "H", "S", "D"], w: pk.Tensor["H", "D", "E"]):
    return pk.einsum("bhsd,hde->bse", a, w)


@pk.operator
def over_batches(a: pk.Tensor["B", "M", "K"], b: pk.Tensor["B", "N", "M"]):
    return pk.einsum("bmk,bnm->kn", a, b)


@pk.operator
def grouped(x: pk.Tensor["M", "G", "K"], w: pk.Tensor["G", "K", "N"], s: pk.Tensor["G", "N"]):
    return pk.einsum("mgk,gkn->mn", x, w * pk.broadcast_to(pk.reshape(s, (s.shape[0], 1, s.shape[1])), w.shape))


@pk.operator
def three_axes(a: pk.Tensor["A", "B", "C", "M"], b: pk.Tensor["C", "A", "N", "B"]):
    return pk.einsum("abcm,canb->mn", a, b)


@pk.operator
def batch_last(a: pk.Tensor["M", "K", "B"], b: pk.Tensor["K", "N", "B"]):
    return pk.einsum("mkb,knb->mnb", a, b)


@pk.operator
def batch_between(a: pk.Tensor["M", "B", "K"], b: pk.Tensor["B", "N", "K"]):
    return pk.einsum("mbk,bnk->nbm", a, b)


@pk.operator
def linear_attention(q: pk.Tensor["S", "D"], k: pk.Tensor["S", "D"], v: pk.Tensor["S", "E"]):
    kv = pk.einsum("sd,se->de", k, v, dtype=pk.f32)
    return pk.cast(pk.cast(q, pk.f32) @ kv, q.dtype)


@pk.operator
def two_sums(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"], c: pk.Tensor["M", "L", pk.f32], d: pk.Tensor["L", "N", pk.f32]):
    return pk.matmul(a, b, dtype=pk.f32) + c @ d


@pk.operator
def residual(x: pk.Tensor["M", "M"], w: pk.Tensor["M", "M"]):
    return pk.relu(x @ w + x) @ w + x


@pk.operator
def gated(x: pk.Tensor["M", "K"], a: pk.Tensor["K", "N"], b: pk.Tensor["K", "N"]):
    return pk.silu(x @ a) * (x @ b)


@pk.operator
def normalised_gram(x: pk.Tensor["M", "K"]):
    y = x * pk.rsqrt(pk.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return y @ y.T


CASES: dict[Operator, tuple[dict[str, int], ...]] = {
    rows_by_rows: (dict(M=33, N=70), dict(M=64, N=64), dict(M=128, N=256), dict(M=1000, N=1000), dict(M=1, N=17),
                   dict(M=16, N=1024), dict(M=512, N=4096)),
    columns_by_columns: (dict(M=33, N=70), dict(M=1024, N=512)),
    squared: (dict(M=64), dict(M=129), dict(M=1024)),
    newton_schulz: (dict(M=64, N=64), dict(M=33, N=70), dict(M=512, N=1024)),
    batched_gram: (dict(B=3, M=33, N=64), dict(B=4, M=256, N=512)),
    self_attention: (dict(M=33, D=40), dict(M=256, D=64), dict(M=1024, D=128)),
    output_projection: (dict(B=1, H=3, S=16, D=96, E=64), dict(B=2, H=3, S=17, D=64, E=40), dict(B=2, H=8, S=256, D=128, E=512),
                        dict(B=1, H=2, S=8, D=256, E=32)),
    over_batches: (dict(B=3, M=7, K=5, N=9), dict(B=8, M=256, K=256, N=256)),
    grouped: (dict(M=33, G=3, K=32, N=64), dict(M=256, G=16, K=32, N=512)),
    three_axes: (dict(A=2, B=3, C=5, M=17, N=33), dict(A=4, B=8, C=16, M=128, N=128)),
    batch_last: (dict(M=17, K=33, N=9, B=3),),
    batch_between: (dict(M=17, K=33, N=9, B=3), dict(M=256, K=256, N=256, B=4)),
    linear_attention: (dict(S=64, D=64, E=64), dict(S=33, D=17, E=9), dict(S=4096, D=128, E=128)),
    two_sums: (dict(M=64, K=64, N=128, L=64), dict(M=17, K=33, N=9, L=129), dict(M=256, K=512, N=256, L=64)),
    residual: (dict(M=33), dict(M=256)),
    gated: (dict(M=17, K=129, N=33), dict(M=256, K=512, N=512)),
    normalised_gram: (dict(M=33, K=70), dict(M=512, K=512)),
}  # fmt: skip


def programs() -> list[tuple[str, FuzzProgram]]:
    """Every case in every dtype, with the operator's name."""
    found = []
    for op, sizes in CASES.items():
        text = "import portakern as pk\n\n\n" + inspect.getsource(op.function).replace(f"def {op.name}(", "def op(", 1)
        for dims in sizes:
            for dtype in ("f32", "bf16", "f16"):
                found.append((op.name, read(text, json.dumps(dict(dims=dims, dtype=dtype, stages=STAGES)))))
    return found


def main(targets: str = "cuda:h200,triton:h200", jobs: str = "8") -> int:
    names = {p.digest: name for name, p in programs()}
    begin, seen = time.monotonic(), Counter[str]()

    def progress(program: FuzzProgram, outcome: TargetOutcome) -> None:
        seen[outcome.status] += 1
        case = program.case
        sizes = ",".join(f"{k}={v}" for k, v in case.dims.items())
        said = outcome.status if outcome.status == OK else f"{outcome.status}: {outcome.kind}: {outcome.message[:500]}"
        print(f"{names[program.digest]} {sizes} {case.dtype} {outcome.target}: {said}", flush=True)

    with Workshop(targets, jobs=int(jobs)) as workshop:
        workshop.run([p for _, p in programs()], progress=progress)
    print(f"{dict(seen)} in {time.monotonic() - begin:.0f} s")
    return 1 if seen[FOUND] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
