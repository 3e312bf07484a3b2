"""The cases and bars of benchmarks/nvidia.py: what is timed, at which size, and what is asked of each language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Bar:
    """What is asked of one language; a bar without any of the three only reports.

    Args:
        ratio: the peer's median over ours, at least.
        not_slower: the verdict with the timing's margin is not ``SLOWER``.
        share: of the bandwidth of a copy (or read) of the same bytes, at least.
    """

    ratio: float | None = None
    not_slower: bool = False
    share: float | None = None

    def __str__(self) -> str:
        asked = []
        if self.not_slower:
            asked.append("not SLOWER")
        if self.ratio is not None:
            asked.append(f"{self.ratio:.2f}x peer")
        if self.share is not None:
            asked.append(f"{self.share:.0%} of roof")
        return ", ".join(asked) or "reported"


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Args:
        name: as printed and as ``--only`` takes it.
        operator, dtype, values: as :func:`portakern.build` takes them; ``values`` are dims and parameters.
        bars: by language.
        roof: ``copy`` or ``read`` of the same bytes beside it, or ``""`` for what computes.
        flops: operations that count, where they are not those of the operator (a causal mask halves them).
        scales: standard deviations of inputs other than 1.
        integers: inputs that are labels below the dim named, one in nine of which is to be ignored.
        indices: inputs that are integers from one number on and below another.
        eager: ``sdpa`` asks for every backend of PyTorch's attention instead of the operator's own expression.
        tiny: values for the dry run.
    """

    name: str
    operator: str
    dtype: str
    values: Mapping[str, Any]
    bars: Mapping[str, Bar]
    roof: str = ""
    flops: int | None = None
    scales: Mapping[str, float] = field(default_factory=dict)
    integers: Mapping[str, str] = field(default_factory=dict)
    indices: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    eager: str = ""
    tiny: Mapping[str, Any] = field(default_factory=dict)


_SQUARE = {"M": 8192, "N": 8192}
_TINY = {"M": 33, "N": 65}
_STREAMED = {"cuda": Bar(not_slower=True, share=0.95), "triton": Bar(not_slower=True)}
_READ = {"cuda": Bar(share=0.95), "triton": Bar(share=0.95)}
_LARGE = {"cuda": Bar(not_slower=True), "triton": Bar(0.96)}
_OTHER = {"cuda": Bar(0.95), "triton": Bar(0.90)}


def _both(cuda: float | None, triton: float | None) -> dict[str, Bar]:
    return {"cuda": Bar(cuda), "triton": Bar(triton)}


def _streamed(operator: str) -> Case:
    return Case(f"{operator} 8192x8192 bf16", operator, "bf16", _SQUARE, _STREAMED, "copy", tiny=_TINY)


def _product(m: int, n: int, k: int, bars: Mapping[str, Bar], dtype: str = "bf16", operator: str = "matmul",
             scales: Mapping[str, float] | None = None) -> Case:  # fmt: skip
    size = str(m) if m == n == k else f"{m}x{n}x{k}"
    name = "gemv" if m == 1 else operator
    return Case(f"{name} {size} {dtype}", operator, dtype, {"M": m, "N": n, "K": k}, bars, scales=scales or {},
                tiny={"M": min(m, 17), "N": 40, "K": 24})  # fmt: skip


