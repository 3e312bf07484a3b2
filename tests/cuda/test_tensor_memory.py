"""Products by tcgen05, with sums in tensor memory: chosen for sm_100a, compiled, right on the CPU; misuse is found there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.backend import Source
from portakern.errors import ScheduleError, SimulatorError
from portakern.ir.program import Program
from portakern.ir.size import Size, Sym
from portakern.registry import registry
from portakern.spec.operator import Operator
from portakern.study import steps
from portakern.study.work import Problem, Work, works
from tests import samples
from tests.cuda import references
from tests.cuda.variants import scheduled

CUDA = registry().language("cuda")
BLACKWELL = registry().target("cuda:sm_100a")
assert CUDA.toolchain is not None and CUDA.simulator is not None
SIMULATOR, TOOLCHAIN = CUDA.simulator, CUDA.toolchain
needs_host = pytest.mark.skipif(not SIMULATOR.available(BLACKWELL), reason="needs a C++ compiler on x86-64 Linux")
needs_nvrtc = pytest.mark.skipif(not TOOLCHAIN.available(BLACKWELL), reason="needs NVRTC")


def slow(*values: object) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def program(m: Size = 200, n: int = 136, k: int = 136, dtype: str = "bf16", tile: tuple[int, int, int] = (64, 64, 64),
            warps: int = 4, stages: int = 3, batch: int = 0, **options: str) -> Program:  # fmt: skip
    return scheduled(samples.matmul_bias(m, n, k, dtype, tile, batch), warps, stages, **{"mma": "tcgen05", **options})


def emitted(of: Program) -> Source:
    return CUDA.emitter.emit(of, BLACKWELL)


def by_one_block(source: Source) -> Source:
    """All tiles one after the other, by one block or cluster, so that sums and slots are used again."""
    return replace(source, launches=tuple(replace(x, grid=(x.cluster[0], 1, 1)) for x in source.launches))


def error_of(of: Program, source: Source) -> float:
    """The error as a share of the tolerance, of both runs: products at the latest moment, and at once."""
    executable = SIMULATOR.load(source, None)
    found = []
    for _ in range(2):
        buffers = references.make_buffers(of)
        executable.run(buffers, references.SIZES)
        assert all(map(references.guards_intact, buffers.values())), "wrote outside an array"
        found.append(references.error_ratio(of, buffers))
    return float(np.max(found))  # NaN where one is


# ---- when it is chosen -----------------------------------------------------------------------------------------------------


@pk.operator
def product(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
    return pk.matmul(a, b)


def work(op: Operator, sizes: Mapping[str, int], dtype: str, schedule: Mapping[str, int] | None = None) -> Work:
    (made,) = works(Problem(op, sizes, {}), [BLACKWELL], [dtype], schedule)
    return made


@pytest.mark.quick
@pytest.mark.parametrize(("dtype", "sizes", "instruction"), [
    ("bf16", {"M": 4096, "N": 4096, "K": 4096}, "tcgen05.mma.m128n256k16"),
    ("f16", {"M": 64, "N": 4096, "K": 64}, "tcgen05.mma.m64n64k16"),
    ("bf16", {"M": 4095, "N": 4095, "K": 4095}, "tcgen05.mma.m128n256k16"),  # of packed operands
    ("bf16", {"M": 100, "N": 130, "K": 70}, "mma.sync.m16n8k16"),  # the copy engine reaches no such rows
    ("f32", {"M": 512, "N": 512, "K": 512}, "six mma.sync.m16n8k16"),
])  # fmt: skip
def test_by_which_instruction(dtype: str, sizes: dict[str, int], instruction: str) -> None:
    plan = str(CUDA.emitter.plan(steps.emit(work(product, sizes, dtype))[1], BLACKWELL))
    assert f"products by {instruction}" in plan


@pytest.mark.quick
@pytest.mark.parametrize(("of", "why"), [
    (program(tile=(32, 64, 64)), "64 or 128 rows and up to 256 columns"),
    (program(tile=(64, 64, 32)), "not in panels of 8 x 128 bytes"),
    (program(m=200, n=131), "do not begin at multiples of 16 bytes"),
    (program(dtype="f32"), "16 or 8 bits"),
    (program(cluster="3x1"), "in clusters of 3x1"),
])  # fmt: skip
def test_what_cannot_be_done_says_why(of: Program, why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        emitted(of)


@pytest.mark.quick
def test_other_devices_do_not_have_it() -> None:
    with pytest.raises(ScheduleError, match="sm_90a does not have it"):
        CUDA.emitter.emit(program(), registry().target("cuda:sm_90a"))


@pytest.mark.quick
def test_text(golden: Callable[[str, str], None]) -> None:
    of = program(256, 512, 264, tile=(128, 256, 64), warps=8)
    golden("tensor_memory.cu", emitted(of).text)
    golden("tensor_memory.plan", str(CUDA.emitter.plan(of, BLACKWELL)))


@needs_nvrtc
@pytest.mark.parametrize("of", [program(512, 512, 512, tile=(128, 128, 64), warps=8), program(dtype="f16", batch=3)])
def test_compiles_to_its_instructions(of: Program) -> None:
    source = emitted(of)
    assert "it has run on no silicon" in source.text
    binary = TOOLCHAIN.compile(source)
    assert binary.assembly is not None and binary.resources[0].spills == 0
    for word in ("alloc", "mma", "commit", "ld", "wait::ld", "fence::before", "fence::after", "dealloc"):
        assert f"tcgen05.{word}" in binary.assembly


# ---- right -------------------------------------------------------------------------------------------------------------------

WIDE = {"m": 128, "n": 256, "k": 64, "warps": 8, "stages": 2}


@needs_host
@pytest.mark.parametrize("of", [
    program(), program(129, 520, 72, "f16", (128, 256, 64), 8, 2), program(200, 264, 200, cluster="2x1"),
    *map(slow, (
        program(130, 200, 200, "bf16", (128, 192, 64), 8, 2), program(70, 136, 72, "bf16", (64, 128, 64), 8, 2, batch=3),
        program(1, 8, 8, "f16", (64, 64, 64)), program(200, 200, 136, cluster="2x2"), program(Sym.named("M")),
    )),
])  # fmt: skip
def test_right_in_every_shape(of: Program) -> None:
    """Ragged ends, one block for all tiles, and products that happen late and early."""
    assert error_of(of, by_one_block(emitted(of))) <= 1


def turned(how: str, precision: str = "ieee") -> Operator:
    """``how`` says of a and of b whether it lies the other way (t) or not (n)."""
    dims = {"a": ("K", "M") if how[0] == "t" else ("M", "K"), "b": ("N", "K") if how[1] == "t" else ("K", "N")}

    @pk.operator(shapes=lambda: dims, name=f"turned_{how}_{precision}", dtypes=("bf16", "i8"))
    def made(a: pk.Tensor["M", "K"], b: pk.Tensor["K", "N"]):
        x = pk.transpose(a) if how[0] == "t" else a
        y = pk.transpose(b) if how[1] == "t" else b
        return pk.matmul(x, y, pk.f32 if x.dtype.is_float else pk.i32, precision=precision)

    return made


@pk.operator
def scaled_and_squashed(a: pk.Tensor["B", "M", "K"], b: pk.Tensor["B", "N", "K"], r: pk.Tensor["B", "M", "N"],
                        s: pk.Tensor["M"]):  # fmt: skip
    x = pk.einsum("bmk,bnk->bmn", a, b)
    y = x * pk.broadcast_to(pk.reshape(s, (1, s.shape[0], 1)), x.shape) + r
    return y, pk.tanh(y)


@pk.operator
def summed_heads(a: pk.Tensor["M", "H", "K"], b: pk.Tensor["H", "K", "N"]):
    return pk.einsum("mhk,hkn->mn", a, b)


@needs_host
@needs_nvrtc
@pytest.mark.parametrize(("op", "dtype", "schedule", "sizes"), [
    (turned("tt"), "bf16", WIDE, {"M": 136, "N": 264, "K": 72}),
    (turned("tn"), "i8", {**WIDE, "k": 128}, {"M": 144, "N": 272, "K": 144}),
    (turned("nt", "fp8_fast"), "f8e4m3", None, {"M": 65, "N": 80, "K": 144}),
    (product, "bf16", {**WIDE, "n": 128, "split_k": 3}, {"M": 130, "N": 136, "K": 200}),  # the last part has nothing
    slow(turned("nt"), "bf16", WIDE, {"M": 136, "N": 264, "K": 72}),
    slow(turned("tn"), "bf16", WIDE, {"M": 136, "N": 264, "K": 72}),
    slow(turned("nt"), "u8", None, {"M": 65, "N": 80, "K": 144}),
    slow(turned("nt", "fp8_fast"), "f8e5m2", None, {"M": 65, "N": 80, "K": 144}),
    slow(scaled_and_squashed, "bf16", None, {"B": 2, "M": 70, "N": 72, "K": 64}),
    slow(summed_heads, "f16", None, {"M": 65, "H": 3, "K": 64, "N": 72}),
])  # fmt: skip
def test_operators(op: Operator, dtype: str, schedule: dict[str, int] | None, sizes: dict[str, int]) -> None:
    asked = work(op, sizes, dtype, schedule)
    built = steps.build(asked)
    assert built.source is not None and "TensorPipeline" in built.source.text
    row = steps.check(asked, built, full=False)
    assert row.error is None and row.correct, row.error
    assert row.evidence == "interpreted"


# ---- misuse ------------------------------------------------------------------------------------------------------------

SMALL = program(tile=(128, 64, 64))


@cache
def small() -> Source:
    return by_one_block(emitted(SMALL))


def with_fault(source: Source, *changes: tuple[str, str]) -> Source:
    """``source`` whose library has for each change the second text in place of the first."""
    text = dict(source.headers)["pk/tensor_memory.cuh"]
    for old, new in changes:
        assert old in text, f"the library does not say {old}"
        text = text.replace(old, new, 1)
    headers = {**dict(source.headers), "pk/tensor_memory.cuh": text}
    return replace(source, headers=tuple(headers.items()))


AFTER, BEFORE = "ptx::tcgen05_fence_after();", "ptx::tcgen05_fence_before();"
TOLD, WAIT = "if (lane() == 0) ptx::barrier_arrive(taken + sum);", "ptx::tcgen05_wait_load();"
SUM, SLOT = "ptx::tcgen05_commit(complete + sum);", "ptx::tcgen05_commit(Base::empty + Base::slot);"
GIVEN = "if (warp() == 0) ptx::tcgen05_dealloc<columns>(memory);"
FIRST, TAKEN, BEGIN = "ptx::barrier_wait(complete + sum, round);", "ptx::barrier_wait(taken + sum, round ^ 1);", "keep = false;"
STARTED = f"C::sync();\n        {AFTER}\n        memory = *address;"
COLUMNS, NUMBERS = "static_cast<uint32_t>(cols) >> 3 << 17", ""
FAULTS: dict[str, tuple[str, *tuple[tuple[str, str], ...]]] = {
    "an arrival instead of a commit": ("before the barrier was waited for that a commit",
        (SUM, SUM.replace("tcgen05_commit", "barrier_arrive"))),
    "the sum is not waited for": ("before the barrier was waited for", (FIRST, "")),
    "the one before it is not waited for": ("load is under way|before those who load it have told", (TAKEN, "")),
    "no fence behind the sum's barrier": ("no tcgen05.fence::after_thread_sync", (f"{FIRST}\n        {AFTER}", FIRST)),
    "no fence behind the loads": ("no tcgen05.fence::before_thread_sync",
        (f"{BEFORE}\n            __syncwarp();\n            {TOLD}", f"__syncwarp(); {TOLD}")),
    "no wait for the loads": ("load is under way|never waited for", (WAIT, "")),
    "the memory is not given back": ("not given back", (GIVEN, "")),
    "too little is taken": ("that were not taken", ("power_of_two_from(2 * cols)", "power_of_two_from(cols)")),
    "wgmma's descriptor": ("bits 46 to 48", ("of_tcgen05 = 1ull << 46", "of_tcgen05 = 0")),
    "another type of operands": (NUMBERS, ("type = same<E, bf16>", "type = same<E, f16>")),
}  # fmt: skip
MORE_FAULTS: dict[str, tuple[str, *tuple[tuple[str, str], ...]]] = {
    "a block ends before its slots are back": ("on their way to barriers", ("i < Count; ++i, Base::advance()", "i < 0;")),
    "the slot is never committed": ("threads wait for what never comes", (SLOT, ";")),
    "another warp's lanes": ("lanes of tensor memory that it does not reach", ("warp() % 4 << 21", "(warp() + 1) % 4 << 21")),
    "the address is read before it is there": ("nothing orders two accesses",
        (STARTED, f"memory = *address; C::sync(); {AFTER}")),
    "a slot given back without a commit": ("nothing orders two accesses",
        (SLOT, SLOT.replace("tcgen05_commit", "barrier_arrive"))),
    "the sum is never committed": ("threads wait for what never comes", (SUM, "")),
    "the wrong phase of the sum": ("before the barrier was waited for|never comes",
        (FIRST, FIRST.replace("round", "round ^ 1"))),
    "a slot is not waited for": ("nothing orders two accesses",
        ("const int slot = Base::arrived();", "const int slot = Base::slot;")),
    "no fence behind the loads' barrier": ("no tcgen05.fence::after_thread_sync", (f"{AFTER}\n        {BEGIN}", BEGIN),
                                           (f"Base::arrived();\n        {AFTER}", "Base::arrived();")),
    "told before the loads are over": ("tensor memory is changed", (TOLD, ""), (WAIT, f"{BEFORE} __syncwarp(); {TOLD} {WAIT}")),
    "half of the memory is given back": ("not given back", (GIVEN, GIVEN.replace("columns", "columns / 2"))),
    "it is given back twice": ("given back that was not taken", (GIVEN, GIVEN + GIVEN)),
    "it is given back while it is in use": ("tensor memory is",
        (f"{BEFORE}\n        C::sync();\n        {AFTER}\n        if", "if")),
    "more is taken after it was said that there is none": ("has said that it takes no more",
        ("ptx::tcgen05_relinquish();", "ptx::tcgen05_relinquish(); ptx::tcgen05_alloc<32>(address);")),
    "a number that is no power of two": ("in powers of two", ("power_of_two_from(2 * cols))", "2 * cols + 32)")),
    "an address that nobody was given": ("that were not taken", ("memory = *address;", "memory = 0;")),
    "other lanes of its own": ("does not reach", ("+ (i << 19)", "+ (i << 18)")),
    "the wrong lanes of its own": (NUMBERS, ("+ (i << 19)", "+ (2 - i << 19)")),
    "other columns": (NUMBERS, ("from + j * 4", "from + j * 2")),
    "no sum begins": (NUMBERS, (f"{AFTER}\n        {BEGIN}", AFTER)),
    "every product begins the sum": (NUMBERS, ("what, keep);", "what, false);")),
    "no swizzle in the descriptor": ("another swizzle", ("2ull << 61", "0ull << 61")),
    "another stride": (NUMBERS, ("R * 128, 8 * 128", "R * 128, 4 * 128")),
    "another place along k": (NUMBERS, ("(k_major ? col % S::panel : 0)", "0")),
    "another type of sums": ("another type of sums", ("sum = floats ? 1 : 2", "sum = floats ? 0 : 2")),
    "half of the rows": (NUMBERS, ("static_cast<uint32_t>(rows) >> 4 << 24", "static_cast<uint32_t>(rows) >> 5 << 24")),
    "fewer columns": (NUMBERS, (COLUMNS, COLUMNS.replace(">> 3", ">> 4"))),
    "a number of columns that no product has": ("number of columns", (COLUMNS, COLUMNS.replace("cols", "cols + 8"))),
    "a left operand turned": (NUMBERS, ("static_cast<uint32_t>(turned_left) << 15", "1u << 15")),
    "a right operand not turned": (NUMBERS, ("static_cast<uint32_t>(turned_right) << 16", "0u")),
}  # fmt: skip


@needs_host
def test_the_kernel_without_a_fault() -> None:
    assert error_of(SMALL, small()) <= 1


@needs_host
def test_a_sum_in_halves_is_kept_until_both_are_taken() -> None:
    of = program(129, 520, 72, tile=(128, 256, 64), warps=8)
    source = by_one_block(emitted(of))
    assert "TensorPipeline<Cluster, 3, Acc, 2>" in source.text
    with pytest.raises(SimulatorError, match=r"tensor memory is|threads wait for what never comes"):
        error_of(of, with_fault(source, ("if (part + 1 == Parts) {", "if (part == 0) {")))


@needs_host
def test_a_slot_is_given_back_to_all_blocks_that_fill_it() -> None:
    of = program(200, 200, 200, cluster="2x1")
    every, own = "ptx::tcgen05_commit_to(Base::writers(), Base::empty", "ptx::tcgen05_commit(Base::empty"
    with pytest.raises(SimulatorError, match="threads wait for what never comes"):
        error_of(of, with_fault(by_one_block(emitted(of)), (every, own)))


@needs_host
@pytest.mark.parametrize("fault", [*FAULTS, *map(slow, MORE_FAULTS)])
def test_a_fault_is_found(fault: str) -> None:
    """By its name, or where nothing is misused, in the numbers."""
    told, *changes = {**FAULTS, **MORE_FAULTS}[fault]
    source = with_fault(small(), *changes)
    if told:
        with pytest.raises(SimulatorError, match=told):
            error_of(SMALL, source)
        return
    try:
        assert not error_of(SMALL, source) <= 1
    except SimulatorError as error:
        assert "tensor memory" in str(error) or "nothing orders two accesses" in str(error)
