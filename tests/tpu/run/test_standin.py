"""Kernels on a stand-in for a TPU: called, checked, timed, given from elsewhere.  No silicon is behind any of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tpu.run.helpers import ran, with_tpu

pytest.importorskip("jax")
pytest.importorskip("libtpu")

CALLS = r"""
import jax, jax.numpy as jnp, numpy as np, torch
import portakern as pk
from portakern.errors import UsageError

k = pk.build("softmax", target="pallas:v5e", dtype="f32", M=pk.dynamic, N=100)
x = np.random.default_rng(0).standard_normal((64, 100)).astype("f4")
y = k(x)
want = np.exp(x - x.max(1, keepdims=True)); want /= want.sum(1, keepdims=True)
assert type(y) is np.ndarray and abs(y - want).max() < 1e-6
assert isinstance(k(jnp.asarray(x)), jax.Array) and isinstance(k(torch.from_numpy(x)), torch.Tensor)
assert (k.as_torch_op()(torch.from_numpy(x)).numpy() == y).all()

p = k.prepare(jnp.asarray(x))
first = p.outputs[0]
p()
assert p.outputs[0] is not first and (np.asarray(p.outputs[0]) == y).all()
try:
    k.prepare(jnp.asarray(x), out=jnp.asarray(x))
except UsageError as error:
    assert "cannot be written" in error.message
else:
    raise AssertionError
p = k.prepare(x, out=(out := np.empty_like(x)))
x[...] = 0
p()
assert abs(out - 0.01).max() < 1e-6

from portakern.backends.tpu.run.runtime import TpuRuntime
from portakern.registry import registry
from portakern.timing.measure import Contender, ContenderError, Options
import standin_tpu

clock = TpuRuntime().clock(registry().target("pallas:v5e"))
a, b = k.prepare(jnp.asarray(x)), k.prepare(jnp.zeros((8, 100)))
both = [Contender("a", lambda i: a()), Contender("b", lambda i: b())]
how = Options(budget_s=0.05, warm_up_s=0.01)
found = clock.measure(both, how)
ours = found.timings[0]
assert found.blocks == len(ours.samples_us) == len(found.timings[1].samples_us) >= 5 and ours.ci_low_us <= ours.median_us
assert "device time by jax's profiler (1 program of XLA a call)" in ours.mode and not ours.suspicions and ours.median_us > 0
assert "has met no TPU yet" in ours.mode and ours.mode.startswith("cold") and len(found.comparisons()) == 1

standin_tpu.LOST = 7
lost = clock.measure(both, how).timings[0]
assert "wall time" in lost.mode and "programs" in lost.suspicions[0] and len(lost.samples_us) >= 5
standin_tpu.LOST, standin_tpu.PLANE = 0, ""
bare = clock.measure(both, how).timings[1]
assert "no plane of the device" in bare.mode and "host's clock" in bare.suspicions[0]
try:
    clock.measure([both[0], Contender("c", lambda i: 1 / 0)], how)
except ContenderError as error:
    assert error.contender == "c"
else:
    raise AssertionError
print("fine")
"""


def test_calls_and_the_clock(tmp_path: Path):
    script = tmp_path / "calls.py"
    script.write_text(CALLS)
    done = ran(with_tpu(tmp_path / "sys", "v5e", PORTAKERN_CACHE=str(tmp_path / "cache")), str(script))
    assert done.stdout.strip() == "fine", done.stderr


INT64 = r"""
import jax, jax.numpy as jnp, numpy as np, torch
import portakern as pk
T = pk.Tensor

@pk.operator
def looked_up(table: T["V", "D"], ids: T["M", pk.i64]):
    return pk.cast(pk.take(pk.iota(table.shape[:1], 0), ids), pk.i64), pk.take(table, ids, axis=0)

x = np.random.default_rng(0).standard_normal((20, 130)).astype("f4")
ids = np.array([3, 2**32 + 3, -1, 2**40, -2**63, 2**63 - 1, 19])
k = pk.build(looked_up, target="pallas:v5e", dtype="f32", V=20, D=130, M=7)
at, rows = k(x, ids)
assert at.dtype == np.int64 and at.tolist() == [3, 0, 0, 0, 0, 0, 19] and not rows[1].any() and (rows[6] == x[19]).all()
assert k(torch.from_numpy(x), torch.from_numpy(ids))[0].dtype == torch.int64
out = np.empty(7, np.int64), np.empty((7, 130), "f4")
k.prepare(x, ids, out=out)()
assert (out[0] == at).all()
small = jnp.asarray(ids % 20, jnp.int32)
assert k(jnp.asarray(x), small)[0].dtype == jnp.int32
assert (k(x, np.asarray(small))[0] == ids % 20).all()
jax.config.update("jax_enable_x64", True)
wide = pk.build(looked_up, target="pallas:v5e", dtype="f32", V=20, D=130, M=7)(jnp.asarray(x), jnp.asarray(ids))[0]
assert wide.dtype == jnp.int64 and (np.asarray(wide) == at).all()
jax.config.update("jax_enable_x64", False)

