"""C++ on the CPU: every sample emitted, compiled, run and compared with float64."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.backend import Target
from portakern.errors import CompileError, RuntimeFault
from portakern.ir.program import Program
from portakern.registry import registry
from tests import samples
from tests.cpu.cpp.references import buffers_for, expected, intact, tolerance

SAMPLES = samples.all_samples()


@pytest.fixture(scope="module")
def target() -> Target:
    return registry().target("cpp:cpu")


@pytest.fixture(scope="module")
def language():
    return registry().language("cpp")


def run(program: Program, language, target: Target, sizes=None, seed: int = 0):
    sizes = sizes or {name: 19 + 7 * n for n, name in enumerate(program.sizes)}
    source = language.emitter.emit(program, target)
    executable = language.runtime.load(source, language.toolchain.compile(source))
    buffers = buffers_for(program, sizes, seed)
    inputs = {a.name: buffers[a.name].storage.copy() for a in program.by_role("input")}
    executable.run(buffers, sizes)
    for name, before in inputs.items():
        assert (buffers[name].storage == before).all(), f"the input {name} was changed"
    for a in program.by_role("output"):
        assert intact(buffers[a.name]), f"something was written around {a.name}"
    return buffers


@pytest.mark.parametrize("name", SAMPLES)
def test_sample(name: str, language, target: Target) -> None:
    program = SAMPLES[name]
    buffers = run(program, language, target)
    for out, want in expected(program, buffers).items():
        have = buffers[out].array.astype(np.float64)
        limit = tolerance(program.array(out).dtype) * max(np.abs(want).max(), 1e-30)
        assert np.abs(have - want).max() <= limit, name


@pytest.mark.quick
@pytest.mark.parametrize("name", ["add_bias", "transpose", "softmax_row", "softmax_long_open", "matmul_bias", "attention"])
def test_golden(name: str, language, target: Target, golden) -> None:
    golden(f"{name}.cpp", language.emitter.emit(SAMPLES[name], target).text)


@pytest.mark.parametrize("name", ["softmax", "matmul_bias", "column_sums"])
def test_standalone_compiles_by_itself(name: str, language, target: Target) -> None:
    from dataclasses import replace

    source = language.emitter.emit(SAMPLES[name], target)
    alone = replace(source, text=language.emitter.standalone(source), headers=())
    assert '#include "' not in alone.text
    assert language.toolchain.compile(alone).resources[0].code_bytes > 0


@pytest.mark.quick
def test_only_the_headers_that_are_used(language, target: Target) -> None:
    names = {name for name, _ in language.emitter.emit(SAMPLES["add_bias"], target).headers}
    assert names == {"pk/element.hpp", "pk/math.hpp", "pk/parallel.hpp", "pk/tile.hpp"}


@pytest.mark.slow  # it builds the compiler's own libraries first
def test_compilers_other_than_the_first(language, target: Target, monkeypatch) -> None:
    import importlib.util
    import sys

    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    monkeypatch.setenv("PORTAKERN_CXX", f"{sys.executable} -m ziglang c++")
    assert "clang" in language.toolchain.fingerprint(target)
    program = SAMPLES["matmul_bias"]
    buffers = run(program, language, target)
    for out, want in expected(program, buffers).items():
        have = buffers[out].array.astype(np.float64)
        assert np.abs(have - want).max() <= tolerance(program.array(out).dtype) * np.abs(want).max()


def test_a_broken_source_shows_the_compilers_words(language, target: Target) -> None:
    from dataclasses import replace

    source = replace(language.emitter.emit(SAMPLES["add_bias"], target), text="this is not C++\n")
    with pytest.raises(CompileError, match="this"):
        language.toolchain.compile(source)


def test_a_source_without_the_entry_is_refused(language, target: Target) -> None:
    from dataclasses import replace

    source = replace(language.emitter.emit(SAMPLES["add_bias"], target), text="int nothing() { return 0; }\n")
    with pytest.raises(RuntimeFault, match="exports no function"):
        language.runtime.load(source, language.toolchain.compile(source))


def test_assembly_can_be_read(language, target: Target) -> None:
    text = language.toolchain.compile(language.emitter.emit(SAMPLES["add_bias_f32"], target)).assembly
    assert "add_bias:" in text and "ret" in text


def test_no_blocks_touch_nothing(language, target: Target) -> None:
    program = SAMPLES["softmax_open"]
    buffers = run(program, language, target, {"M": 0})
    assert buffers["y"].array.size == 0


def test_many_threads_at_once(language, target: Target) -> None:
    """Calls from several Python threads: one takes the pool, the others work alone."""
    from concurrent.futures import ThreadPoolExecutor

    program = samples.softmax(64, 1000, "f32", (2, 1024))
    source = language.emitter.emit(program, target)
    executable = language.runtime.load(source, language.toolchain.compile(source))

    def once(seed: int) -> bool:
        buffers = buffers_for(program, {}, seed)
        executable.run(buffers, {})
        return bool(np.abs(buffers["y"].array - expected(program, buffers)["y"]).max() < 1e-6)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(once, range(40)))


@pytest.fixture(scope="module")
def executable(language, target: Target):
    source = language.emitter.emit(SAMPLES["softmax"], target)
    return language.runtime.load(source, language.toolchain.compile(source))


class TestCalls:
    """Arrays of other libraries in and out."""

    def test_numpy(self, executable) -> None:
        import ml_dtypes

        x = np.random.default_rng(0).standard_normal((5, 1000)).astype(ml_dtypes.bfloat16)
        y = executable.call([x], {})
        assert y.dtype == x.dtype and y.shape == x.shape and abs(float(y[0].astype(np.float32).sum()) - 1) < 0.02

    def test_torch(self, executable) -> None:
        torch = pytest.importorskip("torch")
        x = torch.randn(5, 1000, dtype=torch.bfloat16)
        y = executable.call([x], {})
        assert isinstance(y, torch.Tensor) and y.dtype == torch.bfloat16
        assert torch.allclose(y.float(), torch.softmax(x.float(), -1), atol=1e-3)

    def test_wrong_arguments(self, executable) -> None:
        with pytest.raises(RuntimeFault, match="float32"):
            executable.call([np.zeros((5, 1000), np.float32)], {})
        import ml_dtypes

        with pytest.raises(RuntimeFault, match="4, 1000"):
            executable.call([np.zeros((4, 1000), ml_dtypes.bfloat16)], {})
        with pytest.raises(RuntimeFault, match="strides"):
            executable.call([np.zeros((1000, 5), ml_dtypes.bfloat16).T], {})


class TestForeign:
    """Kernels from elsewhere."""

    TEXT = """
