"""Emitted kernels run on the CPU, threads as fibers, and what that catches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import portakern as pk
from portakern.backend import Source
from portakern.errors import SimulatorError
from portakern.registry import registry
from tests import samples
from tests.cuda import references
from tests.cuda.variants import all_variants, scheduled

CUDA = registry().language("cuda")
HOPPER = registry().target("cuda:sm_90a")
assert CUDA.simulator is not None
SIMULATOR = CUDA.simulator
pytestmark = pytest.mark.skipif(not SIMULATOR.available(HOPPER), reason="needs a C++ compiler on x86-64 Linux")
FEW = ("softmax", "softmax_long_open", "transpose_bf16", "column_sums", "matmul_deep", "wgmma_side", "pipeline",
       "pipeline_quad", "pipeline_batched", "narrow", "few_rows", "matmul_f32_large", "attention_registers",
       "walk")  # fmt: skip


def emitted(name: str) -> Source:
    return CUDA.emitter.emit(all_variants()[name], HOPPER)


def error_of(name: str, source: Source) -> float:
    """The error as a share of the tolerance; the run is repeated with threads in the other order if all was right."""
    program = all_variants()[name]
    executable = SIMULATOR.load(source, None)
    worst = 0.0
    for _ in range(2):
        buffers = references.make_buffers(program)
        executable.run(buffers, references.SIZES)
        assert all(map(references.guards_intact, buffers.values())), "wrote outside an array"
        ratio = references.error_ratio(program, buffers)
        worst = ratio if ratio != ratio else max(worst, ratio)
        if not worst <= 1:
            break
    return worst


@pytest.mark.parametrize("name", FEW)
def test_right(name: str) -> None:
    assert error_of(name, emitted(name)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in all_variants() if n not in FEW])
def test_every_sample_is_right(name: str) -> None:
    assert error_of(name, emitted(name)) <= 1


def changed(name: str, change: Callable[[str], str]) -> Source:
    source = emitted(name)
    text = change(source.text)
    assert text != source.text, "the change changes nothing"
    return replace(source, text=text)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("matmul_deep", "pk::wait<1>()", "pk::wait<2>()"),  # a copy is read before it has arrived
        ("matmul_deep", "slot = (slot + 1) % 3", "slot = (slot + 2) % 3"),
        ("attention_registers", "pk::wait<0>();\n        pk::sync();  // this", "pk::sync();  // this"),
        ("pipeline", "pipe.release_previous()", "pipe.release(slot), pipe.advance()"),  # before its product has read it
        ("pipeline", "pipe.finish();", ""),  # the sum is read before it is complete
        ("pipeline", "outbox.finish();", ""),  # the block ends before its result is out
        ("pipeline_quad", "pipe.copy_right(w_shared[slot], w_map, k0, n0)", "pipe.copy_right(w_shared[slot], w_map, n0, k0)"),
        ("narrow", "rank() != 0", "rank() != 1"),  # a block that has only a part of the sums
        ("few_rows", "<Acc, 2, 5, true", "<Acc, 2, 4, true"),  # a row is left out
        ("column_sums", "m_left, n_left, 0.0f)", "m_left, n_left, 1.0f)"),  # the pad of the ragged end
    ],
)
def test_a_seeded_fault_shows(name: str, old: str, new: str) -> None:
    """In the result, or as accesses that nothing orders."""
    source = changed(name, lambda text: text.replace(old, new))
    try:
        assert not error_of(name, source) <= 1
    except SimulatorError as error:
        assert "nothing orders two accesses" in str(error)


def test_a_barrier_that_not_all_threads_meet_is_an_error() -> None:
    barrier = "if (pk::warp() == 0) __syncthreads();\n    pk::store("
    source = changed("column_sums", lambda text: text.replace("pk::store(", barrier))
    with pytest.raises(SimulatorError, match="a barrier is not met by all threads"):
        error_of("column_sums", source)


@pytest.mark.parametrize(
    ("size", "tile", "warps"),
    [((201, 135, 267), (128, 128, 64), 8), ((70, 515, 267), (128, 256, 64), 8), ((300, 139, 70), (256, 128, 64), 8),
     ((70, 129, 130), (64, 64, 64), 4)],
)  # fmt: skip
def test_arrays_off_16_bytes(size: tuple[int, int, int], tile: tuple[int, int, int], warps: int,
                             monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Operands are packed first, and the result is written row by row."""
    monkeypatch.setattr("portakern.backends.cuda.hopper.packing.LEAST", 1)
    monkeypatch.setattr("portakern.backends.cuda.hopper.packing.SHORTEST", 1)
    program = scheduled(samples.matmul_bias(*size, "bf16", tile), warps, 3)
    source = CUDA.emitter.emit(program, HOPPER)
    packed = [name for name in ("a", "w") if (size[2] if name == "a" else size[1]) % 8]
    names = ["matmul_bias_pack_" + "_".join(packed), "matmul_bias"]  # both copies in one launch
    assert [x.kernel for x in source.launches] == names and len(source.by_role("temporary")) == len(packed)
    assert "writer.store(" in source.text
    executable = SIMULATOR.load(source, None)
    for _ in range(2):
        buffers = references.make_buffers(program)
        executable.run(buffers, references.SIZES)
        assert all(map(references.guards_intact, buffers.values()))
        assert references.error_ratio(program, buffers) <= 1


def test_bytes_that_never_arrive_are_an_error() -> None:
    source = changed("pipeline", lambda text: text.replace("pipe.refill(49152)", "pipe.refill(49153)"))
    with pytest.raises(SimulatorError, match="threads wait for what never comes"):
        error_of("pipeline", source)


def test_a_compiler_that_guards_copies_by_default_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of some distributions do; a guarded copy is a function of this processor, which no kernel may call."""
    compiler = shutil.which("g++") or pytest.skip("needs g++")
    wrapper = tmp_path / "g++"
    wrapper.write_text(f'#!/bin/sh\nexec {compiler} -D_FORTIFY_SOURCE=3 "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PORTAKERN_CACHE", str(tmp_path / "cache"))
    assert pk.check("cumsum", targets="cuda:sm_80", shape="M=2,N=70000", dtype="f32").rows[0].correct


def test_more_than_the_tile_library_is_refused() -> None:
    more = "__nanosleep(1);\n    pk::store("
    source = changed("column_sums", lambda text: text.replace("pk::store(", more))
    with pytest.raises(SimulatorError) as caught:
        SIMULATOR.load(source, None)
    assert caught.value.kind == "unsupported-source"


@pytest.mark.parametrize(
    ("m", "n", "k", "transposed", "how"),
    [(1, 136, 520, False, "few_rows<Acc, 4, 1, true"), (1, 520, 1032, True, "row_times_columns<"),
     (11, 520, 1032, True, "few_rows<Acc, 4, 11, false")],
)  # fmt: skip
def test_few_rows_times_a_matrix_stored_either_way(m: int, n: int, k: int, transposed: bool, how: str) -> None:
    """By default through boxes of the copy engine, here at ends that cut a block's columns and a box."""
    built = pk.build("matmul", target="cuda:sm_90a", dtype="bf16", M=m, N=n, K=k, transpose_b=transposed)
    assert how in built.source and "b_map" in built.source
    (row,) = pk.compare("matmul", targets=["cuda:sm_90a"], dtype="bf16", M=m, N=n, K=k, transpose_b=transposed).rows
    assert row.error is None and row.evidence == "interpreted"
