"""Products and attention in Triton: tensor descriptors, programs that take several blocks, walks split at the mask."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from portakern.backend import Source
from portakern.backends.triton import triton_language
from portakern.backends.triton.schedule.families import OPTIONS, schedules
from portakern.errors import ScheduleError
from portakern.ir.oracle import evaluate
from portakern.ir.program import ArrayFacts
from portakern.ir.schedule import Nest, Schedule, Value, override
from portakern.lower import lower
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.tools.workers import WorkerPool
from tests.triton import support

pytest.importorskip("triton")
pytest.importorskip("torch")


@pytest.fixture(scope="module")
def interpreter() -> Iterator[WorkerPool]:
    with WorkerPool(1, env=support.environment(triton_language), preload=("torch", "triton")) as pool:
        yield pool


@pytest.fixture(scope="module")
def compiler() -> Iterator[WorkerPool]:
    with WorkerPool(1, env=dict(triton_language.environment), preload=("torch", "triton")) as pool:
        yield pool


Facts = Mapping[str, ArrayFacts] | None


def emitted(name: str, dims: Mapping[str, Any], params: Mapping[str, Any] = {}, target: str = "triton:sm_90",
            dtype: str = "bf16", facts: Facts = None, **asked: Value) -> tuple[Any, Source]:  # fmt: skip
    at = registry().target(target)

    def choose(nest: Nest) -> Schedule:
        return override(schedules(nest, at.device)[0], nest, asked, OPTIONS)

    program = load_operator(name).program(dims, params, dtype)
    return program, triton_language.emitter.emit(lower(program, choose, facts=facts), at)


def runs_right(interpreter: WorkerPool, program: Any, source: Source) -> None:
    """Against the oracle, with guard bands around every array."""
    inputs = support.random_inputs_of(source)
    ran = interpreter.call("tests.triton.support:execute", "triton", source, inputs, {})
    assert ran.broken == ()
    for name, want in evaluate(program, inputs).items():
        got, exact = np.asarray(ran.outputs[name], np.float64), np.asarray(want, np.float64)
        assert np.max(np.abs(got - exact), initial=0) <= 0.02 * np.max(np.abs(exact), initial=1e-9)


SMALL: dict[str, Any] = {"m": 32, "n": 64, "k": 32, "warps": 4}


# ---- descriptors


@pytest.mark.parametrize("params", [{}, {"transpose_a": True}, {"transpose_b": True}])
@pytest.mark.parametrize("dims", [{"M": 64, "N": 128, "K": 96}, {"M": 88, "N": 120, "K": 104},
                                  {"B": (3,), "M": 40, "N": 72, "K": 40}])  # fmt: skip
def test_products_through_descriptors(interpreter: WorkerPool, dims: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    program, source = emitted("matmul", dims, params, **SMALL)
    assert source.text.count("TensorDescriptor.from_tensor(") == 3
    assert "tl.load(" not in source.text and "mask=" not in source.text
    runs_right(interpreter, program, source)


@pytest.mark.parametrize(("dims", "described"), [
    ({"M": 64, "N": 100, "K": 96}, {"a"}),  # rows of 200 bytes are no multiple of 16
    ({"M": 64, "N": 104, "K": 97}, {"b", "out"}),
    ({"M": 63, "N": 105, "K": 97}, set()),
])  # fmt: skip
def test_unaligned_rows_take_pointers(interpreter: WorkerPool, dims: Mapping[str, int], described: set[str]) -> None:
    program, source = emitted("matmul", dims, **SMALL)
    assert set(re.findall(r"(\w+)_desc = TensorDescriptor", source.text)) == described
    runs_right(interpreter, program, source)


def test_corners_count_in_32_bits_whatever_the_step_of_a_loop_is() -> None:
    """A run-time size, such as the step, comes as a 64-bit argument; some releases of Triton refuse it as a coordinate."""
    _, source = emitted("lstm", {"T": 16, "B": 256, "I": 512, "H": 512}, target="triton:h200")
    assert "step: tl.int64" in source.text
    corners = re.findall(r"_desc\.(?:load|store)\(\[(.*?)\]", source.text)
    assert any("tl.cast(step, tl.int32)" in c for c in corners)
    assert not [c for c in corners if "step" in c.replace("tl.cast(step, tl.int32)", "")]


def test_what_is_stored_wider_than_the_operands_fits_into_shared_memory(compiler: WorkerPool) -> None:
    _, source = emitted("gru", {"T": 128, "B": 32, "I": 512, "H": 512}, target="triton:h200")
    text = source.text[: source.text.index("_2_kernel")]
    assert "tl.dot(" in text and "_desc.store(" in text  # the product of all steps, in f32
    assert compiler.call("tests.triton.schedule.test_space:compiled", source)


@pytest.mark.parametrize("programs", [0, 3])
def test_results_by_pointers(interpreter: WorkerPool, programs: int) -> None:
    program, source = emitted("matmul", {"M": 88, "N": 120, "K": 104}, **SMALL, descriptors=2, programs=programs)
    assert set(re.findall(r"(\w+)_desc = TensorDescriptor", source.text)) == {"a", "b"} and "tl.store(" in source.text
    runs_right(interpreter, program, source)


@pytest.mark.parametrize(("n", "by_pointers"), [(1000, True), (1024, False), (5000, False)])
def test_one_wave_of_rows_off_cache_lines_is_written_by_pointers(n: int, by_pointers: bool) -> None:
    text = emitted("matmul", {"M": n, "N": n, "K": n}, target="triton:h200")[1].text
    assert ("out_desc" not in text) == by_pointers


@pytest.mark.parametrize(("dims", "copied"), [
    ({"M": 63, "N": 105, "K": 97}, {"a", "b"}),
    ({"M": 64, "N": 128, "K": 104}, {"a"}),  # rows of 208 bytes: the engine takes them, but not as whole lines
    ({"M": 64, "N": 128, "K": 64}, set()),
    ({"B": (2,), "M": 33, "N": 70, "K": 64}, {"b"}),
])  # fmt: skip
def test_operands_off_cache_lines_are_packed(interpreter: WorkerPool, dims: Mapping[str, Any], copied: set[str]) -> None:
    program, source = emitted("matmul", dims, **SMALL, pack="both")
    assert set(re.findall(r"(\w+)_packed = torch.empty", source.text)) == copied
    described = set(re.findall(r"(\w+)_desc = TensorDescriptor", source.text))
    assert {f"{x}_packed" if x in copied else x for x in "ab"} <= described
    runs_right(interpreter, program, source)


@pytest.mark.parametrize(("sizes", "copied"), [
    ((4095, 4095, 4095), {"a", "b"}),
    ((4000, 4104, 4072), {"a"}),  # more than the last-level cache holds
    ((3000, 5000, 2000), set()),
    ((4096, 4096, 4096), set()),
    ((63, 65, 67), set()),
])  # fmt: skip
def test_large_products_off_cache_lines_are_packed(sizes: tuple[int, int, int], copied: set[str]) -> None:
    text = emitted("matmul", dict(zip("MNK", sizes, strict=True)), target="triton:h200")[1].text
    assert set(re.findall(r"(\w+)_packed = torch.empty", text)) == copied


def test_lines_are_kept_where_the_schedule_says_so(interpreter: WorkerPool) -> None:
    for keep, count in (("none", 0), ("loads", 2), ("stores", 1), ("both", 3)):
        program, source = emitted("rms_norm", {"M": 5, "N": 60}, keep=keep)
        assert source.text.count('eviction_policy="evict_last"') == count
        runs_right(interpreter, program, source)
    with pytest.raises(ScheduleError, match="keep is one of none, loads, stores, both, not all"):
        emitted("rms_norm", {"M": 5, "N": 60}, keep="all")


def test_packing_is_asked_for() -> None:
    assert "_packed" not in emitted("matmul", {"M": 63, "N": 105, "K": 97}, pack="none")[1].text
    assert "b_packed" not in emitted("matmul", {"M": 64, "N": 120, "K": 104}, pack="m")[1].text
    with pytest.raises(ScheduleError, match="pack is one of none, m, n, both, not a"):
        emitted("matmul", {"M": 64, "N": 120, "K": 104}, pack="a")
    assert "_packed" not in emitted("attention", {**SHAPE, "D": 40}, CAUSAL, pack="both")[1].text


def test_only_where_the_hardware_has_them() -> None:
    dims = {"M": 512, "N": 512, "K": 512}
    for target, wanted in (("triton:sm_90", True), ("triton:sm_80", False), ("triton:gfx942", False)):
        assert ("TensorDescriptor" in emitted("matmul", dims, target=target)[1].text) == wanted
    assert "TensorDescriptor" not in emitted("matmul", dims, dtype="f32")[1].text
    assert "TensorDescriptor" not in emitted("matmul", dims, descriptors=0)[1].text
    unaligned = {"a": ArrayFacts(strides=None, align=2)}
    assert "a_ptr" in emitted("matmul", dims, facts=unaligned)[1].text


def test_matrix_units_are_fed_by_the_copy_engine(compiler: WorkerPool) -> None:
    _, source = emitted("matmul", {"M": 512, "N": 512, "K": 512}, m=128, n=128, k=64, warps=8, stages=3)
    binary = compiler.call("tests.triton.support:compiled", "triton", source)
    assert "wgmma.mma_async" in binary.assembly and "cp.async.bulk.tensor" in binary.assembly
    assert binary.resources[0].spills == 0


# ---- programs that take several blocks


@pytest.mark.parametrize("name", ["matmul", "matmul_bias_gelu"])
def test_programs_share_the_blocks(interpreter: WorkerPool, name: str) -> None:
    program, source = emitted(name, {"M": 104, "N": 200, "K": 72}, **SMALL, programs=3)
    assert "flatten=True" in source.text and "min(3, " in source.text
    runs_right(interpreter, program, source)


def test_shared_blocks_of_a_batch(interpreter: WorkerPool) -> None:
    program, source = emitted("matmul", {"B": (2,), "M": 72, "N": 136, "K": 40}, **SMALL, programs=5)
    assert "flatten=True" in source.text
    runs_right(interpreter, program, source)


# ---- attention

CAUSAL = {"causal": True}
SHAPE = {"B": 1, "H": 2, "G": 2, "SQ": 128, "SK": 128, "D": 32}


@pytest.mark.parametrize(("described", "split"), [(0, 1), (1, 1), (1, 2)])
@pytest.mark.parametrize("more", [{}, {"SQ": 77, "SK": 77}, {"SQ": 140, "SK": 200}, {"SQ": 200, "SK": 64},
                                  {"SQ": 100, "SK": 131}])  # fmt: skip
def test_walks_split_at_the_mask(interpreter: WorkerPool, more: Mapping[str, int], described: int, split: int) -> None:
    heads = 3 * described  # of four: the last turn is a short one
    program, source = emitted("attention", {**SHAPE, **more}, CAUSAL, m=64, n=32, descriptors=described, split=split,
                              heads=heads)  # fmt: skip
    first, second = (source.text[m.start():] for m in re.finditer(r"    for ", source.text))
    assert [">=" in first[: len(first) - len(second)], ">=" in second] == [split == 2, split == 1]
    runs_right(interpreter, program, source)


def test_walks_stay_whole_where_blocks_and_tiles_do_not_meet(interpreter: WorkerPool) -> None:
    program, source = emitted("attention", SHAPE, CAUSAL, m=32, n=64, split=1)
    assert source.text.count("    for ") == 1
    runs_right(interpreter, program, source)


@pytest.mark.parametrize(("more", "params"), [
    ({}, CAUSAL), ({"SQ": 77, "SK": 77}, CAUSAL), ({"SQ": 140, "SK": 200}, CAUSAL), ({"SQ": 200, "SK": 64}, CAUSAL),
    ({"SQ": 200, "SK": 2}, CAUSAL), ({"SQ": 100, "SK": 131}, {"causal": False}), ({"SQ": 70, "SK": 20}, {"causal": False}),
    ({"SQ": 70, "SK": 96}, {"causal": False}),
])  # fmt: skip
@pytest.mark.parametrize(("ahead", "described", "tiles"), [(1, 0, (64, 32)), (1, 1, (64, 32)), (2, 1, (64, 32)),
                                                           (2, 1, (64, 64))])  # fmt: skip
def test_next_scores_come_first(interpreter: WorkerPool, more: Mapping[str, int], params: Mapping[str, Any], ahead: int,
                                described: int, tiles: tuple[int, int]) -> None:  # fmt: skip
    program, source = emitted("attention", {**SHAPE, **more}, params, m=tiles[0], n=tiles[1], descriptors=described,
                              ahead=ahead, split=3)  # fmt: skip
    loop = source.text.index("    for ")
    order = [source.text.index(x, loop) for x in ("acc * exp2_top", ".to(tl.bfloat16)", "product = tl.dot(q", "acc = tl.dot(")]
    assert source.text.index("product = tl.dot(q") < loop
    assert sorted(range(4), key=order.__getitem__) == ([1, 0, 2, 3] if ahead == 1 else [2, 3, 1, 0])
    assert ("if j0 >= i0:" in source.text) == (params == CAUSAL and tiles[0] > tiles[1])
    runs_right(interpreter, program, source)


def test_next_scores_wait_where_a_walk_may_have_no_step() -> None:
    for split, ahead in ((0, True), (1, False), (2, False), (3, True)):
        text = emitted("attention", {**SHAPE, "SK": 140}, CAUSAL, m=64, n=32, ahead=2, split=split)[1].text
        assert ("next_j0" in text) == ahead


def test_walks_in_64_bits_do_not_go_ahead() -> None:
    for described in (0, 1):
        dims = {"B": 1, "H": 64, "G": 1, "SQ": 1024, "SK": 1 << 20, "D": 256}
        text = emitted("attention", dims, m=64, n=32, descriptors=described, ahead=1)[1].text
        assert ("The scores of the next tile" in text, "tl.int64" in text) == (bool(described), not described)


def test_exponentials_are_powers_of_two() -> None:
    text = emitted("attention", SHAPE, {"causal": False}, ahead=0)[1].text
    assert "tl.exp2(tl.fma(product, " in text and text.count("tl.exp2(") == 2 and "tl.exp(" not in text


def test_attention_golden(golden: Callable[[str, str], None]) -> None:
    golden("attention_causal.py", emitted("attention", {**SHAPE, "SQ": 1024, "SK": 1024, "D": 128}, CAUSAL)[1].text)
    golden("matmul_bias_gelu.py", emitted("matmul_bias_gelu", {"M": 4096, "N": 4096, "K": 4096})[1].text)


def test_a_dim_of_one_element_may_have_any_stride(interpreter: WorkerPool) -> None:
    """Contiguous arrays may have any stride there, and no descriptor takes one off 16 bytes: what it is told is written out."""
    program, source = emitted("matmul", {"B": (1,), "M": 64, "N": 128, "K": 96}, **SMALL)
    assert "a_desc = TensorDescriptor(a, [1, 64, 96], [6144, 96, 1], " in source.text and "from_tensor" not in source.text
    runs_right(interpreter, program, source)