#include <cstdint>
extern "C" void column_sums(const float* x, float* y) {
    for (int n = 0; n < 70; ++n) {
        y[n] = 0;
        for (int m = 0; m < 33; ++m) y[n] += x[m * 70 + n];
    }
}
"""

    def test_is_compiled_and_run(self, language, target: Target) -> None:
        program = SAMPLES["column_sums"]
        source = language.adopt(self.TEXT, None, program, target)
        executable = language.runtime.load(source, language.toolchain.compile(source))
        buffers = buffers_for(program, {})
        executable.run(buffers, {})
        assert np.allclose(buffers["y"].array, expected(program, buffers)["y"], atol=1e-4)

    def test_may_use_the_headers(self, language, target: Target) -> None:
        text = '#include "pk/math.hpp"\nextern "C" void mine(const float* x, float* y) { y[0] = pk::exp(x[0]); }\n'
        source = language.adopt(text, "mine", SAMPLES["column_sums"], target)
        assert {n for n, _ in source.headers} == {"pk/element.hpp", "pk/math.hpp"}
        language.toolchain.compile(source)

    def test_our_own_text_is_adopted(self, language, target: Target) -> None:
        ours = language.emitter.emit(SAMPLES["attention"], target)
        adopted = language.adopt(ours.text, None, SAMPLES["attention"], target)
        assert (adopted.entry, adopted.headers, adopted.arrays) == (ours.entry, ours.headers, ours.arrays)

    def test_without_an_entry_is_refused(self, language, target: Target) -> None:
        from portakern.errors import BackendError

        with pytest.raises(BackendError, match="column_sums"):
            language.adopt("int f();", None, SAMPLES["column_sums"], target)
