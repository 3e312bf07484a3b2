"""SYCL on the CPU device."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.errors import CompileError
from portakern.ir.size import Sym
from tests import samples
from tests.lower import user_operators
from tests.lowering import lowered_for
from tests.sycl.running import compiled, run_checked
from tests.sycl.targets import language, needs_sycl, target

SAMPLES = samples.all_samples()
SIZES = {"M": 13, "N": 2100}
QUICK = ("add_bias_open", "transpose", "softmax", "softmax_long_open", "matmul_bias", "attention", "column_sums")
SYCL, CPU = language("sycl"), target("sycl:cpu")


@pytest.mark.quick
@pytest.mark.parametrize("name", ["add_bias", "softmax", "matmul_bias"])
def test_emitted_text(name, golden) -> None:
    golden(f"{name}.sycl-cpu.cpp", SYCL.emitter.emit(SAMPLES[name], CPU).text)


def test_standalone_needs_no_header_of_ours() -> None:
    text = SYCL.emitter.standalone(SYCL.emitter.emit(SAMPLES["softmax"], CPU))
    assert '#include "pk/' not in text and "PK_KERNEL softmax(" in text


@needs_sycl
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SAMPLES])
def test_samples_run(name: str) -> None:
    program = SAMPLES[name]
    run_checked(SYCL, CPU, program, SIZES if program.sizes else {}, built=compiled(SYCL, CPU, program))


@needs_sycl
@pytest.mark.slow
@pytest.mark.parametrize("name", user_operators.CASES)
def test_users_operators(name: str) -> None:
    op, dims = getattr(user_operators, name), user_operators.CASES[name]
    program = lowered_for(CPU, op.program(dims, params={}, dtype="bf16"))
    run_checked(SYCL, CPU, program, {}, built=compiled(SYCL, CPU, program))


@needs_sycl
def test_call_takes_arrays_where_they_are() -> None:
    assert SYCL.runtime is not None
    source, binary = compiled(SYCL, CPU, samples.softmax(rows=Sym.named("M"), cols=20, dtype="f32", tile=(1, 32)))
    executable = SYCL.runtime.load(source, binary)
    x = np.random.default_rng(0).standard_normal((4, 20)).astype(np.float32)
    want = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(executable.call([x], {"M": 4}), want, rtol=1e-5)
    assert executable.call([x[:0]], {"M": 0}).shape == (0, 20)
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(executable.call([torch.from_numpy(x)], {"M": 4}).numpy(), want, rtol=1e-5)


@needs_sycl
def test_a_compiler_that_ends_its_process_is_an_error_not_the_end() -> None:
    from portakern.backends.sycl.workers import call
    from portakern.errors import WorkerError

    assert SYCL.adopt is not None and SYCL.toolchain is not None
    line = "// portakern launch: kernel=bad grid=(1, 1, 1) block=(1, 1, 1) shared=0 args=(x, y)\n"
    text = line + '#include "pk/cpu.hpp"\nPK_KERNEL bad(const float* x, float* y) { y[0] = unheard_of(x); }\n'
    source = SYCL.adopt(text, None, samples.transpose(), CPU)
    with pytest.raises(CompileError, match="unheard_of"):
        SYCL.toolchain.compile(source)
    with pytest.raises(WorkerError):
        call("os:_exit", 3, timeout_s=20.0)
    assert "SYCL" in SYCL.runtime.device_name(CPU)  # type: ignore[union-attr]


LOAD, STORE, MEMORY_COPY = 61, 62, (63, 64)
ALIGNED = 2
"""Opcodes and a bit of SPIR-V 1.6, sections 3.49.8 (Memory Instructions) and 3.26 (Memory Operands)."""


def instructions(spirv: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Opcode and operands of each, by the words' counts."""
    words = np.frombuffer(spirv, "<u4").tolist()
    found, at = [], 5
    while at < len(words):
        count = words[at] >> 16
        found.append((words[at] & 0xFFFF, tuple(words[at + 1 : at + count])))
        at += count
    return found


@needs_sycl
def test_vectors_in_memory_are_aligned_as_elements() -> None:
    """Rows of 1000 elements begin anywhere, and the compiler may use whatever alignment it is told."""
    from portakern.backends.sycl.workers import call
    from portakern.emit.clike import inline_headers

    source = SYCL.emitter.emit(SAMPLES["softmax"], CPU)
    spirv, _ = call("portakern.backends.sycl.sycl.jobs:to_spirv", inline_headers(source.text, source.headers), (),
                    timeout_s=120.0)  # fmt: skip
    told = [(x[3:] if op == LOAD else x[2:]) for op, x in instructions(spirv) if op in (LOAD, STORE)]
    aligned = {rest[1] for rest in told if rest and rest[0] & ALIGNED}
    assert 4 in aligned and aligned <= {1, 2, 4, 8, 32}, aligned  # 32: the number of the work-group, three of 64 bits
    assert not [x for op, x in instructions(spirv) if op in MEMORY_COPY]  # zeros are stored by loops, see library.ALWAYS


@needs_sycl
@pytest.mark.parametrize(("m", "n", "k"), [(2, 13, 100), (2, 24, 101), (2, 64, 100), (3, 13, 100), (1, 9, 37)])
def test_few_rows_of_a_tile_are_summed(m: int, n: int, k: int) -> None:
    @pk.operator
    def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"]):
        return x @ pk.exp(w)

    program = lowered_for(CPU, op.program({"M": m, "N": n, "K": k}, dtype="f32"))
    run_checked(SYCL, CPU, program, {}, built=compiled(SYCL, CPU, program))
