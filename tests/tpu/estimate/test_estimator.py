"""Estimates with libtpu: grids walked without running them, a part against the whole, what others make of an operator."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from portakern.backend import CompiledBinary, DispatchSequence, InspectedKernel, KernelArgument
from portakern.backends.tpu.estimate.estimator import LibtpuEstimator, kernels
from portakern.backends.tpu.estimate.part import FEWEST
from portakern.backends.tpu.estimate.profiler import Slow
from portakern.backends.tpu.foreign.inspected import inspected
from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.work import Problem, Work, works

pytest.importorskip("jax")
pytest.importorskip("libtpu")

NOTHING = CompiledBinary("tpu-executable", b"", "")


def work_of(operator: str, generation: str = "v6e", schedule: Any = None, **dims: int) -> Work:
    (work,) = works(Problem(load_operator(operator), dims, {}), [registry().target(f"pallas:{generation}")], ["f32"], schedule)
    return work


def profile(work: Work, part: int | None = None) -> dict[str, Any]:
    source, _ = steps.emit(work)
    (kernel,) = kernels.call("profile_source", source, dict(work.sizes), part)["kernels"]
    return kernel


@pytest.fixture(scope="module", autouse=True)
def closed():
    yield
    kernels.close()


def test_a_part_of_a_product_tells_its_cycles_and_bytes_within_two_percent():
    work = work_of("matmul", schedule={"m": 128, "n": 128, "k": 128}, M=384, N=512, K=512)
    whole, part = profile(work, 1 << 30), profile(work, 32)
    assert whole["grid"] == whole["part"] and part["part"] == (2, 4, 4)
    assert part["cycles"] == pytest.approx(whole["part_cycles"], rel=0.02)
    assert whole["copied_in_part"] == {"hbm_to_vmem": whole["read"], "vmem_to_hbm": whole["written"]}
    assert (part["read"], part["written"]) == (whole["read"], whole["written"])
    assert part["seen"] > 0.9 and part["utilisation"]["MXU"] > 0.05


def test_the_profiler_outlives_an_abort_of_libtpu():
    work = work_of("row_sum", "v4", M=256, N=256)
    with pytest.raises(PortakernError, match=r"it cannot model|Dma latency model|SIGABRT") as raised:
        kernels.call("profile_source", steps.emit(work)[0], {})
    assert raised.value.kind == "no-estimate"
    work = work_of("row_sum", M=256, N=256)
    found = LibtpuEstimator().estimate(steps.emit(work)[0], NOTHING, DispatchSequence((), sizes=()), None)
    assert found.us > 0 and "libtpu" in found.version


def test_what_is_slow_is_profiled_again_with_fewer_steps(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[Any, ...]] = []

    def call(*args: Any, timeout_s: float = 0.0) -> dict[str, Any]:
        asked.append(args)
        if len(args) < 4:
            raise Slow("no-estimate", "not in time")
        return {"kernels": [], "operations": [], "cores": 1}

    monkeypatch.setattr(kernels, "call", call)
    LibtpuEstimator().estimate(steps.emit(work_of("row_sum", M=256, N=256))[0], NOTHING, DispatchSequence((), sizes=()), None)
    assert [a[3:] for a in asked] == [(), (FEWEST,)]


PREFETCH = textwrap.dedent("""
    import jax, jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(table, x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def gather(table, x):
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, table: (table[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)))
        return pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32))(table, x)
""")


def test_blocks_that_data_decide_make_an_estimate_low():
    arguments = (KernelArgument("table", "i32", (4,)), KernelArgument("x", "f32", (64, 128)))
    source = inspected(InspectedKernel(PREFETCH, "gather", arguments), registry().target("pallas:v5e"), ())
    found = LibtpuEstimator().estimate(source, NOTHING, DispatchSequence(()), None)
    assert found.confidence.startswith("low") and "data decide" in found.confidence


PIPELINE = textwrap.dedent("""
    import jax, jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def twice(x_hbm, o_hbm):
        def body(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2
        block = pl.BlockSpec((64, 256), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(8,), in_specs=[block], out_specs=[block])(x_hbm, o_hbm)

    def run(x):
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(twice, in_specs=[anywhere], out_specs=anywhere, out_shape=jax.typeof(x))(x)
""")


def test_bytes_of_a_kernels_own_pipeline_are_counted():
    pipeline = InspectedKernel(PIPELINE, "run", (KernelArgument("x", "f32", (512, 256)),))
    source = inspected(pipeline, registry().target("pallas:v5e"), ())
    found = LibtpuEstimator().estimate(source, NOTHING, DispatchSequence(()), None)
    (kernel,) = found.details["kernels"]
    assert kernel["read"] == kernel["written"] == 512 * 256 * 4 and kernel["name"] == "run"
    assert "copies by itself" in found.confidence


DYNAMIC = textwrap.dedent("""
    import jax, jax.numpy as jnp, numpy as np
    from jax.experimental import pallas as pl

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * (pl.num_programs(0) + 1)

    def run(n, x):
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(kernel, grid=(n[0] + 2,), in_specs=[block], out_specs=block, out_shape=jax.typeof(x))(x)
""")


def test_a_grid_that_data_decide_is_computed_from_the_arrays_that_a_kernel_brings():
    target = registry().target("pallas:v5e")
    given = (KernelArgument("n", "i32", (1,)), KernelArgument("x", "f32", (64, 128)))
    with pytest.raises(PortakernError, match="depends on data") as raised:
        source = inspected(InspectedKernel(DYNAMIC, "run", given), target, ())
        LibtpuEstimator().estimate(source, NOTHING, DispatchSequence(()), None)
    assert raised.value.kind == "no-estimate" and "example_inputs" in raised.value.hint
    brought = "def example_inputs():\n    return np.array([6], np.int32), np.zeros((64, 128), np.float32)\n"
    source = inspected(InspectedKernel(DYNAMIC + brought, "run"), target, ())
    found = LibtpuEstimator().estimate(source, NOTHING, DispatchSequence(()), None)
    (kernel,) = found.details["kernels"]
    assert kernel["grid"] == (8,) and kernel["read"] == 64 * 128 * 4


def test_xla_is_a_peer_under_the_same_model():
    work = work_of("add_relu", M=512, N=512)
    found = LibtpuEstimator().peers(work.program, registry().target("pallas:v6e"))["xla"]
    assert not isinstance(found, PortakernError)
    assert found.model == "libtpu"
    assert sum(o["bytes"] for o in found.details["operations"]) == 3 * 512 * 512 * 4
    # A copy of x into VMEM beside the rest counts its bytes and no time of its own.
    assert found.us >= 3 * 512 * 512 * 4 / 1.638e12 * 1e6
