"""numba: every sample run on arrays with guard bands, compiled kernels that load again, golden sources."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import portakern as pk
from portakern.backend import Source, Target
from portakern.backends.cpu import backend
from portakern.backends.cpu.numba.language import NUMBA
from portakern.backends.cpu.numba.module import load_module
from portakern.backends.cpu.numba.naming import handed_on
from portakern.backends.cpu.numba.schedules import schedules
from portakern.device import load_devices
from portakern.errors import CompileError, UsageError
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.registry import registry
from portakern.tools.workers import WorkerPool
from tests import samples
from tests.lowering import lowered_for
from tests.triton import support

CPU = Target("numba", load_devices(backend.devices)["cpu"])
SAMPLES = samples.all_samples()


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerPool]:
    with WorkerPool(1, env=support.environment(NUMBA), preload=("numba",)) as pool:
        yield pool


def scheduled(program: Program, **options: bool) -> Program:
    kernels = tuple(replace(k, schedule=replace(k.schedule, options=tuple(options.items()))) for k in program.kernels)
    return replace(program, kernels=kernels)


def check(worker: WorkerPool, program: Program) -> None:
    sizes = support.sizes_of(program)
    inputs = support.random_inputs(program, sizes)
    ran = worker.call("tests.triton.support:execute", "numba", NUMBA.emitter.emit(program, CPU), inputs, sizes)
    assert ran.broken == ()
    assert support.worst_error(program, ran.outputs, inputs, sizes) < 1


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_is_right(worker: WorkerPool, name: str) -> None:
    check(worker, SAMPLES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["add_bias", "transpose", "softmax_open", "matmul_batched", "attention"])
def test_parallel_blocks_are_right(worker: WorkerPool, name: str) -> None:
    """One, two and more grid axes share one flat loop of threads."""
    program = scheduled(SAMPLES[name], parallel=True)
    assert "prange(" in NUMBA.emitter.emit(program, CPU).text
    check(worker, program)


def test_block_counts_multiply() -> None:
    text = NUMBA.emitter.emit(scheduled(samples.transpose(), parallel=True), CPU).text
    assert "prange(((M + BLOCK_M - 1) // BLOCK_M) * ((N + BLOCK_N - 1) // BLOCK_N))" in text


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sixteen_bit_floats_round_to_even(worker: WorkerPool, dtype: str) -> None:
    """Every 16-bit pattern is read right, and sums that fall between two of them go to the even one."""
    numpy_dtype = np.dtype(np.float16 if dtype == "f16" else ml_dtypes.bfloat16)
    program = samples.add_bias(8, 1 << 13, dtype, (1, 1 << 13))
    x = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype).reshape(8, 1 << 13)
    for shift in (0.0, 2.0**-9, 1e-7, 3.0):
        inputs = {"x": x, "b": np.full(1 << 13, shift, numpy_dtype)}
        ran = worker.call("tests.triton.support:execute", "numba", NUMBA.emitter.emit(program, CPU), inputs, {})
        with np.errstate(over="ignore", invalid="ignore"):
            want = np.maximum(x.astype(np.float32) + inputs["b"].astype(np.float32), 0).astype(numpy_dtype)
        np.testing.assert_array_equal(ran.outputs["y"].astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf, 0.0])
def test_special_rows(worker: WorkerPool, value: float) -> None:
    program = samples.softmax(dtype="f32")
    inputs = support.random_inputs(program, {})
    inputs["x"][1] = value
    inputs["x"][2, 7] = value
    ran = worker.call("tests.triton.support:execute", "numba", NUMBA.emitter.emit(program, CPU), inputs, {})
    assert support.worst_error(program, ran.outputs, inputs, {}) < 1


def test_exp_is_accurate(worker: WorkerPool) -> None:
    x = np.concatenate([np.linspace(-110, 90, 40001), [np.nan, np.inf, -np.inf, 0.0, -0.0]]).astype(np.float32)
    got = worker.call("tests.cpu.numba.jobs:apply_helper", "exp", x)
    with np.errstate(over="ignore"):
        want = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(got, np.where(want > np.finfo(np.float32).max, np.inf, want), rtol=3e-7, atol=2e-45)


def test_a_binary_runs_without_compiling(worker: WorkerPool) -> None:
    source = NUMBA.emitter.emit(SAMPLES["matmul_bias"], CPU)
    binary = worker.call("tests.triton.support:compiled", "numba", source)
    assert binary.resources[0].code_bytes and binary.assembly and "vfma" in binary.assembly
    with WorkerPool(1, env=support.environment(NUMBA), preload=("numba",)) as fresh:
        assert fresh.call("tests.cpu.numba.jobs:compilations_when_run", source, binary) == 0


def test_a_broken_text_is_a_compile_error(worker: WorkerPool) -> None:
    source = NUMBA.emitter.emit(SAMPLES["softmax"], CPU)
    bad = replace(source, text=source.text.replace("maximum(max_n,", "no_such_word(max_n,"))
    assert bad.text != source.text
    with pytest.raises(CompileError, match="no_such_word"):
        worker.call("tests.triton.support:compiled", "numba", bad)


FOREIGN = """
import numpy as np
from numba import njit

