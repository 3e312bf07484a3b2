"""Shapes that nobody chose for us: grids of products, attentions and rows for ``benchmarks/nvidia.py --grid``.

Each grid has some shapes written down, of models and of the kinds that kernels are weak at (skinny, deep, flat, prime, one off
a tile), and draws the rest from a wide range by a seed of its own, so that a grid is the same at every run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bar_cases import Bar, Case

BARS = {"cuda": Bar(0.90), "triton": Bar(0.80)}
"""What is asked of a single case; of a grid's geometric mean 1.00 and 0.95 are asked."""

# ---- products

_CUBES = (64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 5120, 8192, 16384)
_LAYERS = ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192), (28672, 8192))
"""Columns and depth of layers of published language models."""

_ODD = ((1009, 1013, 1019), (4093, 4093, 4093), (127, 8191, 2039), (777, 1111, 3333), (1025, 1023, 1024), (2047, 2049, 2048),
        (4097, 4095, 4096), (33, 65, 129), (8191, 127, 511), (3, 5000, 7000))  # fmt: skip
_DEEP = ((64, 64, 16384), (256, 256, 16384), (512, 512, 8192), (128, 1024, 16384), (1024, 1024, 16384))
_FLAT = ((16384, 16384, 64), (8192, 8192, 128), (16384, 4096, 256), (16384, 64, 64), (16384, 512, 512))
_SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


def products() -> Iterator[Case]:
    """100 products: bf16 and f16, every fourth with one operand or both transposed."""
    draw = random.Random(18)
    shapes = [(n, n, n) for n in _CUBES]
    shapes += [(m, *layer) for m in (1, 7, 16, 64, 128, 300) for layer in _LAYERS]
    shapes += [*_ODD, *_DEEP, *_FLAT]
    while len(shapes) < 100:
        shape = (draw.choice(_SIZES), draw.choice(_SIZES), draw.choice(_SIZES))
        if shape not in shapes and math.prod(shape) <= 1 << 40:
            shapes.append(shape)
    for index, (m, n, k) in enumerate(shapes):
        turned = {"transpose_a": index % 8 in (3, 7), "transpose_b": index % 8 in (5, 7)}
        dtype = "f16" if index % 3 == 2 else "bf16"
        form = "".join("T" if t else "N" for t in turned.values())
        yield Case(f"matmul {m}x{n}x{k} {form} {dtype}", "matmul", dtype, {"M": m, "N": n, "K": k, **turned}, BARS)


# ---- attention


def attentions() -> Iterator[Case]:
    """60 attentions: prefill, causal or not, keys that are more than queries; decoding one to 64 queries."""
    for d in (64, 96, 128, 256):
        for s, heads, batch in ((128, 16, 32), (512, 16, 16), (1024, 16, 16), (2048, 16, 8), (8192, 16, 1)):
            yield _attention(batch, heads, 1, s, s, d, causal=True)
        for s, heads, batch in ((256, 16, 32), (1024, 16, 8), (4096, 16, 2)):
            yield _attention(batch, heads, 1, s, s, d)
    yield _attention(1, 32, 1, 8192, 8192, 128, causal=True)
    yield _attention(1, 8, 4, 16384, 16384, 128, causal=True)
    yield _attention(1, 2, 4, 32768, 32768, 128, causal=True)
    yield _attention(2, 8, 8, 2048, 2048, 64, causal=True)
    yield _attention(4, 1, 16, 1000, 1000, 128, causal=True)
    yield _attention(4, 8, 2, 777, 3333, 128)
    yield _attention(4, 8, 2, 3333, 777, 64)
    yield _attention(8, 12, 1, 1023, 1023, 64)
    yield _attention(2, 16, 1, 4095, 4095, 128, causal=True)
    for batch, heads, group, queries, keys, d in (
        (32, 8, 4, 1, 8192, 128), (1, 8, 4, 1, 8192, 128), (1, 8, 8, 1, 131072, 128), (64, 8, 1, 1, 1024, 128),
        (16, 8, 4, 1, 32768, 128), (8, 1, 16, 1, 16384, 128), (4, 32, 1, 1, 4096, 64), (128, 8, 4, 1, 2048, 64),
        (2, 8, 8, 1, 65536, 256), (1, 8, 4, 4, 16384, 128), (8, 8, 4, 8, 8192, 128), (4, 8, 4, 16, 8192, 128),
        (1, 32, 1, 64, 32768, 128), (16, 8, 1, 64, 4096, 128), (4, 8, 4, 2, 5000, 96), (1, 16, 2, 1, 131071, 64),
        (3, 7, 5, 1, 3001, 128), (32, 4, 8, 1, 1000, 128), (1, 4, 16, 3, 100000, 128),
    ):  # fmt: skip
        yield _attention(batch, heads, group, queries, keys, d)


