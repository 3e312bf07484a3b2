# ruff: noqa: F821  (dims are strings)
# pyright: reportUndefinedVariable=false
"""Products of 8-bit and of 4-bit numbers beside PyTorch's, at 4096^3 and at few rows: the operators of examples/quantised.

    python benchmarks/narrow_products.py                                 cuda:h200 and triton:h200
    python benchmarks/narrow_products.py --targets cuda:h100-sxm --only w4a16,i8 --rows 1,16,64
    python benchmarks/narrow_products.py --targets numba:cpu --size 64   a dry run without a GPU

The peers: torch._scaled_mm for 8-bit floats, torch._int_mm for integers, dequantisation and F.linear for blocks and weights,
and beside it torch's own product of packed weights for those of 4 bits.  Prints a line for each; x is PyTorch's time over ours.
Exit status 1 where a kernel failed or is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import portakern as pk

OPERATORS = Path(__file__).resolve().parents[1] / "examples" / "quantised"
ROWS = (4096, 64, 16, 1)


@pk.operator(dtypes=("f8e4m3", "f8e5m2"), cases={"typical": {"M": 75, "N": 93, "K": 205}})
def product_f8(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
    """Without scales: for measurements of what matrix cores make of them."""
    return pk.matmul(a, b, pk.f32)


@pk.operator(dtypes=("i8",), cases={"typical": {"M": 75, "N": 93, "K": 205}})
def product_i8(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
    """Without scales."""
    return pk.matmul(a, b, pk.i32)


# ---- cases ----------------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """``name``, an operator as FILE:FUNCTION, a dtype and sizes; ``flops`` of a call."""

    name: str
    operator: str
    dtype: str
    values: dict[str, Any]
    flops: float
    against: tuple[str, ...] = ("torch.eager",)


def cases(size: int, rows: Sequence[int]) -> Iterator[Case]:
    n = k = size
    int4 = f"{Path(__file__).resolve().parent / 'bars' / 'bar_int4.py'}:int4_product"
    for m in (min(r, size) if r == ROWS[0] else r for r in rows):
        plain, flops = {"M": m, "N": n, "K": k}, 2.0 * m * n * k
        yield Case("f8 rows", "f8_scaled.py:rows", "f8e4m3", {**plain, "fast": True}, flops)
        yield Case("f8 tensors", "f8_scaled.py:tensors", "f8e4m3", {**plain, "fast": True}, flops)
        yield Case("f8 tensors exact", "f8_scaled.py:tensors", "f8e4m3", plain, flops)
        if size % 128 == 0:
            blocks = {"M": m, "P": n // 128, "G": k // 128, "fast": True}
            yield Case("f8 blocks", "f8_blocks.py:blocks", "f8e4m3", blocks, flops)
        yield Case("i8 rows", "i8.py:rows", "i8", plain, flops)
        for group in (128, 32):
            if size % group == 0:
                grouped = {"M": m, "N": n, "G": k // group, "group": group}
                yield Case(f"w8a16 {group}", "w8a16.py:w8a16", "bf16", grouped, flops)
                yield Case(f"w4a16 {group}", "w4a16.py:w4a16", "bf16", grouped, flops, ("torch.eager", int4))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cuda:h200,triton:h200")
    parser.add_argument("--size", type=int, default=4096, help="columns and depth, and the most rows")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--only", default="", help="cases whose name contains one of these words, separated by commas")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of sampling per contender")
    parser.add_argument("--no-peers", action="store_true")
    asked = parser.parse_args(arguments)
    failed = False
    print(f"{'case':<18} {'rows':>5} {'target':<14} {'us':>9} {'TFLOP/s':>8} {'x':>6}  peer")
    for case in cases(asked.size, [int(r) for r in asked.rows.split(",")]):
        if asked.only and not any(word in case.name for word in asked.only.split(",")):
            continue
        for target in _targets(asked.targets, case.dtype):
            study = pk.bench(f"{OPERATORS / case.operator}", target, case.dtype, budget=asked.budget,
                             against=() if asked.no_peers else case.against, **case.values)  # fmt: skip
            for row in study.rows:
                failed |= not _told(case, target, row)
    return int(failed)


def _targets(asked: str, dtype: str) -> list[str]:
    """Those of ``asked`` that have the dtype."""
    return [str(t) for t in pk.targets(asked) if dtype in t.device.dtypes]


def _told(case: Case, target: str, row: Any) -> bool:
    """Prints what became of one kernel; whether it is right and was timed."""
    head = f"{case.name:<18} {case.values['M']:>5} {target:<14}"
    if row.time is None:
        print(head, f"not timed: {(row.error or {}).get('message', row.evidence)}", flush=True)
        return False
    us = row.time["median_us"]
    print(head, f"{us:9.1f} {case.flops / us / 1e6:8.1f}", flush=True)
    for peer in row.time.get("peers", ()):
        name, taken = peer["name"].rpartition(":")[2], peer.get("median_us")
        print(" " * (len(head) + 18), f"{taken / us:6.2f}  {name}" if taken else f"     -  {name}: {peer}", flush=True)
    return True


if __name__ == "__main__":
    raise SystemExit(main())
