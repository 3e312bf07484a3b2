"""Products whose waves take turns: their plan, their text, what they compute on host lanes, and their machine code."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from portakern.backends.rocm.emitter import HipEmitter
from portakern.backends.rocm.pingpong import PingPongPlan, StagedOperand, slice_of
from portakern.backends.rocm.schedules import schedules
from portakern.backends.rocm.toolchain import HipToolchain
from portakern.dtypes import numpy_dtype
from portakern.errors import ScheduleError
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, NestAxis
from tests import samples
from tests.rocm.helpers import needs_clang, run, target

CDNA = ("gfx90a", "gfx942", "gfx950")


def product(isa: str, tile: tuple[int, int] = (256, 256), warps: int = 8, **sizes: int) -> Program:
    given = {"m": 304, "n": 264, "k": 136, **sizes}
    tiles = (*tile, slice_of(target(isa).device))
    program = samples.matmul_bias(given["m"], given["n"], given["k"], tile=tiles)
    (k,) = program.kernels
    return replace(program, kernels=(replace(k, schedule=replace(k.schedule, warps=warps)),))


def plan_of(isa: str, tile: tuple[int, int] = (256, 256), warps: int = 8, **sizes: int) -> PingPongPlan:
    (k,) = HipEmitter().plan(product(isa, tile, warps, **sizes), target(isa)).kernels
    assert isinstance(k, PingPongPlan)
    return k


@pytest.mark.parametrize(
    ("isa", "tile"), [("gfx942", (256, 256)), ("gfx950", (256, 256)), ("gfx950", (128, 256)), ("gfx90a", (128, 256))]
)
def test_the_result_on_the_machine(isa: str, tile: tuple[int, int]) -> None:
    needs_clang(isa)
    source = HipEmitter().emit(product(isa, tile, k=200 if tile[0] == 256 else 136), target(isa))
    rng = np.random.default_rng(1)
    inputs = {a.name: rng.standard_normal(a.type.shape).astype(numpy_dtype(a.dtype)) for a in source.by_role("input")}  # type: ignore
    got = run(source, *inputs.values())
    x = {name: v.astype(np.float64) for name, v in inputs.items()}
    y = x["a"] @ x["w"] + x["bias"]
    want = 0.5 * y * (1 + np.tanh(0.7978845608028654 * (y + 0.044715 * y**3)))
    assert np.abs(got.astype(np.float64) - want).max() <= 8e-3 * np.abs(want).max()


@pytest.mark.parametrize("tile", [(256, 256), (128, 256), (256, 128)])
def test_every_half_has_landed_where_it_is_read_and_not_much_more_is_waited_for(tile: tuple[int, int]) -> None:
    """Walks the plan: copies land in the order in which they were started, and a wait leaves the last ones under way."""
    plan = plan_of("gfx950", tile)
    a, b = plan.operands
    started = [(x, h, s) for s in (0, 1) for x, h in ((b, 0), (a, 0), (b, 1), (a, 1))][:7]

    def landed(wait: int | None) -> list[tuple[StagedOperand, int, int]]:
        count, left = len(started), wait or 0
        while count and left >= started[count - 1][0].copies:
            count -= 1
            left -= started[count][0].copies
        return started[:count]

    ready = landed(plan.turns[-1].wait)
    for step in range(6):
        for turn in plan.turns:
            assert (turn.reads, turn.half, step + turn.ahead) in ready
            assert turn.sends is not None
            operand, half, ahead = turn.sends
            started.append((operand, half, step + ahead))
            newly = landed(turn.wait)
            assert len(newly) - len(ready) == 1  # each wait is for one half: the one that is read next
            ready = newly


def test_no_half_is_overwritten_before_it_was_read() -> None:
    """Slots alternate; what is sent two steps ahead goes where this step's half was, which has been read two barriers ago."""
    plan = plan_of("gfx950")
    b = plan.operands[1]
    read = {(b, 0, 0)}
    for step in range(6):
        for turn in plan.turns:
            assert turn.sends is not None
            operand, half, ahead = turn.sends
            over = step + ahead - 2  # whose slot this is
            assert over < 0 or (operand, half, over) in read
            read_now = (turn.reads, turn.half, step + turn.ahead)
            assert read_now != (operand, half, over)
            read.add(read_now)


