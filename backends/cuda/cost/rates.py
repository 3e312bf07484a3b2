"""How fast a multiprocessor's pipes are, by compute capability.

[T] CUDA C++ Programming Guide, "Arithmetic Instructions": throughput of native instructions in results per clock and
multiprocessor. [P] NVIDIA's A100 (2020) and H100 (2022) whitepapers: dense tensor FLOP per clock and multiprocessor follow from
peak, units and clock. [L] Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking"
(2024): latencies, and mma.sync at about 0.63 of wgmma's rate. [J] Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking" (2018): 128 bytes of shared memory a clock. [A] A100 whitepaper: 5120 bytes a clock from L2, which is 64 for
each two of 80 slices. None of them was re-read here. What is marked as assumed was found nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

LANES = 32


@dataclass(frozen=True)
class Rates:
    """Lanes a clock and multiprocessor of each pipe; ``tensor`` in FLOP of 16-bit operands a clock and multiprocessor, ``mma``
    the share of it that products of one warp reach, ``l2`` in bytes a clock and multiprocessor; latencies in clocks."""

    f32: float
    f16: float
    f64: float
    heavy: float
    alu: float
    special: float
    convert: float
    lanes: float
    tensor: float
    mma: float
    l2: float
    shared_bytes: float = 128.0
    access: float = 32.0
    global_latency: int = 600
    shared_latency: int = 30
    other_latency: int = 22
    tensor_latency: int = 33


RATES = {
    "sm_80": Rates(64, 256, 32, 64, 64, 16, 16, 32, 2048, 1.0, 5120 / 108),  # [T] [P] [A]; latencies [L]
    "sm_90a": Rates(128, 256, 64, 64, 64, 16, 64, 32, 4096, 0.63, 64),  # [T] [P] [L]; l2 assumed
    "sm_100a": Rates(128, 256, 64, 64, 64, 16, 64, 32, 8192, 0.25, 64),  # [T]; tensor by peak, units and clock; mma, l2 assumed
}

WIDER = {"8-bit": 2.0, "tf32": 0.5, "f64": 1 / 16}
"""Products a clock against those of 16-bit operands [P]; f64 on sm_80 and sm_90a, less on sm_100a."""


def tensor_scale(opcode: str) -> float:
    """How fast a product is by its operands, against 16-bit ones."""
    opcode = opcode.removeprefix("UTC")
    if opcode.startswith("D"):
        return WIDER["f64"]
    if opcode.startswith(("I", "Q")) or ".E4M3" in opcode or ".E5M2" in opcode:
        return WIDER["8-bit"]
    return WIDER["tf32"] if "TF32" in opcode else 1.0
