"""Triton: every sample and small library case through the interpreter, compiled for absent GPUs; golden sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from portakern.backend import Resources, Target
from portakern.backends.triton import backend, triton_language
from portakern.backends.triton.schedule.families import schedules
from portakern.device import load_devices
from portakern.errors import CompileError, UsageError
from portakern.ir.schedule import Nest, NestAxis
from portakern.tools.workers import WorkerPool
from tests import samples
from tests.triton import support

DEVICES = load_devices(backend.devices)
SM90 = Target("triton", DEVICES["sm_90"])
SAMPLES = samples.all_samples()

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


def compiled(pool: WorkerPool, name: str, isa: str) -> Resources:
    source = triton_language.emitter.emit(SAMPLES[name], Target("triton", DEVICES[isa]))
    binary = pool.call("tests.triton.support:compiled", "triton", source)
    assert binary.data[:4] == b"\x7fELF" and binary.assembly
    assert binary.format == ("cubin" if isa.startswith("sm_") else "hsaco")
    (resources,) = binary.resources
    return resources


# ---- interpreted


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_is_right_in_the_interpreter(interpreter: WorkerPool, name: str) -> None:
    program = SAMPLES[name]
    sizes = support.sizes_of(program)
    inputs = support.random_inputs(program, sizes)
    source = triton_language.emitter.emit(program, SM90)
    ran = interpreter.call("tests.triton.support:execute", "triton", source, inputs, sizes)
    assert ran.broken == ()
    assert support.worst_error(program, ran.outputs, inputs, sizes) < 1


@pytest.mark.parametrize("case", ["nan", "-inf", "zeros"])
def test_special_rows(interpreter: WorkerPool, case: str) -> None:
    """NaN is handed on by maxima; a row of -inf gives what the IR says."""
    program = samples.softmax(dtype="f32")
    inputs = support.random_inputs(program, {})
    inputs["x"][1] = {"nan": np.nan, "-inf": -np.inf, "zeros": 0}[case]
    inputs["x"][2, 7] = {"nan": np.nan, "-inf": -np.inf, "zeros": 0}[case]
    ran = interpreter.call("tests.triton.support:execute", "triton", triton_language.emitter.emit(program, SM90), inputs, {})
    assert support.worst_error(program, ran.outputs, inputs, {}) < 1


BF16_ARITHMETIC = """
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    x = tl.load(x_ptr + n)
    tl.store(y_ptr + n, tl.maximum(x + x, -x) * 1.5)

def softmax(x, y):
    kernel[(x.numel() // 16,)](x, y, N=16)
"""


def test_foreign_text_computes_in_bf16(interpreter: WorkerPool) -> None:
    """Triton's own interpreter adds bf16 bit patterns; candidates of generators do arithmetic in bf16."""
    program = samples.softmax(1, 16, "bf16", (1, 16))
    assert triton_language.adopt
    source = triton_language.adopt(BF16_ARITHMETIC, None, program, SM90)
    inputs = support.random_inputs(program, {})
    ran = interpreter.call("tests.triton.support:execute", "triton", source, inputs, {})
    x = inputs["x"].astype(np.float32)
    np.testing.assert_array_equal(ran.outputs["y"].astype(np.float32),
                                  (np.maximum(2 * x, -x) * 1.5).astype(inputs["x"].dtype).astype(np.float32))  # fmt: skip


def test_a_write_outside_is_seen(interpreter: WorkerPool) -> None:
    program = samples.add_bias(3, 1000, "f32", (1, 1024))
    source = triton_language.emitter.emit(program, SM90)
    store = source.text.index("tl.store")
    unmasked = source.text[:store] + source.text[store:].replace(", mask=n < N", "", 1)
    assert unmasked != source.text
    ran = interpreter.call("tests.triton.support:execute", "triton", replace(source, text=unmasked),
                           support.random_inputs(program, {}), {})  # fmt: skip
    assert ran.broken == ("y",)


# ---- compiled


@pytest.mark.parametrize("isa", ["sm_90", "gfx942"])
@pytest.mark.parametrize("name", ["softmax", "matmul_bias", "attention_full", "add_bias_open"])
def test_compiles_without_a_gpu(compiler: WorkerPool, name: str, isa: str) -> None:
    resources = compiled(compiler, name, isa)
    assert resources.registers and resources.registers <= DEVICES[isa].count("registers_per_thread")
    assert resources.code_bytes and resources.occupancy and 0 < resources.occupancy <= 1


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["sm_90", "gfx942"])
@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_compiles(compiler: WorkerPool, name: str, isa: str) -> None:
    assert compiled(compiler, name, isa).code_bytes


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["sm_80", "sm_100", "gfx90a", "gfx950", "gfx1201"])
@pytest.mark.parametrize("name", ["softmax", "matmul_bias", "attention"])
def test_other_devices(compiler: WorkerPool, name: str, isa: str) -> None:
    assert compiled(compiler, name, isa).code_bytes