from portakern.ir.oracle import evaluate

@pk.operator
def kept(jnp: T["M", "N"], np: pk.Scalar[pk.i64]):
    # Named as modules are; the array is a view of another one, the seed has 64 bits.
    return pk.dropout(pk.cumsum(jnp, axis=1), np, 0.5)

k, x = pk.build(kept, target="pallas:v5e", dtype="f32", M=24, N=20), x[:20, :24].T
for seed in (2**40 + 5, -3, 2**31):
    (want,) = evaluate(kept.program({"M": 24, "N": 20}, {}, "f32"), {"jnp": x, "np": np.array(seed)}).values()
    assert abs(k(x, seed) - want).max() < 1e-5 and (want == 0).any()
    assert abs(k(torch.from_numpy(x), seed).numpy() - want).max() < 1e-5
    assert abs(k(jnp.asarray(x), seed) - want).max() < 1e-5
print("fine")
"""


def test_int64_comes_limited_and_leaves_as_such(tmp_path: Path):
    script = tmp_path / "wide.py"
    script.write_text(INT64)
    done = ran(with_tpu(tmp_path / "sys", "v5e", PORTAKERN_CACHE=str(tmp_path / "cache")), str(script))
    assert done.stdout.strip() == "fine", done.stderr


CASE = ("--shape", "M=16,N=128", "--dtype", "bf16")


def portakern(machine: dict[str, str], *words: str) -> str:
    done = ran(machine, "-m", "portakern", *words)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_bench_finds_it_and_times_beside_xla(tmp_path: Path):
    machine = with_tpu(tmp_path / "sys", "v5e", PORTAKERN_CACHE=str(tmp_path / "cache"))
    found = portakern(machine, "bench", "softmax", "--targets", "pallas:v5e", *CASE, "--against", "xla,numpy",
                      "--budget", "0.05s", "--no-store", "--json")  # fmt: skip
    (row,) = json.loads(found)["rows"]
    assert row["evidence"] == "timed" and row["correct"] and row["device"] == "TPU v5e", row
    assert "has met no TPU yet" in row["method"]
    xla, numpy = row["time"]["peers"]
    assert xla["verdict"] and "measured" not in xla and numpy["measured"].startswith("whole calls")
    assert row["time"]["roofline"]["stated"]["product"] == "v5e-chip" and row["time"]["provenance"]["driver"] == "jax"


@pytest.mark.slow
def test_a_kernel_from_elsewhere_is_run_in_a_jail_and_timed_as_data(tmp_path: Path):
    pytest.importorskip("flatbuffers")
    machine = with_tpu(tmp_path / "sys", "v5e", PORTAKERN_CACHE=str(tmp_path / "cache"))
    text = str(tmp_path / "mine.py")
    portakern(machine, "emit", "softmax", "--targets", "pallas:v5e", *CASE, "-o", text)
    found = portakern(machine, "evaluate", "softmax", "--target", "pallas:v5e", "--source", text, *CASE, "--budget", "0.05s",
                      "--no-store", "--json")  # fmt: skip
    (row,) = json.loads(found)["rows"]
    assert "its kernels alone give the outputs" in row["method"], row
    assert row["evidence"] == "timed" and "timed as data" in row["method"], row["error"]


def test_a_chip_that_another_process_holds_is_an_error_with_a_way_out(tmp_path: Path):
    machine = with_tpu(tmp_path / "sys", "v5e", PORTAKERN_CACHE=str(tmp_path / "cache"), STANDIN_BUSY="1")
    found = portakern(machine, "check", "softmax", "--targets", "pallas:v5e", *CASE)
    assert "already in use by process with pid 4711" in found and "PORTAKERN_TPU=off" in found


def test_a_kernel_becomes_data_for_a_tpu_that_is_not_here(tmp_path: Path):
    pytest.importorskip("flatbuffers")
    from portakern.backends.tpu.trace.environment import ENVIRONMENT
    from portakern.tools.workers import WorkerPool

    with WorkerPool(1, env=ENVIRONMENT) as pool:
        assert pool.call(f"{__name__}:custom_calls") == ["tpu_custom_call"]
        with pytest.raises(Exception, match="the program calls lapack"):
            pool.call(f"{__name__}:with_another_call")


def custom_calls() -> list[str]:
    import re

    from jax import export

    from portakern.backends.tpu.run.runtime import TpuRuntime
    from portakern.registry import registry
    from portakern.study.steps import emission
    from tests.study.test_timing import work_of

    made = emission(work_of("softmax", "pallas:v5e", M=16, N=128))
    assert made.source is not None and registry()
    data = TpuRuntime().trace(made.source, {})
    return sorted(set(re.findall(r"custom_call\s+@([\w.]+)", export.deserialize(bytearray(data)).mlir_module())))


def with_another_call() -> None:
    import jax.numpy as jnp
    from jax import export, jit

    from portakern.backends.tpu.run.staging import of_data

    data = export.export(jit(jnp.linalg.cholesky), platforms=["cpu"])(jnp.eye(8)).serialize()
    of_data(bytes(data), "sneaky")
