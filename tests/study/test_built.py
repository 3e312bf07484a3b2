"""Calling built operators again and again: what is remembered, what must miss, prepared calls, threads."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern import launch
from portakern.errors import PortakernError, UsageError
from portakern.launch.facts import extent_of, signature
from portakern.launch.streams import stream_handle

TARGETS = ["numba:cpu", "cpp:cpu"]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pk.operator
def two_results(x: pk.Tensor["M", "N"], scale: pk.Scalar[pk.f32]):
    """Two outputs and a number at run time."""
    return x * scale, pk.sum(x, axis=-1)


@pytest.fixture(scope="module", params=TARGETS)
def built(request):
    return pk.build("softmax", target=request.param, dtype="f32", M=pk.dynamic, N=33)


@pytest.fixture(scope="module", params=TARGETS)
def double(request):
    return pk.build(two_results, target=request.param, dtype="f32", M=pk.dynamic, N=17)


# ---- calls


def test_calls_with_ever_other_arrays_give_their_own_results(built):
    for rows in (1, 4, 1, 9, 4):
        for seed in range(3):
            x = numbers(rows, 33, seed=seed)
            np.testing.assert_allclose(built(x), softmax(x), rtol=1e-5)


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda: np.zeros((4, 34), np.float32), "x has 34 elements"),
    (lambda: np.zeros((4, 33)), "x is f64"),
    (lambda: np.zeros((4, 33), np.int32), "x is i32"),
    (lambda: np.zeros((4, 33, 1), np.float32), "x has 3 dims"),
    (lambda: [[0.0] * 33] * 4, "not an array"),
])  # fmt: skip
def test_what_was_admitted_once_admits_nothing_else(built, wrong, says: str):
    good = numbers(4, 33)
    built(good)
    with pytest.raises(UsageError, match=says):
        built(wrong())
    with pytest.raises(UsageError, match="takes 1 inputs"):
        built(good, good)


def test_other_strides_and_alignments_are_told_apart(built):
    x = numbers(4, 33)
    built(x)
    storage = np.zeros(4 * 33 * 4 + 64, np.uint8)
    begin = -storage.ctypes.data % 16
    shifted = storage[begin + 4 : begin + 4 + x.nbytes].view(np.float32).reshape(4, 33)
    shifted[...] = x
    assert shifted.ctypes.data % 16 == 4
    for same in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], shifted):
        try:
            np.testing.assert_allclose(built(same), softmax(x), rtol=1e-5)
        except UsageError as error:
            assert "contiguous" in str(error)


def test_signatures_differ_where_kernels_would():
    x = numbers(4, 8)
    others = [x[:2], x.T, x.astype(np.float64), x[:, 1:], x[:, ::2], x.view(np.int32), x.astype(">f4")]
    seen = [signature(a) for a in (x, *others)]
    assert len(set(seen)) == len(seen) and None not in seen
    assert signature(x) == signature(numbers(4, 8, seed=1)) and signature(object()) is None
    assert signature(1) != signature(1.0)


def test_signatures_of_tensors():
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, 8)
    negative = torch.zeros(4, 8, dtype=torch.complex64).conj().imag
    others = [x[:2], x.t(), x.double(), x.to("meta"), x.view(torch.int32), x[:, 1:], torch.nn.Parameter(x), negative]
    seen = [signature(a) for a in (x, *others)]
    assert len(set(seen)) == len(seen)
    assert signature(x) == signature(torch.ones(4, 8))


def test_tensors_without_memory_are_refused_with_the_way_out():
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    k = pk.build("softmax", target="numba:cpu", dtype="f32", M=pk.dynamic, N=33)
    k(torch.zeros(4, 33))
    with pytest.raises(UsageError, match="as_torch_op"):
        k(torch.zeros(4, 33, device="meta"))
    with FakeTensorMode():
        fake = torch.zeros(4, 33)
    with pytest.raises(UsageError, match="as_torch_op"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of what is refused here
        k(fake)
    with pytest.raises(UsageError, match="resolve_neg"):
        k(torch.zeros(4, 33, dtype=torch.complex64).conj().imag)


@pytest.mark.parametrize("target", TARGETS)
def test_bf16_of_numpy_and_torch(target: str):
    torch = pytest.importorskip("torch")
    import ml_dtypes

    k = pk.build("softmax", target=target, dtype="bf16", M=pk.dynamic, N=33)
    x = numbers(4, 33).astype(ml_dtypes.bfloat16)
    want = softmax(x.astype(np.float32))
    for _ in range(2):
        np.testing.assert_allclose(k(x).astype(np.float32), want, rtol=2e-2, atol=1e-3)
        y = k(torch.from_numpy(x.astype(np.float32)).bfloat16())
        assert y.dtype == torch.bfloat16
        np.testing.assert_allclose(y.float().numpy(), want, rtol=2e-2, atol=1e-3)


def test_parameters_that_want_a_gradient_are_read_where_none_is_wanted(built):
    torch = pytest.importorskip("torch")
    x = torch.nn.Parameter(torch.randn(4, 33))
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(built(x), x.softmax(-1))
        with pytest.raises(UsageError, match="needs a gradient"):
            built(x)


def test_run_time_numbers_are_not_remembered(double):
    x = numbers(4, 17)
    for scale in (2.0, -3, np.float32(0.5), np.array(7.0, np.float32)):
        scaled, total = double(x, scale)
        np.testing.assert_allclose(scaled, x * np.float32(scale), rtol=1e-6)
        np.testing.assert_allclose(total, x.sum(-1), rtol=1e-5, atol=1e-5)


def test_what_is_remembered_is_bounded(monkeypatch):
    import portakern.study.built as module

    monkeypatch.setattr(module, "CALLERS", 3)
    k = pk.build("softmax", target="numba:cpu", dtype="f32", M=pk.dynamic, N=33)
    for rows in range(1, 9):
        np.testing.assert_allclose(k(numbers(rows, 33)), softmax(numbers(rows, 33)), rtol=1e-5)
    assert len(k._callers) == 3


def test_a_build_is_copied_and_sent_elsewhere(built):
    x = numbers(4, 33)
    for again in (pickle.loads(pickle.dumps(built)), copy.deepcopy(built)):
        np.testing.assert_array_equal(again(x), built(x))


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_of_jax(target: str):
    jnp = pytest.importorskip("jax.numpy")
    k = pk.build("softmax", target=target, dtype="f32", M=pk.dynamic, N=33)
    for seed in range(3):
        x = numbers(4, 33, seed=seed)
        np.testing.assert_allclose(k(jnp.asarray(x)), softmax(x), rtol=1e-5)
    call = k.prepare(jnp.asarray(x))
    call()
    np.testing.assert_allclose(call.outputs[0], softmax(x), rtol=1e-5)


def test_threads_share_a_build():
    k = pk.build("softmax", target="cpp:cpu", dtype="f32", M=pk.dynamic, N=33)
    wrong: list[str] = []

    def work(seed: int) -> None:
        for i in range(60):
            x = numbers(1 + (i + seed) % 5, 33, seed=seed)
            if not np.allclose(k(x), softmax(x), rtol=1e-5):
                wrong.append(f"thread {seed}, call {i}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# ---- prepared calls


def test_a_prepared_call_follows_its_inputs(built):
    x = numbers(4, 33)
    call = built.prepare(x)
    (y,) = call.outputs
    for seed in range(3):
        x[...] = numbers(4, 33, seed=seed)
        assert call() is None
        np.testing.assert_allclose(y, softmax(x), rtol=1e-5)
    assert call.outputs[0] is y and call.stream == 0


def test_a_prepared_call_writes_what_it_is_given(double):
    x, scaled, total = numbers(4, 17), np.zeros((4, 17), np.float32), np.zeros(4, np.float32)
    call = double.prepare(x, 2.5, out=(scaled, total))
    assert call.outputs[0] is scaled and call.outputs[1] is total
    call()
    np.testing.assert_allclose(scaled, x * 2.5, rtol=1e-6)
    np.testing.assert_allclose(total, x.sum(-1), rtol=1e-5, atol=1e-5)


def test_a_prepared_call_of_tensors(built):
    torch = pytest.importorskip("torch")
    x, y = torch.randn(4, 33), torch.zeros(4, 33)
    call = built.prepare(x, out=y)
    x.normal_()
    call()
    torch.testing.assert_close(y, x.softmax(-1))
    assert isinstance(built.prepare(x).outputs[0], torch.Tensor)


def test_a_prepared_call_keeps_what_it_reads_and_writes(built):
    x = numbers(64, 33)
    want = softmax(x)
    gone = weakref.ref(x)
    call = built.prepare(x)
    del x
    gc.collect()
    assert gone() is not None
    _ = [np.ones((64, 33), np.float32) for _ in range(50)]
    call()
    np.testing.assert_allclose(call.outputs[0], want, rtol=1e-5)
    del call
    gc.collect()
    assert gone() is None, "a prepared call that is gone keeps its inputs alive"


def read_only(*shape: int) -> np.ndarray:
    made = np.zeros(shape, np.float32)
    made.setflags(write=False)
    return made


@pytest.mark.parametrize(("out", "says"), [
    (lambda x: np.zeros((4, 32), np.float32), r"f32\[4, 33\].*f32\[4, 32\]"),
    (lambda x: np.zeros((4, 33)), r"is f64"),
    (lambda x: np.zeros((33, 4), np.float32).T, "outputs are contiguous"),
    (lambda x: (np.zeros((4, 33), np.float32),) * 2, "writes 1 arrays"),
    (lambda x: x, "overlaps x"),
    (lambda x: [[0.0] * 33] * 4, "list, not an array|writes 1 arrays"),
    (lambda x: read_only(4, 33), "read-only"),
    (lambda x: 3.0, "not an array"),
])  # fmt: skip
def test_outputs_that_cannot_be_written(built, out, says: str):
    x = numbers(4, 33)
    with pytest.raises(UsageError, match=says):
        built.prepare(x, out=out(x))


def test_preparing_checks_as_calling_does(built):
    with pytest.raises(UsageError, match="x has 34 elements"):
        built.prepare(np.zeros((4, 34), np.float32))
    with pytest.raises(UsageError, match="not an array"):
        built.prepare("x")


def test_two_outputs_may_not_overlap(double):
    storage = np.zeros(68 + 4, np.float32)
    with pytest.raises(UsageError, match="overlaps"):
        double.prepare(numbers(4, 17), 1.0, out=(storage[:68].reshape(4, 17), storage[64:68]))


# ---- backends without prepare


class Plain:
    """An executable with ``call`` and ``run`` alone."""

    guards = False

    def __init__(self) -> None:
        self.count = 0

    def run(self, buffers: Any, sizes: Any) -> None:
        raise NotImplementedError

    def call(self, inputs: Any, sizes: Any) -> Any:
        self.count += 1
        return inputs[0] + self.count


def test_an_executable_without_prepare_is_called():
    plain, x = Plain(), np.zeros(3)
    call = launch.prepare(plain, [x], {})
    call()
    np.testing.assert_array_equal(call.outputs[0], np.full(3, 2.0))
    mine = np.zeros(3)
    call = launch.prepare(plain, [x], {}, [mine])
    call()
    np.testing.assert_array_equal(mine, np.full(3, 4.0))
    assert call.outputs[0] is mine and call.call is None
    with pytest.raises(UsageError, match="no stream"):
        call(5)
    with pytest.raises(UsageError, match="has 1 outputs"):
        launch.prepare(plain, [x], {}, [])
    np.testing.assert_array_equal(launch.specialise(plain, [x], {})([x + 1]), np.full(3, 7.0))


# ---- streams and extents


def test_streams_of_any_library():
    class Told:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 42

    class Cupy:
        ptr = 43

    assert (stream_handle(7), stream_handle(Told()), stream_handle(Cupy())) == (7, 42, 43)
    for wrong in ("x", True, None):
        with pytest.raises(UsageError):
            stream_handle(wrong)


def test_extents_cover_every_byte():
    x = numbers(4, 8)
    begin = x.ctypes.data
    assert extent_of(x) == (begin, begin + x.nbytes)
    assert extent_of(x[::-1, ::-1]) == (begin, begin + x.nbytes)
    assert extent_of(x[1:, ::2]) == (begin + 32, begin + x.nbytes - 4)
    assert extent_of(x[:0]) == (0, 0)


def test_a_build_called_first_in_this_process_does_not_make_it_a_worker():
    """The environment of a language's workers is taken over, the marks that say "worker" are not."""
    import os
    import subprocess

    text = ("import os, numpy as np, portakern as pk\n"
            "k = pk.build('softmax', 'numba:cpu', dtype='f32', M=pk.dynamic, N=8)\n"
            "k(np.zeros((2, 8), np.float32)); k(np.zeros((8, 2), np.float32).T)\n"
            "assert not [n for n in os.environ if n.startswith('PORTAKERN_') and n.endswith('_WORKER')]\n")  # fmt: skip
    clean = {n: v for n, v in os.environ.items() if not n.endswith("_WORKER")}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=180, env=clean)
    assert done.returncode == 0, done.stderr


def test_the_error_of_a_missing_device_comes_from_prepare_too():
    k = pk.build("softmax", target="hip:gfx942", dtype="f32", M=4, N=8)
    with pytest.raises(PortakernError) as error:
        k.prepare(np.zeros((4, 8), np.float32))
    assert error.value.kind == "no-silicon"