@pytest.mark.parametrize("isa", CDNA)
def test_machine_code_of_the_main_loop(isa: str) -> None:
    """Nothing but products, reads, copies, waits and a few scalars: no moves between registers, no spills."""
    needs_clang(isa)
    binary = HipToolchain().compile(HipEmitter().emit(product(isa, m=8192, n=8192, k=8192), target(isa)))
    (r,) = binary.resources
    assert (r.spills, r.scratch_bytes) == (0, 0)
    loop = main_loop(binary.assembly or "")
    names = [line.split()[0] for line in loop]
    count = {word: sum(n.startswith(word) for n in names) for word in ("v_mfma", "v_mov", "v_accvgpr", "scratch", "s_barrier")}
    direct = isa == "gfx950"
    assert count["v_mfma"] == (64 if direct else 128)
    assert count["v_mov"] == count["v_accvgpr"] == count["scratch"] == 0
    assert count["s_barrier"] == (8 if direct else 16)
    waits = [int(n) for n in re.findall(r"vmcnt\((\d+)\)", "\n".join(loop))]
    assert waits == [10] * 4 if direct else min(waits) > 0  # nobody waits for what was sent last
    vector = [n for n in names if n.startswith("v_") and not n.startswith("v_mfma")]
    assert len(vector) <= (8 if direct else 16)  # addresses; on the others the transposition of w


def main_loop(assembly: str) -> list[str]:
    """The instructions of the longest loop."""
    found: list[str] = []
    for label in re.findall(r"^(\.LBB\d+_\d+):", assembly, re.MULTILINE):
        body = assembly.split(f"{label}:", 1)[1]
        end = re.search(rf"s_cbranch_\w+ {re.escape(label)}\b", body)
        if end:
            lines = [x.strip() for x in body[: end.end()].split("\n")]
            lines = [x for x in lines[1:] if x and not x.startswith((";", "."))]
            found = lines if len(lines) > len(found) else found
    assert found
    return found


def interleaved(**sizes: int) -> Program:
    program = product("gfx950", (256, 128), warps=4, **sizes)
    (k,) = program.kernels
    return replace(program, kernels=(replace(k, schedule=replace(k.schedule, options=(("waves", "interleave"),))),))


@pytest.mark.parametrize("k", [64, 136, 200])
def test_four_waves_that_interleave_on_the_machine(k: int) -> None:
    """One slice, and an odd and an even number of slices: two are walked at a time.  One block, which has edges."""
    needs_clang("gfx950")
    source = HipEmitter().emit(interleaved(m=250, n=120, k=k), target("gfx950"))
    rng = np.random.default_rng(1)
    inputs = {a.name: rng.standard_normal(a.type.shape).astype(numpy_dtype(a.dtype)) for a in source.by_role("input")}  # type: ignore
    got = run(source, *inputs.values())
    x = {name: v.astype(np.float64) for name, v in inputs.items()}
    y = x["a"] @ x["w"] + x["bias"]
    want = 0.5 * y * (1 + np.tanh(0.7978845608028654 * (y + 0.044715 * y**3)))
    assert np.abs(got.astype(np.float64) - want).max() <= 8e-3 * np.abs(want).max()


def test_registers_of_interleaved_waves_hold_what_their_quarter_needs() -> None:
    """Walks the plan of two slices over and over: nothing is read over while a later quarter of its slice needs it."""
    (plan,) = HipEmitter().plan(interleaved(), target("gfx950")).kernels
    assert isinstance(plan, PingPongPlan) and not plan.turns
    halves = {("upper", 0): 0, ("left", 0): 0}  # what registers hold: (name, half) of which slice
    landed, done = {0}, set()
    for round_ in range(3):
        for n, q in enumerate(plan.quarters):
            step = 2 * round_ + n // 4
            if q.barrier:
                landed.add(step + 1)
            i, j = q.quarter
            assert halves[q.rows, i] == step and halves[q.cols, j] == step
            done.add((step, q.quarter))
            for _operand, half, slot, to in q.reads:
                of = step if slot == step % 2 else step + 1
                assert of in landed
                for name, h in [key for key in halves if key[0] == to]:
                    del halves[name, h]
                halves[to, half] = of
                assert to not in (q.rows, q.cols), "between the products, registers of this quarter stay"
            assert not q.sends or q.barrier or plan.quarters[n - 1].barrier  # behind the barrier that frees the slot
    assert len(done) == 6 * 4


