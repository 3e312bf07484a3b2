"""Products of f16 on CDNA 2, whose matrix cores take subnormal operands as zero: the kernels lose none of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portakern.backend import Source
from portakern.backends.rocm.amdgcn.execution.simulator import AmdMachine
from portakern.backends.rocm.emitter import HipEmitter
from portakern.backends.rocm.toolchain import HipToolchain
from tests import samples
from tests.rocm.helpers import needs_clang, target
from tests.rocm.test_pingpong import main_loop

M, N, K = 272, 264, 128


def source(tile: tuple[int, int], warps: int) -> Source:
    program = samples.matmul_bias(M, N, K, dtype="f16", tile=(*tile, 32))
    (k,) = program.kernels
    made = replace(program, kernels=(replace(k, schedule=replace(k.schedule, warps=warps)),))
    return HipEmitter().emit(made, target("gfx90a"))


def gelu(y: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return 0.5 * y * (1 + np.tanh(0.7978845608028654 * (y + 0.044715 * y**3)))


@pytest.mark.parametrize(("tile", "warps"), [((64, 64), 4), ((256, 256), 8)])
def test_no_subnormal_operand_is_lost(tile: tuple[int, int], warps: int) -> None:
    """Subnormal by normal on either side, subnormal by infinity, and beside them a part that has none."""
    needs_clang("gfx90a")
    made = source(tile, warps)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    w = rng.standard_normal((K, N)).astype(np.float16)
    a[:40, :64] = rng.integers(-1023, 1024, (40, 64)) * 2.0**-24  # all subnormal, down to the smallest
    a[:40, 64:] = 0
    w[:64] *= 64
    w[7, 200] = np.inf
    a[:, 7] = 2.0**-24
    w[64:, 256:] = rng.integers(1, 1024, (64, 8)) * 2.0**-24
    program = AmdMachine().load(made, HipToolchain().compile(made))
    got = program.call([a, w, np.zeros(N, np.float32)], {}).astype(np.float64)
    exact = a.astype(np.float64) @ w.astype(np.float64)
    assert np.isposinf(got[:, 200]).all() and np.isposinf(exact[:, 200]).all()
    finite = [n for n in range(N) if n != 200]
    want = gelu(exact)
    for rows in (slice(0, 40), slice(40, M)):
        near = np.abs(got[rows][:, finite] - want[rows][:, finite])
        assert near.max() <= 2.0**-10 * np.abs(want[rows][:, finite]).max()
    flushed = np.where(np.abs(a) < 2.0**-14, np.float16(0), a).astype(np.float64) @ np.nan_to_num(
        w.astype(np.float64), posinf=0
    )
    lost = np.abs(gelu(flushed) - want)[:40, finite].max()
    assert lost > 0.5 * np.abs(want[:40, finite]).max(), "what would be lost is seen"


def test_the_main_loop_is_of_half_precision_products() -> None:
    """The products of floats stand apart from it."""
    needs_clang("gfx90a")
    names = [line.split()[0] for line in main_loop(HipToolchain().compile(source((256, 256), 8)).assembly or "")]
    assert names.count("v_mfma_f32_16x16x16f16") == 128 and "v_mfma_f32_16x16x4f32" not in names
    assert not [n for n in names if n.startswith(("v_accvgpr", "scratch"))]
