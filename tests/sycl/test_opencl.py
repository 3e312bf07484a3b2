"""OpenCL C: what is emitted, and that it runs right on this machine's CPU device."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from portakern.backend import CompiledBinary
from portakern.backends.sycl.loops.emitting import plan_loops
from portakern.backends.sycl.opencl import binaries, platforms
from portakern.errors import CompileError, MissingRuleError, RuntimeFault, UsageError
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block
from portakern.ir.program import Array, Program
from portakern.ir.schedule import Schedule
from portakern.ir.size import Sym
from portakern.ir.tile import ArgReduce, Axis, BufferType, Index, Kernel, TileType
from portakern.lower import lower
from portakern.spec.load import load_operator
from tests import samples
from tests.lower import user_operators
from tests.lower.test_lowering import chooser
from tests.lowering import lowered_for
from tests.sycl.running import compiled, run_checked
from tests.sycl.targets import language, needs_opencl, target

SAMPLES = samples.all_samples()
GOLDEN = ("add_bias", "transpose", "softmax", "softmax_long_open", "matmul_bias", "attention")
SIZES = {"M": 13, "N": 2100}
OPENCL, CPU = language("opencl"), target("opencl:cpu")


@pytest.mark.quick
@pytest.mark.parametrize("name", GOLDEN)
def test_emitted_text(name, golden) -> None:
    golden(f"{name}.cl", OPENCL.emitter.emit(SAMPLES[name], CPU).text)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["softmax", "attention"])
def test_plan(name, golden) -> None:
    golden(f"{name}.plan", str(OPENCL.emitter.plan(SAMPLES[name], CPU)) + "\n")


@needs_opencl
@pytest.mark.parametrize("name", SAMPLES)
def test_samples_run(name: str) -> None:
    program = SAMPLES[name]
    run_checked(OPENCL, CPU, program, SIZES if program.sizes else {})


@needs_opencl
@pytest.mark.parametrize("sizes", [{"M": 0, "N": 5}, {"M": 1, "N": 1}, {"M": 3, "N": 1024}])
def test_open_dims_may_be_small(sizes: dict[str, int]) -> None:
    built = compiled(OPENCL, CPU, SAMPLES["softmax_long_open"])
    run_checked(OPENCL, CPU, SAMPLES["softmax_long_open"], sizes, built=built)


@needs_opencl
@pytest.mark.parametrize("name", user_operators.CASES)
def test_users_operators(name: str) -> None:
    op, dims = getattr(user_operators, name), user_operators.CASES[name]
    run_checked(OPENCL, CPU, lowered_for(CPU, op.program(dims, params={}, dtype="bf16")), {})
    run_checked(OPENCL, CPU, lower(op.program(dims, params={}, dtype="f32"), chooser(16)), {})


@needs_opencl
@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16"])
def test_dtypes(dtype: str) -> None:
    for name, dims in (("rms_norm", {"M": 5, "N": 77}), ("matmul", {"M": 19, "N": 33, "K": 40})):
        op = load_operator(name)
        if dtype in op.dtypes:
            run_checked(OPENCL, CPU, lowered_for(CPU, op.program(dims, params={}, dtype=dtype)), {})


@needs_opencl
def test_resources_come_from_the_driver() -> None:
    _, binary = compiled(OPENCL, CPU, SAMPLES["softmax"])
    (used,) = binary.resources
    assert used.kernel == "softmax" and used.source == "clGetKernelWorkGroupInfo"
    plan = plan_loops(SAMPLES["softmax"], CPU)
    assert used.shared_bytes == plan.kernels[0].local_bytes
    assert binary.machine_code and binary.data


@needs_opencl
def test_compile_error_has_the_log() -> None:
    assert OPENCL.adopt is not None and OPENCL.toolchain is not None
    text = ("// portakern launch: kernel=add_bias grid=(1, 1, 1) block=(1, 1, 1) shared=0 args=(x, b, y)\n"
            "__kernel void add_bias(__global ushort *x, __global ushort *b, __global ushort *y) { unheard_of(); }\n")
    source = OPENCL.adopt(text, None, SAMPLES["add_bias"], CPU)
    with pytest.raises(CompileError, match="unheard_of"):
        OPENCL.toolchain.compile(source)


@needs_opencl
def test_foreign_kernel() -> None:
    assert OPENCL.adopt is not None and OPENCL.toolchain is not None
    program = samples.softmax(rows=Sym.named("M"), cols=8, dtype="f32", tile=(1, 8))
    text = """
