"""Branches too long for their 16 bits: the compiler goes by an address that it computes, and so do machine and cost model."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.backends.rocm.amdgcn.assembly.parser import parse
from portakern.backends.rocm.amdgcn.execution.program import load
from portakern.backends.rocm.amdgcn.hazards.walk import _blocks
from portakern.errors import SimulatorError
from tests.rocm.execution.hip_code import Module, compiled
from tests.rocm.execution.machine_code import text
from tests.rocm.helpers import needs_clang

SHORT = ("-mllvm", "-amdgpu-s-branch-bits=5")
"""The compiler is told that branches reach some sixteen instructions."""

TEXT = """#include <hip/hip_runtime.h>
extern "C" __global__ void kernel(const int* x, int* y, int n) {
  int total = 0;
  for (int k = 0; k < n; ++k) {
    const int v = x[k * 64 + threadIdx.x];
    if (v > 0) {
      for (int i = 0; i < v; ++i) total = total * 3 + i * (total ^ v) + (total >> 3) * 7 + (i ^ 5) * (v + total % 11);
      y[64 + threadIdx.x] = total;
    }
    else total -= v * v;
  }
  y[threadIdx.x] = total;
}
"""


@pytest.mark.parametrize("isa", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_a_long_branch_goes_where_a_short_one_would(isa: str) -> None:
    needs_clang()
    x, y = np.random.default_rng(1).integers(-5, 6, (4, 64), np.int32), np.zeros((2, 64), np.int32)
    long, short = compiled(isa, TEXT, *SHORT), compiled(isa, TEXT)
    assert "s_setpc_b64" in long and "s_setpc_b64" not in short
    got, want = (Module(text).launch("kernel", x, y, 4)[1] for text in (long, short))
    np.testing.assert_array_equal(got, want)
    assert want[0].any()


def test_hazards_are_looked_for_across_a_long_branch() -> None:
    needs_clang()
    found = parse(compiled("gfx942", TEXT, *SHORT))
    blocks = _blocks(found, 0, len(found.instructions))
    far = [follows for last, follows in blocks.values() if found.instructions[last - 1].mnemonic == "s_setpc_b64"]
    assert far and all(len(follows) == 1 and follows[0] in blocks for follows in far)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("(.LBB0_9-.Lpost_getpc0)&4294967295", "label of this kernel"),
        ("(.LBB0_1-.LBB0_1)&4294967295", "does not stand behind an s_getpc_b64"),
    ],
)
def test_a_distance_from_or_to_nowhere_is_refused(line: str, problem: str) -> None:
    body = f"""
    s_getpc_b64 s[4:5]
    .Lpost_getpc0:
    s_add_u32 s4, s4, {line}
    s_addc_u32 s5, s5, {line.replace("&4294967295", ">>32")}
    s_setpc_b64 s[4:5]
    s_nop 0
    .LBB0_1:
    s_nop 0
    """
    with pytest.raises(SimulatorError, match=problem):
        load(text("gfx942", body), "kernel")