@njit
def rows(x, y):
    for m in range(x.shape[0]):
        top = x[m].max()
        e = np.exp(x[m] - top)
        y[m] = e / e.sum()

def softmax(x, y):
    rows(x, y)
"""


def test_foreign_text(worker: WorkerPool) -> None:
    program = samples.softmax(dtype="f32")
    assert NUMBA.adopt
    source = NUMBA.adopt(FOREIGN, None, program, CPU)
    assert worker.call("tests.triton.support:compiled", "numba", source).resources[0].code_bytes
    inputs = support.random_inputs(program, {})
    ran = worker.call("tests.triton.support:execute", "numba", source, inputs, {})
    assert support.worst_error(program, ran.outputs, inputs, {}) < 1
    with pytest.raises(UsageError, match="defines no function 'other'"):
        NUMBA.adopt(FOREIGN, "other", program, CPU)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["add_bias_open", "softmax_row", "softmax_long", "matmul_batched", "attention", "column_sums"])
def test_golden(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"{name}.py", NUMBA.emitter.emit(SAMPLES[name], CPU).text)


@pytest.mark.quick
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_golden_softmax_of_columns(golden: Callable[[str, str], None], dtype: str) -> None:
    """Sums of columns lie in arrays, and the contiguous axis is innermost."""

    @pk.operator
    def op(x: pk.Tensor["M", "N"]):
        return pk.softmax(x, axis=0)

    target = registry().target("numba:cpu")
    program = lowered_for(target, op.program({"M": 2048, "N": 1024}, {}, dtype))
    golden(f"softmax_columns_{dtype}.py", registry().language("numba").emitter.emit(program, target).text)


@pytest.mark.quick
def test_plan(golden: Callable[[str, str], None]) -> None:
    golden("column_sums.plan", f"{NUMBA.emitter.plan(SAMPLES['column_sums'], CPU)}\n")


@pytest.mark.quick
@pytest.mark.parametrize(("pairs", "lines"), [
    ([("top", "new", {"new"}), ("total", "total * top", {"total", "top"})], ["total = total * top", "top = new"]),
    ([("a", "b", {"b"}), ("b", "a", {"a"})], ["a, b = b, a"]),
    ([("a", "a", {"a"}), ("b", "a + 1", {"a"})], ["b = a + 1"]),
])  # fmt: skip
def test_carried_names_are_read_before_they_are_overwritten(
    pairs: list[tuple[str, str, set[str]]], lines: list[str]
) -> None:
    assert handed_on(pairs) == lines


@pytest.mark.quick
def test_work_decides_about_threads() -> None:
    def first(extent: int) -> Schedule:
        return schedules(Nest("elementwise", (NestAxis("m", "parallel", extent),), "f32", "f32"), CPU.device)[0]

    assert first(1 << 22).option("parallel", False) and not first(1 << 12).option("parallel", False)


def test_call_takes_numpy_and_torch() -> None:
    torch = pytest.importorskip("torch")
    source = NUMBA.emitter.emit(SAMPLES["add_bias"], CPU)
    assert NUMBA.runtime is not None
    executable = NUMBA.runtime.load(source, None)
    x, b = torch.randn(37, 1000).bfloat16(), torch.randn(1000).bfloat16()
    y = executable.call([x, b], {})
    assert isinstance(y, torch.Tensor) and y.dtype == torch.bfloat16
    torch.testing.assert_close(y, (x.float() + b.float()).relu().bfloat16(), rtol=0, atol=0)


def test_manifest_names_the_folder() -> None:
    assert Path(backend.devices).is_dir() and NUMBA in backend.languages


def test_the_least_number_over_minus_one_wraps(tmp_path: Path):
    """OpenCL, SYCL and Triton 3.6 do not get this right yet, so it is no file of the corpus."""
    file = tmp_path / "least.py"
    file.write_text("import portakern as pk\n\n\n@pk.operator\ndef op(x: pk.Tensor['M', pk.i64]):\n    return x // -1\n")
    kernel = pk.build(pk.load_operator(f"{file}:op"), target="numba:cpu", dtype="f32", M=3)
    least = np.iinfo(np.int64).min
    assert kernel(np.array([least, 5, -7], np.int64)).tolist() == [least, -5, 7]


def _emitted(*functions: Callable[[Any], Any]) -> Source:
    """The text of an operator, always of one name, of these functions of an array."""

    @pk.operator
    def op(x: pk.Tensor["M"]):
        return tuple(f(x) for f in functions)

    target = registry().target("numba:cpu")
    return registry().language("numba").emitter.emit(lowered_for(target, op.program({"M": 7})), target)


def test_helpers_of_an_earlier_text_are_found_by_their_lines() -> None:
    """numba looks at them while it compiles a later, shorter one: IndexError, where that stood in the earlier one's place."""
    longer, shorter = _emitted(pk.erf, pk.tanh, pk.log, pk.sigmoid), _emitted(pk.sigmoid)
    load_module(longer)
    module = load_module(shorter)
    helpers = [f.py_func.__code__ for f in vars(module).values() if hasattr(f, "py_func")]
    assert len({code.co_filename for code in helpers}) == 2
    for code in helpers:
        assert "njit" in linecache.getlines(code.co_filename)[code.co_firstlineno - 1]