// portakern launch: kernel=rows grid=(M, 1, 1) block=(1, 1, 1) shared=0 args=(x, y, M)
__kernel void rows(__global const float *x, __global float *y, long M)
{
    const long m = get_group_id(0);
    float top = -INFINITY, total = 0;
    for (int n = 0; n < 8; ++n) top = fmax(top, x[m * 8 + n]);
    for (int n = 0; n < 8; ++n) total += exp(x[m * 8 + n] - top);
    for (int n = 0; n < 8; ++n) y[m * 8 + n] = exp(x[m * 8 + n] - top) / total;
}
"""
    source = OPENCL.adopt(text, None, program, CPU)
    run_checked(OPENCL, CPU, program, {"M": 6}, built=(source, OPENCL.toolchain.compile(source)))
    with pytest.raises(UsageError, match="launch"):
        OPENCL.adopt("__kernel void rows() {}", None, program, CPU)


@needs_opencl
def test_call_takes_arrays_where_they_are() -> None:
    assert OPENCL.runtime is not None
    source, binary = compiled(OPENCL, CPU, samples.softmax(rows=4, cols=20, dtype="f32", tile=(1, 32)))
    executable = OPENCL.runtime.load(source, binary)
    x = np.random.default_rng(0).standard_normal((4, 20)).astype(np.float32)
    want = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    y = executable.call([x], {})
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, want, rtol=1e-5)
    torch = pytest.importorskip("torch")
    z = executable.call([torch.from_numpy(x)], {})
    assert isinstance(z, torch.Tensor)
    np.testing.assert_allclose(z.numpy(), want, rtol=1e-5)
    with pytest.raises(UsageError, match="f64"):
        executable.call([x.astype(np.float64)], {})
    with pytest.raises(UsageError, match="strides"):
        executable.call([np.asfortranarray(x)], {})


@needs_opencl
def test_binary_of_another_machine_is_refused() -> None:
    assert OPENCL.runtime is not None
    source, _ = compiled(OPENCL, CPU, SAMPLES["transpose"])
    with pytest.raises(RuntimeFault, match="some other CPU"):
        OPENCL.runtime.load(source, CompiledBinary(binaries.FORMAT, binaries.pack("some other CPU", b"..."), "x"))


@pytest.mark.quick
def test_everything_missing_is_listed() -> None:
    axes = (Axis("m", "whole", 8, 8),)
    x, y = Arg("x", BufferType((8,), "f32")), Arg("y", BufferType((8,), "f32"))
    b = Builder(axes)
    value = b.load(x, ["m"])
    best = b.add(ArgReduce("max", value, "m"))
    from portakern.ir.core import Result

    b.store(b.add(Result(best, 0)), y, [Index()])
    kernel = Kernel("running", Block((x, y), b.ops), "rows", axes, Schedule((("m", 8),)))
    program = Program("running", (Array("x", x.of, "input"), Array("y", y.of, "output")), (kernel,))  # type: ignore[arg-type]
    assert isinstance(value.type, TileType)
    with pytest.raises(MissingRuleError, match="arg_reduce in opencl"):
        OPENCL.emitter.emit(program, CPU)


def test_drivers_named_in_a_place_that_is_not_seen_are_named_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As in a jail, whose process inherits the name of a folder that lies in the /tmp of others."""
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "gone"))
    platforms.show_drivers()
    assert os.environ["OCL_ICD_VENDORS"] == str(platforms.icd_directory())
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    platforms.show_drivers()
    assert os.environ["OCL_ICD_VENDORS"] == str(tmp_path)