CASES: tuple[Case, ...] = (
    *map(_streamed, ("add_relu", "silu_mul", "rms_norm", "layer_norm", "transpose")),
    Case("softmax 8192x8192 bf16", "softmax", "bf16", _SQUARE, _both(2.0, 2.0), "copy", tiny=_TINY),
    Case("cross_entropy 4096x32768 f32", "cross_entropy", "f32", {"M": 4096, "N": 32768}, _both(1.2, 1.1), "read",
         integers={"labels": "N"}, tiny=_TINY),
    Case("cumsum 8192x8192 f32", "cumsum", "f32", _SQUARE, _both(1.2, 1.1), "copy", tiny=_TINY),
    Case("row_sum 8192x8192 f32", "row_sum", "f32", _SQUARE, _READ, "read", tiny=_TINY),
    _product(4096, 4096, 4096, _LARGE),
    _product(8192, 8192, 8192, _LARGE),
    _product(1024, 1024, 1024, _OTHER),
    _product(2048, 2048, 2048, _OTHER),
    _product(4000, 4104, 4072, _OTHER),
    _product(3000, 5000, 2000, _OTHER),
    _product(1000, 1000, 1000, _OTHER),
    _product(4095, 4095, 4095, _OTHER),  # rows that are not 16-byte aligned, beyond the three that the table asks for
    _product(4096, 4096, 4096, _both(1.05, 1.00), operator="matmul_bias_gelu", scales={"w": 0.05}),
    _product(4096, 4096, 4096, _both(0.90, None), dtype="f32"),
    _product(1, 8192, 8192, _both(1.10, 1.05)),
    Case("attention causal 4x32x4096x128 bf16", "attention", "bf16",
         {"B": 4, "H": 32, "G": 1, "SQ": 4096, "SK": 4096, "D": 128, "causal": True}, _both(None, 0.85),
         flops=2 * 4 * 32 * 4096 * 4096 * 128, eager="sdpa",
         tiny={"B": 1, "H": 2, "G": 1, "SQ": 32, "SK": 32, "D": 16, "causal": True}),
)  # fmt: skip
"""The table of bars; sizes that are not aligned are among the products."""


_IMAGE = {"N": 1, "H": 9, "W": 10, "C": 16}
_REPORTED = {"cuda": Bar(), "triton": Bar()}


def _conv(n: int, h: int, c: int, o: int, window: int, stride: int = 1, operator: str = "conv2d", **more: int) -> Case:
    params = {"window": window, "stride": stride, "padding": more.pop("padding", window // 2), **more}
    names = "".join(f" {k} {v}" for k, v in more.items()) + (f" stride {stride}" if stride > 1 else "")
    return Case(f"{operator} {n}x{c}x{h}x{h} -> {o} {window}x{window}{names} bf16", operator, "bf16",
                {"N": n, "H": h, "W": h, "C": c, "O": o, **params}, _REPORTED, scales={"w": 0.05},
                tiny={**_IMAGE, "O": 16, **params, "padding": window // 2})  # fmt: skip


def _windows(operator: str, n: int, h: int, c: int, roof: str = "copy", **params: int) -> Case:
    names = "".join(f" {k} {v}" for k, v in params.items())
    return Case(f"{operator} {n}x{c}x{h}x{h}{names} bf16", operator, "bf16", {"N": n, "H": h, "W": h, "C": c, **params},
                _REPORTED, roof, tiny={**_IMAGE, **params})  # fmt: skip


WINDOWED: tuple[Case, ...] = (
    _conv(32, 56, 128, 256, 3),
    _conv(32, 224, 64, 64, 7, 2),
    _conv(32, 224, 3, 64, 7, 2),
    _conv(32, 56, 256, 256, 1),
    _conv(32, 56, 256, 512, 1, 2),
    _conv(32, 56, 128, 128, 3, dilation=2),
    _conv(32, 56, 32, 32, 3, groups=4),
    _conv(32, 56, 128, 128, 4, 2, "conv_transpose2d", padding=1),
    _windows("depthwise_conv", 32, 112, 128),
    _windows("depthwise_conv", 32, 56, 128, "", window=31, padding=15),
    _windows("max_pool", 32, 112, 64),
    _windows("avg_pool", 32, 112, 64),
    _windows("batch_norm", 32, 56, 256),
    _windows("group_norm", 32, 56, 128),
)  # fmt: skip
"""Convolutions, windows and what stands around them in networks: timed where ``--only`` names them, and in no table."""


def selected(words: list[str], cases: tuple[Case, ...] = CASES, named: tuple[Case, ...] = WINDOWED) -> list[Case]:
    """Cases whose name contains one of the words, those of ``named`` too; all of ``cases`` for none."""
    return [c for c in (*cases, *named) if any(w in c.name for w in words)] if words else list(cases)