def test_interleaved_machine_code() -> None:
    needs_clang("gfx950")
    binary = HipToolchain().compile(HipEmitter().emit(interleaved(m=8192, n=8192, k=8192), target("gfx950")))
    assert [(r.spills, r.scratch_bytes) for r in binary.resources] == [(0, 0)]
    names = [line.split()[0] for line in main_loop(binary.assembly or "")]
    assert sum(n.startswith("v_mfma") for n in names) == 128
    assert not [n for n in names if n.startswith(("v_mov", "v_accvgpr", "scratch"))]
    memory = "".join("m" if n.startswith("v_mfma") else "." if n.startswith(("ds_", "buffer_")) else "" for n in names)
    assert max(map(len, memory.split("m"))) <= 2  # what is done besides stands between the products, not in heaps


def test_interleaving_needs_copies_to_lds() -> None:
    program = product("gfx942", (256, 128), warps=4)
    (k,) = program.kernels
    asked = replace(k, schedule=replace(k.schedule, options=(("waves", "interleave"),)))
    with pytest.raises(ScheduleError, match="cannot copy 16 bytes a lane"):
        HipEmitter().plan(replace(program, kernels=(asked,)), target("gfx942"))


@pytest.mark.parametrize("isa", ["gfx942", "gfx950"])
def test_text_and_plan(isa: str, golden: Callable[[str, str], None]) -> None:
    source = HipEmitter().emit(product(isa, m=1000), target(isa))
    golden(f"matmul_turns_{isa}.hip", source.text)
    golden(f"matmul_turns_{isa}.plan", str(HipEmitter().plan(product(isa, m=1000), target(isa))))


def test_text_and_plan_of_interleaved_waves(golden: Callable[[str, str], None]) -> None:
    golden("matmul_interleaved_gfx950.hip", HipEmitter().emit(interleaved(m=1000), target("gfx950")).text)
    golden("matmul_interleaved_gfx950.plan", str(HipEmitter().plan(interleaved(m=1000), target("gfx950"))))


def test_large_products_take_turns_and_small_ones_do_not() -> None:
    def first(size: int) -> tuple[int, int]:
        axes = tuple(NestAxis(name, name, size) for name in "mnk")
        schedule = schedules(Nest("contraction", axes, "bf16", "f32", dots="bf16"), target("gfx942").device)[0]
        return schedule.tile("m"), schedule.warps

    assert first(8192) == (256, 8)
    assert first(512)[1] == 4


def test_what_stands_in_the_way_is_said() -> None:
    program = product("gfx950", k=130)
    (k,) = program.kernels
    asked = replace(k, schedule=replace(k.schedule, options=(("waves", "turns"),)))
    with pytest.raises(ScheduleError, match="not contiguous and whole vectors of 8"):
        HipEmitter().plan(replace(program, kernels=(asked,)), target("gfx950"))


def test_tiles_without_room_for_two_slots_get_one() -> None:
    """Tiles meant for turns, in a product whose rows are no whole vectors: the plain loop, in the LDS there is."""
    needs_clang()
    program = product("gfx942", k=130)
    (plan,) = HipEmitter().plan(program, target("gfx942")).kernels
    assert not isinstance(plan, PingPongPlan)
    (r,) = HipToolchain().compile(HipEmitter().emit(program, target("gfx942"))).resources
    assert (r.shared_bytes or 0) <= 65536
    assert (r.spills, r.scratch_bytes) == (0, 0)
