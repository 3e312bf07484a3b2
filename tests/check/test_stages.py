"""The check on right and wrong executables: legal ways to compute pass, bugs fail at the stage that sees them."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import portakern as pk
from portakern.check import Verdict, check_executable
from portakern.check.buffers import GUARD_BYTES
from portakern.tools.cache import Cache
from tests.check.running import FunctionExecutable

pytestmark = pytest.mark.quick

f32 = np.float32


def check(name: str, dims: dict, function, dtype: str = "f32", params: dict | None = None, **options) -> Verdict:
    program = pk.load_operator(name).program(dims, params or {}, dtype)
    return check_executable(FunctionExecutable(function), program, **options)


def assert_caught(verdict: Verdict, stage: str, text: str = "") -> None:
    assert not verdict.correct
    assert stage in {f.stage for f in verdict.failures}, verdict.message
    assert text in verdict.message


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAKERN_CACHE", str(tmp_path))


# ---- legal ways to compute the same thing


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_by_exp2_and_reciprocal(x):
    log2e = f32(1.4426950408889634)
    e = np.exp2(x * log2e - x.max(-1, keepdims=True) * log2e)
    return e * (f32(1) / e.sum(-1, keepdims=True, dtype=f32))


def softmax_online(x, tile: int = 16):
    top = np.full(x.shape[:-1], -np.inf, f32)
    total = np.zeros(x.shape[:-1], f32)
    for j in range(0, x.shape[-1], tile):
        part = x[..., j : j + tile]
        new = np.maximum(top, part.max(-1))
        shift = np.where(new == -np.inf, f32(0), new)
        total = total * np.exp(top - shift) + np.exp(part - shift[..., None]).sum(-1)
        top = new
    return np.exp(x - np.where(top == -np.inf, f32(0), top)[..., None]) / total[..., None]


@pytest.mark.parametrize("function", [softmax, softmax_by_exp2_and_reciprocal, softmax_online])
def test_softmax_in_legal_ways_passes(function) -> None:
    verdict = check("softmax", {"M": 37, "N": 301}, function)
    assert verdict.correct, verdict.message
    assert verdict.stages[:3] == ("values", "repeat", "large")
    assert 0 < verdict.max_error_ratio <= 1


def sequential(x):
    total = np.zeros(x.shape[0], f32)
    for j in range(x.shape[1]):
        total = total + x[:, j].astype(f32)
    return total


@pytest.mark.parametrize(
    "function",
    [
        sequential,
        lambda x: sequential(x[:, ::-1]),
        lambda x: sequential(np.sort(x, axis=1)),
        lambda x: x.sum(1, dtype=f32),
        lambda x: x.sum(1, dtype=np.float64).astype(f32),
    ],
)
@pytest.mark.parametrize("n", [1, 7, 1000, 5000])
def test_sums_in_any_order_pass(function, n: int) -> None:
    verdict = check("row_sum", {"M": 5, "N": n}, function)
    assert verdict.correct, verdict.message


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_a_matmul_in_blocks_of_k_passes(dtype: str) -> None:
    def blocks(a, b):
        total = np.zeros((a.shape[0], b.shape[1]), f32)
        for k in range(0, a.shape[1], 16):
            total += a[:, k : k + 16].astype(f32) @ b[k : k + 16].astype(f32)
        return total

    verdict = check("matmul", {"M": 33, "N": 40, "K": 77}, blocks, dtype)
    assert verdict.correct, verdict.message


def flash(q, k, v, keep_weights_in_f32: bool = False, block: int = 16):
    q, kf, vf = q.astype(f32), k[:, :, None].astype(f32), v[:, :, None].astype(f32)
    scale = f32(1 / np.sqrt(q.shape[-1]))
    top = np.full(q.shape[:-1], -np.inf, f32)
    total, acc = np.zeros(q.shape[:-1], f32), np.zeros((*q.shape[:-1], v.shape[-1]), f32)
    for j in range(0, k.shape[2], block):
        s = q @ kf[..., j : j + block, :].swapaxes(-1, -2) * scale
        new = np.maximum(top, s.max(-1))
        p = np.exp(s - new[..., None])
        factor = np.exp(top - new)
        total = total * factor + p.sum(-1)
        weights = p if keep_weights_in_f32 else p.astype(v.dtype).astype(f32)
        acc = acc * factor[..., None] + weights @ vf[..., j : j + block, :]
        top = new
    return acc / total[..., None]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("keep", [False, True])
def test_flash_attention_passes_though_it_rounds_weights_before_dividing(dtype: str, keep: bool) -> None:
    dims = {"B": 1, "H": 2, "G": 2, "SQ": 20, "SK": 50, "D": 24}
    verdict = check("attention", dims, lambda q, k, v: flash(q, k, v, keep), dtype)
    assert verdict.correct, verdict.message


def test_narrow_arithmetic_may_be_kept_in_f32_or_rounded_at_each_step() -> None:
    @pk.operator
    def chain(x: pk.Tensor["M", "N"]):
        return (x + 1) * x - 0.5

    program = chain.program({"M": 20, "N": 33}, dtype="bf16")
    wide = FunctionExecutable(lambda x: (x.astype(f32) + 1) * x.astype(f32) - f32(0.5))
    one, half = ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(0.5)
    narrow = FunctionExecutable(lambda x: (x + one) * x - half)
    for executable in (wide, narrow):
        verdict = check_executable(executable, program)
        assert verdict.correct, verdict.message


# ---- bugs


def test_a_missing_mask_is_seen_in_nearly_every_row() -> None:
    def padded(x):
        wide = np.concatenate([x, np.zeros((x.shape[0], 3), f32)], 1)
        return softmax(wide)[:, : x.shape[1]]

    assert_caught(check("softmax", {"M": 7, "N": 61}, padded), "values", "elements wrong")


def test_a_dropped_tail_is_seen_and_located() -> None:
    def short(x, y=None):
        out = np.maximum(x, x)
        out[:, -1] = 0
        return out.T

    verdict = check("transpose", {"M": 9, "N": 61}, short)
    assert_caught(verdict, "values", "all in [60, :]")


@pytest.mark.parametrize("n", [128, 1024])
def test_a_half_precision_accumulator_fails(n: int) -> None:
    def narrow(x):
        total = np.zeros(x.shape[0], ml_dtypes.bfloat16)
        for j in range(0, n, 16):
            total = (total.astype(f32) + x[:, j : j + 16].sum(1)).astype(ml_dtypes.bfloat16)
        return total.astype(f32)

    assert_caught(check("row_sum", {"M": 8, "N": n}, narrow), "values")


def test_a_bf16_product_of_f32_operands_fails() -> None:
    def narrow(a, b):
        return a.astype(ml_dtypes.bfloat16).astype(f32) @ b.astype(ml_dtypes.bfloat16).astype(f32)

    assert_caught(check("matmul", {"M": 8, "N": 8, "K": 8}, narrow), "values")


def test_a_skipped_explicit_cast_fails() -> None:
    @pk.operator
    def quantised(x: pk.Tensor["M", pk.f32]):
        return pk.cast(pk.cast(x, pk.bf16), pk.f32) * 3

    program = quantised.program({"M": 500})
    right = check_executable(FunctionExecutable(lambda x: x.astype(ml_dtypes.bfloat16).astype(f32) * f32(3)), program)
    assert right.correct, right.message
    assert_caught(check_executable(FunctionExecutable(lambda x: x * f32(3)), program), "values")


def test_an_unshifted_softmax_fails_where_exp_overflows() -> None:
    def unshifted(x):
        e = np.exp(x)
        return e / e.sum(-1, keepdims=True)

    verdict = check("softmax", {"M": 8, "N": 40}, unshifted)
    assert_caught(verdict, "steep")
    assert "values" not in {f.stage for f in verdict.failures}


def test_a_maximum_that_loses_nan_fails() -> None:
    assert_caught(check("add_relu", {"M": 8, "N": 40}, lambda a, b: np.fmax(a + b, f32(0))), "nonfinite", "instead of nan")


def test_a_write_outside_is_seen() -> None:
    class Overrun(FunctionExecutable):
        def run(self, buffers, sizes):
            super().run(buffers, sizes)
            out = buffers["out"]
            out.storage[out.offset + out.array.nbytes + 8] = 0

    program = pk.load_operator("transpose").program({"M": 3, "N": 5})
    verdict = check_executable(Overrun(lambda x: x.T), program)
    assert_caught(verdict, "values", "1 bytes were written after out, the nearest 3 elements outside it")


def test_a_changed_input_is_seen() -> None:
    def clobbers(x):
        out = x.T.copy()
        x[0, 0] = 7
        return out

    assert_caught(check("transpose", {"M": 3, "N": 5}, clobbers), "values", "the input x was changed")


def test_elements_left_out_are_named() -> None:
    class Forgets(FunctionExecutable):
        def run(self, buffers, sizes):
            buffers["out"].array[1:] = self.function(buffers["x"].array)[1:]

    program = pk.load_operator("transpose").program({"M": 3, "N": 50})
    assert_caught(check_executable(Forgets(lambda x: x.T), program), "values", "(3 elements were never written)")


def test_an_answer_that_changes_is_seen() -> None:
    rng = np.random.default_rng(0)

    def shaky(x):
        return x.sum(1) + rng.random() * f32(1e-6)

    assert_caught(check("row_sum", {"M": 3, "N": 50}, shaky), "repeat", "differ between two runs")


def test_reading_the_output_s_old_content_is_seen() -> None:
    class Accumulates(FunctionExecutable):
        def run(self, buffers, sizes):
            buffers["out"].array[...] = buffers["out"].array * 0 + self.function(buffers["x"].array)

    program = pk.load_operator("transpose").program({"M": 3, "N": 5})
    assert_caught(check_executable(Accumulates(lambda x: x.T), program), "values", "nan instead of")


def test_faults_of_the_executable_are_handed_on() -> None:
    def fails(x):
        raise pk.PortakernError("runtime", "the device fell off")

    with pytest.raises(pk.PortakernError, match="fell off"):
        check("transpose", {"M": 3, "N": 5}, fails)


def test_open_dims_take_their_sizes_at_the_call() -> None:
    program = pk.load_operator("transpose").program({"N": 5})
    assert check_executable(FunctionExecutable(lambda x: x.T), program, {"M": 4}).correct


def test_empty_arrays_are_checked() -> None:
    verdict = check("softmax", {"M": 0, "N": 8}, softmax)
    assert verdict.correct
    assert verdict.max_error_ratio == 0


def test_expectations_are_kept_and_the_same_when_read_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from portakern.check import expected as module
    from portakern.spec.inputs import make_inputs

    monkeypatch.setattr(module, "_WORTH_KEEPING_S", 0.0)
    program = pk.load_operator("softmax").program({"M": 5, "N": 33}, dtype="bf16")
    inputs, cache = make_inputs(program), Cache(tmp_path / "kept")
    fresh = module.expected(program, inputs, cache)["out"]
    monkeypatch.setattr(module, "propagate", None)  # a second evaluation would fail
    kept = module.expected(program, inputs, cache)["out"]
    np.testing.assert_allclose(kept.x, fresh.x, rtol=1e-6)
    assert (kept.bound() >= fresh.bound()).all()
    np.testing.assert_allclose(kept.bound(), fresh.bound(), rtol=1e-5)


def test_guard_bands_are_aligned() -> None:
    from portakern.check.buffers import POISON, guarded

    buffer = guarded("x", np.arange(10, dtype=f32), POISON[0])
    assert buffer.array.ctypes.data % 4096 == 0
    assert buffer.offset == GUARD_BYTES
    assert np.isnan(buffer.storage[: buffer.offset].view(f32)).all()
