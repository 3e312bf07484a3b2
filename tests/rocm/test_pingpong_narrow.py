"""Products of 8-bit numbers whose waves take turns: what they compute on the machine, their machine code, who gets them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from portakern.backend import Source
from portakern.backends.rocm.emitter import HipEmitter
from portakern.backends.rocm.pingpong import PingPongPlan
from portakern.backends.rocm.schedules import schedules
from portakern.backends.rocm.toolchain import HipToolchain
from portakern.dtypes import numpy_dtype
from portakern.errors import ScheduleError
from portakern.ir.schedule import Nest, NestAxis
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.work import Problem, works
from tests.rocm.helpers import needs_clang, run, target
from tests.rocm.test_pingpong import main_loop

DEPTH = {"gfx950": 128, "gfx942": 64, "gfx90a": 64}
QUICK = (  # whether the depth runs along the lines of b (transpose_b)
    ("gfx950", "i8", False, (256, 256), "turns"),
    ("gfx950", "f8e4m3", False, (256, 128), "interleave"),
    ("gfx942", "f8e4m3fnuz", True, (256, 128), "turns"),
)
SLOW = (
    ("gfx950", "f8e4m3", False, (256, 128), "turns"),
    ("gfx950", "f8e5m2", True, (128, 256), "turns"),
    ("gfx942", "i8", True, (256, 256), "turns"),
    ("gfx90a", "i8", True, (256, 256), "turns"),
)
CASES = [*QUICK, *(pytest.param(*x, marks=pytest.mark.slow) for x in SLOW)]
IDS = [f"{isa}-{dtype}-{'straight' if straight else 'across'}-{waves}" for isa, dtype, straight, _, waves in (*QUICK, *SLOW)]


def product(isa: str, dtype: str, straight: bool, tile: tuple[int, int], waves: str, **sizes: int) -> Source:
    m, n = tile
    schedule = f"m={m},n={n},k={DEPTH[isa]},stages=2,warps={4 if waves == 'interleave' else 8},waves={waves}"
    made = works(Problem(load_operator("matmul"), sizes, {"transpose_b": straight}), [registry().target(f"hip:{isa}")], [dtype],
                 schedule)  # fmt: skip
    return steps.emit(made[0])[0]


@pytest.mark.parametrize(("isa", "dtype", "straight", "tile", "waves"), CASES, ids=IDS)
def test_the_result_on_the_machine(isa: str, dtype: str, straight: bool, tile: tuple[int, int], waves: str) -> None:
    """Three slices, the last of which is not whole, and tiles that hang over: every element, exactly."""
    needs_clang(isa)
    k = 2 * DEPTH[isa] + 48
    source = product(isa, dtype, straight, tile, waves, M=tile[0] + 40, N=tile[1] + 16, K=k)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-7, 8, s).astype(numpy_dtype(dtype)) for s in ((tile[0] + 40, k), (k, tile[1] + 16)))
    got = run(source, a, np.ascontiguousarray(b.T) if straight else b)
    want = a.astype("f8") @ b.astype("f8")
    np.testing.assert_array_equal(got.astype("f8"), want.astype(got.dtype).astype("f8"))


@pytest.mark.parametrize(("dtype", "straight", "word", "products"), [
    ("f8e4m3", False, "v_mfma_f32_16x16x128_f8f6f4", 32), ("i8", True, "v_mfma_i32_16x16x64_i8", 64),
])  # fmt: skip
def test_machine_code_of_the_main_loop(dtype: str, straight: bool, word: str, products: int) -> None:
    """The deepest instruction there is, and between the products nothing but reads, copies, waits and a few scalars."""
    needs_clang("gfx950")
    binary = HipToolchain().compile(product("gfx950", dtype, straight, (256, 256), "turns", M=4096, N=4096, K=4096))
    assert [(r.spills, r.scratch_bytes) for r in binary.resources] == [(0, 0)]
    loop = main_loop(binary.assembly or "")
    names = [line.split()[0] for line in loop]
    assert names.count(word) == sum(n.startswith("v_mfma") for n in names) == products
    assert not [n for n in names if n.startswith(("v_mov", "v_accvgpr", "scratch"))]
    assert re.findall(r"vmcnt\((\d+)\)", "\n".join(loop)) == ["10"] * 4


def chosen(isa: str, dtype: str, **more: Any) -> bool:
    """Whether the default schedule of a large product has waves that take turns."""
    axes = tuple(NestAxis(name, name, 8192) for name in "mnk")
    nest = Nest("contraction", axes, dtype, "i32" if dtype == "i8" else "f32", dots=dtype, **more)
    first = schedules(nest, target(isa).device)[0]
    return (first.tile("m"), first.tile("n"), first.tile("k"), first.warps) == (256, 256, DEPTH[isa], 8)


@pytest.mark.quick
def test_large_products_take_turns_where_their_lines_can_be_read() -> None:
    """Without reads that transpose, patches of 8-bit elements are not turned on their way to LDS."""
    assert chosen("gfx950", "i8") and chosen("gfx950", "i8", across=True) and chosen("gfx950", "f8e5m2", turned=True)
    assert chosen("gfx942", "f8e4m3fnuz") and not chosen("gfx942", "f8e4m3fnuz", across=True)
    assert not chosen("gfx942", "i8", turned=True) and chosen("gfx90a", "i8")


@pytest.mark.quick
def test_the_default_of_an_operator_knows_how_its_operands_lie() -> None:
    def plan(isa: str, dtype: str, straight: bool) -> object:
        op = load_operator("matmul")
        (work,) = works(Problem(op, dict(M=4096, N=4096, K=4096), {"transpose_b": straight}),
                        [registry().target(f"hip:{isa}")], [dtype])  # fmt: skip
        aim = registry().target(f"hip:{isa}")
        (k,) = HipEmitter().plan(steps.lowered(work, aim), aim).kernels
        return k

    assert isinstance(plan("gfx942", "i8", True), PingPongPlan) and not isinstance(plan("gfx942", "i8", False), PingPongPlan)
    assert isinstance(plan("gfx950", "f8e4m3", False), PingPongPlan)


def test_what_stands_in_the_way_is_said() -> None:
    with pytest.raises(ScheduleError, match="whole vectors of 16"):
        product("gfx950", "f8e4m3", True, (256, 256), "turns", M=512, N=512, K=520)
