"""Loops over kernels in the words of every language, and calls that run them."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.backend import CompiledBinary, Source
from portakern.emit.launches import parse_launches, parse_repeats
from portakern.errors import UsageError
from portakern.ir.mlir import program_to_mlir
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import tensor_type
from portakern.launch.dispatch import dispatch_sequence_of
from portakern.registry import registry
from tests.lower.step_operators import nested, rnn
from tests.lowering import lowered_for

DIMS = {"T": 5, "B": 3, "I": 6, "H": 7}


def emitted(target: str, operator: pk.Operator = rnn, **dims: int) -> Source:
    at = registry().target(target)
    program = lowered_for(at, operator.program(dims or DIMS, {}, "f32"))
    return registry().language(at.language).emitter.emit(program, at)


LOOPS = {
    "numba:cpu": ["for step in range(5):", "t0, t2 = t2, t0"],
    "triton:sm_90": ["for step in range(5):", "t0, t2 = t2, t0"],
    "cpp:cpu": ["for (int64_t step_ = 0; step_ < 5; ++step_) {", "t0.trade(t2);"],
    "pallas:v5e": ["def turn(carry, element):", "t0, out0 = jax.lax.scan(turn, t0, t1, length=5)"],
    "cuda:sm_90a": ["// portakern repeat: launches=1 count=5 step=step swap=(t0, t2)"],
    "hip:gfx942": ["// portakern repeat: launches=1 count=5 step=step swap=(t0, t2)"],
    "opencl:cpu": ["// portakern repeat: launches=1 count=5 step=step swap=(t0, t2)"],
    "sycl:cpu": ["// portakern repeat: launches=1 count=5 step=step swap=(t0, t2)"],
}


@pytest.mark.quick
@pytest.mark.parametrize("target", LOOPS)
def test_the_text_says_what_is_repeated(target: str) -> None:
    text = emitted(target).text
    for line in LOOPS[target]:
        assert line in text


@pytest.mark.quick
@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx942", "opencl:cpu"])
def test_repeats_are_read_back_from_the_text(target: str) -> None:
    for operator, dims in ((rnn, DIMS), (nested, {"T": 3, "S": 2, "N": 5})):
        source = emitted(target, operator, **dims)
        assert parse_launches(source.text) == source.launches
        assert set(parse_repeats(source.text)) == set(source.repeats)


@pytest.mark.quick
@pytest.mark.parametrize("line", ["launches=9 count=5 step=t", "launches=1 step=t", "launches=1 count=5 step=t swap=(a, b, c)"])
def test_a_wrong_repeat_comment_is_refused(line: str) -> None:
    text = f"// portakern repeat: {line}\n// portakern launch: kernel=k grid=(1, 1, 1) block=(1, 1, 1) shared=0 args=(x)\n"
    with pytest.raises(UsageError, match="repeat comment"):
        parse_repeats(text)


@pytest.mark.quick
def test_launches_are_enumerated_with_arrays_that_change_places() -> None:
    source = emitted("hip:gfx942")
    sequence = dispatch_sequence_of(source, CompiledBinary("hsaco", b"", ""), {})
    (repeat,) = source.repeats
    kernel = source.launches[repeat.first]
    turns = [d for d in sequence.steps if getattr(d, "kernel", "") == kernel.kernel]
    assert len(turns) == 5
    (now, after), place = repeat.swaps[0], kernel.args.index("step")
    assert [d.args[kernel.args.index(now)].array for d in turns] == [now, after, now, after, now]  # type: ignore[attr-defined]
    assert [int.from_bytes(d.args[place].value, "little") for d in turns] == list(range(5))  # type: ignore[attr-defined]
    last = sequence.steps[-1]
    assert after in [a.array for a in last.args] and now not in [a.array for a in last.args]  # type: ignore[attr-defined]


@pytest.mark.quick
def test_programs_with_repeats_are_exported() -> None:
    at = registry().target("cpp:cpu")
    text = program_to_mlir(lowered_for(at, nested.program({"T": 3, "S": 2, "N": 5}, {}, "f32")))
    assert text.count('"pk.repeat"') == 2 and text.count("{") == text.count("}")


@pytest.mark.parametrize("target", ["opencl:cpu", pytest.param("numba:cpu", marks=pytest.mark.slow)])
def test_a_call_runs_as_many_steps_as_there_are(target: str) -> None:
    """The length is open, and temporaries live until the last step has ended."""
    at = registry().target(target)
    toolchain = registry().language(at.language).toolchain
    assert toolchain is not None
    if not (ready := toolchain.available(at)):
        pytest.skip(ready.detail)
    kernel = pk.build(rnn, target=target, dtype="f32", reverse=True, **{**DIMS, "T": pk.dynamic})
    rng = np.random.default_rng(0)
    for length in (0, 1, 60):
        program = rnn.program({**DIMS, "T": length}, {"reverse": True}, "f32")
        given = [(rng.standard_normal(tensor_type(a).shape) * 0.4).astype(np.float32) for a in program.args]  # type: ignore[arg-type]
        want = evaluate(program, dict(zip((a.name for a in program.args), given, strict=True)))
        for have, expected in zip(kernel(*given), want.values(), strict=True):
            np.testing.assert_allclose(have, expected, rtol=1e-4, atol=1e-5)