def test_matrix_units_are_used(compiler: WorkerPool) -> None:
    for isa, instruction in (("sm_90", "mma"), ("gfx942", "v_mfma_f32")):
        source = triton_language.emitter.emit(SAMPLES["matmul_bias"], Target("triton", DEVICES[isa]))
        binary = compiler.call("tests.triton.support:compiled", "triton", source)
        assert instruction in binary.assembly


def test_a_broken_text_is_a_compile_error(compiler: WorkerPool) -> None:
    source = triton_language.emitter.emit(SAMPLES["softmax"], SM90)
    for wrong in ("tl.no_such_word(x)", "tl.exp(x) +"):
        bad = replace(source, text=source.text.replace("tl.exp(x - max_n[:, None])", wrong))
        assert bad.text != source.text
        with pytest.raises(CompileError):
            compiler.call("tests.triton.support:compiled", "triton", bad)


# ---- emitted


@pytest.mark.quick
@pytest.mark.parametrize("name", ["add_bias_open", "softmax", "softmax_long", "matmul_batched", "attention", "transpose"])
def test_golden(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"{name}.py", triton_language.emitter.emit(SAMPLES[name], SM90).text)


@pytest.mark.quick
def test_masks_only_where_a_tile_may_overrun() -> None:
    even = triton_language.emitter.emit(samples.add_bias(64, 1024, "f32", (8, 1024)), SM90).text
    ragged = triton_language.emitter.emit(samples.add_bias(64, 1000, "f32", (8, 1024)), SM90).text
    assert "mask" not in even
    assert "mask=(n < N)[None, :]" in ragged and "m < M" not in ragged


@pytest.mark.quick
def test_large_arrays_get_wide_bases() -> None:
    text = triton_language.emitter.emit(samples.add_bias(1 << 20, 4096, "f32", (1, 4096)), SM90).text
    assert "tl.program_id(0).to(tl.int64)" in text


def test_every_offset_into_a_large_array_has_64_bits() -> None:
    """Two grid axes, of which the rows step through the array: their number itself is what needs 64 bits."""
    text = triton_language.emitter.emit(samples.add_bias(65536, 32776, "bf16", (1, 4096)), SM90).text
    assert "pid = tl.program_id(0).to(tl.int64)" in text
    text = triton_language.emitter.emit(samples.add_bias(65536, 32776, "bf16", (8, 512)), SM90).text
    assert "m = m_block.to(tl.int64) * BLOCK_M" in text and "pid = tl.program_id(0)\n" in text
    text = triton_language.emitter.emit(samples.column_sums(65536, 32776, "f32", (16, 64)), SM90).text
    assert "m = m0 + tl.arange(0, BLOCK_M).to(tl.int64)" in text
    text = triton_language.emitter.emit(samples.add_bias(64, 1 << 26, "f32", (64, 64)), SM90).text
    assert "m = tl.arange(0, BLOCK_M).to(tl.int64)" in text


def test_foreign_text_without_the_entry_is_refused() -> None:
    assert triton_language.adopt
    with pytest.raises(UsageError, match="defines no function 'softmax'"):
        triton_language.adopt("def other(x, y): pass", None, SAMPLES["softmax"], SM90)


# ---- schedules


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_schedules_fit(device: str, dtype: str) -> None:
    axes = tuple(NestAxis(n, n, e) for n, e in (("m", 4096), ("n", 4096), ("k", 4096)))
    products = schedules(Nest("contraction", axes, dtype, "f32", dots=dtype), DEVICES[device])
    for s in products:
        assert all(size & (size - 1) == 0 and size >= 16 for _, size in s.tiles)
        assert s.warps * DEVICES[device].count("subgroup") <= DEVICES[device].count("threads_per_block")
    assert len(set(products)) == len(products) > 1


@pytest.mark.quick
def test_small_extents_get_small_tiles() -> None:
    axes = tuple(NestAxis(n, n, 1) for n in ("m", "n", "k"))
    (first, *_) = schedules(Nest("contraction", axes, "bf16", "f32", dots="bf16"), DEVICES["sm_90"])
    assert dict(first.tiles) == {"m": 16, "n": 16, "k": 16}