def _attention(b: int, h: int, g: int, sq: int, sk: int, d: int, causal: bool = False) -> Case:
    values: dict[str, Any] = {"B": b, "H": h, "G": g, "SQ": sq, "SK": sk, "D": d, "causal": causal}
    seen = sum(min(i + 1, sk) for i in range(sq)) if causal else sq * sk
    heads = f"{h}x{g}" if g > 1 else h
    lengths = sq if sq == sk else f"{sq}x{sk}"
    return Case(f"attention {b}x{heads}x{lengths}x{d}{' causal' if causal else ''} bf16", "attention", "bf16", values, BARS,
                flops=4 * b * h * g * seen * d, eager="sdpa", roof="" if sq > 64 else "read")  # fmt: skip


# ---- rows

_ROWS = (("row_sum", "f32"), ("softmax", "bf16"), ("rms_norm", "bf16"), ("layer_norm", "bf16"), ("cross_entropy", "f32"),
         ("cumsum", "f32"))  # fmt: skip
_SHAPES = ((64, 1_000_000), (64, 128256), (16384, 5120), (262144, 128), (1_000_000, 32), (4096, 4096), (1, 10_000_000),
           (1000, 1000), (7, 300_001), (132, 65536))  # fmt: skip

_BETWEEN = ("softmax", "layer_norm", "cross_entropy", "cumsum")
_ODD_SHAPES = ((4096, 50257), (8192, 4091), (16384, 1023), (65536, 333), (100_000, 197))


def rows() -> Iterator[Case]:
    """80 operators along rows: six kinds at ten shapes, from one row of ten million to a million rows of 32, and four kinds of
    16 bits whose rows begin between vectors: the vocabulary of GPT-2, the tokens of a ViT, and lengths like these."""
    listed = [(*kind, *shape) for kinds, shapes in ((_ROWS, _SHAPES), ([(name, "bf16") for name in _BETWEEN], _ODD_SHAPES))
              for kind in kinds for shape in shapes]  # fmt: skip
    for operator, dtype, m, n in listed:
        yield Case(f"{operator} {m}x{n} {dtype}", operator, dtype, {"M": m, "N": n}, BARS,
                   roof="read" if operator in ("row_sum", "cross_entropy") else "copy",
                   integers={"labels": "N"} if operator == "cross_entropy" else {})  # fmt: skip


# ---- layers

_LAYER = Path(__file__).with_name("bar_layers.py")


def _layer(name: str, **values: int) -> Case:
    sizes = " ".join(f"{n}={v}" for n, v in values.items())
    return Case(f"{name} {sizes} bf16", f"{_LAYER}:{name}", "bf16", values, BARS,
                scales={"w": 0.02, "gate": 0.02, "up": 0.02})  # fmt: skip


def layers() -> Iterator[Case]:
    """24 parts of language models that are several operations in PyTorch (bar_layers.py)."""
    for n, k in ((14336, 4096), (2816, 1024)):
        for m in (4096, 300, 64, 1):
            yield _layer("gated", M=m, N=n, K=k)
    for m in (4096, 64, 1):
        yield _layer("normed_gated", M=m, N=16384, K=2048)
    for s, heads, half, k in (
        (4096, 32, 64, 4096), (8192, 8, 64, 4096), (2048, 16, 32, 1024), (16, 32, 64, 4096), (1, 32, 64, 4096),
    ):  # fmt: skip
        yield _layer("rotated", S=s, H=heads, D=half, K=k)
    for batch, heads, group, d, size, count in (
        (32, 8, 4, 128, 16, 512), (1, 8, 4, 128, 16, 512), (1, 8, 8, 128, 16, 8192), (64, 8, 1, 128, 16, 64),
        (8, 1, 16, 128, 64, 256), (128, 8, 4, 64, 16, 128), (16, 4, 8, 128, 1, 4096), (3, 7, 5, 96, 16, 190),
    ):  # fmt: skip
        sizes = {"B": batch, "H": heads, "G": group, "D": d, "P": batch * count, "page": size, "N": count}
        yield replace(_layer("paged", **sizes), indices={"table": (0, batch * count), "length": (1, size * count + 1)})


GRIDS = {"matmul": products, "attention": attentions, "rows": rows, "layers": layers}


def grid(names: str, part: str = "1/1") -> list[Case]:
    """The cases of grids by their names, separated by commas; of ``part`` I/N every N-th, from the I-th."""
    unknown = [n for n in names.split(",") if n not in GRIDS]
    if unknown:
        raise SystemExit(f"there is no grid {unknown[0]!r}; there are: {', '.join(GRIDS)}")
    first, _, count = part.partition("/")
    if not (first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
        raise SystemExit(f"--part {part!r} is not I/N, such as 2/4")
    cases = [c for n in names.split(",") for c in GRIDS[n]()]
    return cases[int(first) - 1 :: int(count)]
