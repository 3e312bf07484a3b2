"""Every program in Pallas's interpreters against float64 references."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from portakern.errors import PortakernError, RuntimeFault
from tests.tpu.helpers import buffers, error, inputs64, language, programs, reference, target
from tests.tpu.programs import all_programs

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

OPEN = ({"M": 37, "N": 300}, {"M": 1, "N": 3}, {"M": 0, "N": 7}, {"M": 4, "N": 0})


QUICK = {"add_bias_open", "transpose_big", "softmax_row", "softmax_long_rows", "softmax_long_open", "matmul_bias",
         "matmul_batched", "matmul_open_k", "matmul_tiny", "attention_long_keys", "attention_f32", "column_sums"}


def sized(names: Iterable[str], quick: set[str]) -> list[Any]:
    """The names as test parameters; those not in ``quick`` run on request, with ``-m slow``."""
    return [pytest.param(n, marks=() if n in quick else pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", sized(programs(), QUICK))
def test_samples(name: str) -> None:
    program = programs()[name]
    executable = language().simulator.load(language().emitter.emit(program, target()), None)
    for sizes in OPEN if program.sizes else ({},):
        found = buffers(program, sizes)
        executable.run(found, sizes)
        (output,) = program.by_role("output")
        limit = 1e-2 if output.dtype == "bf16" else 2e-6
        assert error(found[output.name].array, reference(name)(inputs64(program, found))) < limit, sizes


@pytest.mark.parametrize("name", all_programs())
def test_programs(name: str) -> None:
    program, answer = all_programs()[name]
    found = buffers(program, {})
    language().simulator.load(language().emitter.emit(program, target()), None).run(found, {})
    for output, wanted in zip(program.by_role("output"), answer(inputs64(program, found)), strict=True):
        assert error(found[output.name].array, np.asarray(wanted, np.float64)) < 2e-5, output.name


def test_f32_products_ask_for_exact_ones() -> None:
    """The interpreters form them exactly at any precision; a TPU would round to bf16, so the text itself must ask."""
    text = language().emitter.emit(programs()["matmul_bias_f32"], target()).text
    assert text.count("precision=jax.lax.Precision.HIGHEST") == text.count("jnp.dot(") > 0


def test_a_dropped_mask_is_caught() -> None:
    from dataclasses import replace

    program = programs()["softmax_long"]
    source = language().emitter.emit(program, target())
    broken = replace(source, text=source.text.replace("cols < 2500", "cols < 4000"))
    assert broken.text != source.text
    with pytest.raises(RuntimeFault, match="never written") as caught:
        language().simulator.load(broken, None).run(buffers(program, {}), {})
    assert caught.value.kind == "runtime-unwritten"


def test_the_strict_interpreter_sees_unwritten_scratch() -> None:
    from dataclasses import replace

    from portakern.backends.tpu.interpret import simulator

    program = programs()["column_sums"]
    source = language().emitter.emit(program, target())
    broken = replace(source, text=source.text.replace("jnp.zeros_like(total_ref)", "total_ref[...]"))
    assert broken.text != source.text
    found = buffers(program, {})
    assert found["x"].array.size < simulator.STRICT_ELEMENTS
    with pytest.raises(RuntimeFault, match="70 of 70 elements") as caught:
        language().simulator.load(broken, None).run(found, {})
    assert "memory stage" in caught.value.message and caught.value.where.endswith(".py:32")


def test_wrong_results_of_foreign_kernels_are_faults() -> None:
    program = programs()["softmax_f32"]
    load, adopt = language().simulator.load, language().adopt
    found = buffers(program, {})
    for text, message in (
        ("def softmax(x):\n    return x[:3]", "returned y as float32"),
        ("def softmax(x):\n    return x, x", "returned 2 arrays"),
        ("def softmax(x):\n    return x + undefined", "undefined"),
        ("def softmax(x, y):\n    return x", "missing 1 required"),
    ):
        with pytest.raises(RuntimeFault, match=message):
            load(adopt(text, None, program, target()), None).run(found, {})
    with pytest.raises(PortakernError, match="does not run"):
        load(adopt("import no_such_module\ndef softmax(x):\n    return x", None, program, target()), None)
    with pytest.raises(PortakernError, match="defines no function"):
        adopt("x = 1", "kernel", program, target())
    with pytest.raises(PortakernError, match="not Python"):
        adopt("def (", None, program, target())


def test_our_own_text_can_be_adopted() -> None:
    program = programs()["softmax_open"]
    source = language().emitter.emit(program, target())
    again = language().adopt(source.text, None, program, target())
    found = buffers(program, {"M": 7})
    language().simulator.load(again, None).run(found, {"M": 7})
    assert error(found["y"].array, reference("softmax")(inputs64(program, found))) < 1e-2


def test_calling_with_arrays() -> None:
    program = programs()["softmax_f32"]
    executable = language().simulator.load(language().emitter.emit(program, target()), None)
    x = np.random.default_rng(0).standard_normal((37, 1000)).astype(np.float32)
    result = executable.call([x], {})
    assert isinstance(result, np.ndarray) and error(result, reference("softmax")({"x": x.astype(float)})) < 1e-6


@pytest.mark.parametrize("rows", [8, 40])
def test_maxima_keep_a_nan(rows: int) -> None:
    """XLA's CPU loses it where there are more than a few rows (f32[40, 128]); jax and Mosaic's maximumf do not."""
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    from portakern.backends.tpu.interpret.interpretation import Interpretation

    def kernel(x_ref: Any, high_ref: Any, low_ref: Any) -> None:
        high_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)
        low_ref[...] = jnp.min(x_ref[...], axis=1, keepdims=True)

    def extremes(x: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct((rows, 1), jnp.float32)] * 2)(x)

    x = np.random.default_rng(0).standard_normal((rows, 128)).astype(np.float32)
    x[rows - 2, 5], x[1, 7] = np.nan, np.inf
    for mode in ("plain", "memory"):
        high, low = Interpretation(extremes, [x], mode).run([x]).results
        assert np.isnan(high).nonzero()[0].tolist() == np.isnan(low).nonzero()[0].tolist() == [rows - 2]
        assert high[1] == np.inf and low[0] == x[0].min()


def test_what_an_interpreter_lacks_says_nothing_against_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """jax's TPU interpreter has no rule for some references (its own ragged paged attention makes them)."""
    from portakern.backends.tpu.interpret import interpretation, simulator

    run = interpretation.Interpretation.run

    def lacking(self: Any, arguments: Any) -> Any:
        if self.mode == "plain":
            return run(self, arguments)
        lacking_rule = "JaxRuntimeError: AttributeError: 'ReshapeTransform' object has no attribute 'indices'"
        return interpretation.RunResult(error=lacking_rule)

    monkeypatch.setattr(interpretation.Interpretation, "run", lacking)
    monkeypatch.setattr(simulator, "STRICT_ELEMENTS", 1 << 20)
    program = programs()["softmax_f32"]
    executable = language().simulator.load(language().emitter.emit(program, target()), None)
    found = buffers(program, {})
    executable.run(found, {})
    assert error(found["y"].array, reference("softmax_f32")(inputs64(program, found))) < 1e-6
    assert "memory and races not looked at" in executable.method and "plain interpreter" in executable.method


def test_an_interpreter_without_room_says_nothing_against_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fills blocks up that a TPU leaves as they are; the worst of those that the fuzzer met asked for 30 GB."""
    from portakern.backends.tpu.interpret.interpretation import Interpretation, RunResult

    said = "JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 30129872264 bytes."
    monkeypatch.setattr(Interpretation, "run", lambda self, arrays: RunResult(error=said))
    program = programs()["add_bias_open"]
    executable = language().simulator.load(language().emitter.emit(program, target()), None)
    with pytest.raises(PortakernError, match=r"whole blocks, for which there is no room .*30129872264 bytes") as caught:
        executable.run(buffers(program, {"M": 3, "N": 5}), {"M": 3, "N": 5})
    assert caught.value.kind == "simulator" and "sizes instead of open dims" in caught.value.hint


def test_the_plain_interpreter_puts_back_only_what_a_kernel_writes() -> None:
    """XLA copies an array twice in every step of the grid where a block that was only read is put back."""
    from jax.experimental import pallas as pl

    from portakern.backends.tpu.interpret import idle_updates
    from portakern.backends.tpu.interpret.interpretation import Interpretation

    def add(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] + y_ref[...]

    def added(x: Any, y: Any) -> Any:
        whole = pl.BlockSpec((16, 128), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct((64, 128), np.float32)
        return pl.pallas_call(add, out_shape=shape, grid=(4,), in_specs=[whole] * 2, out_specs=whole)(x, y)

    x, y = np.random.default_rng(0).standard_normal((2, 64, 128)).astype(np.float32)
    made = Interpretation(added, [x, y], "plain")
    with idle_updates.left_out():
        assert made._function.lower(x, y).as_text().count("stablehlo.dynamic_update_slice") == 1
    (out,) = made.run([x, y]).results
    assert (out == x + y).all()


def test_products_of_bf16_are_summed_as_those_of_f32() -> None:
    """XLA for CPUs has no kernel for some dots of bf16 with results of f32; the products are exact in f32."""
    from portakern.backends.tpu.interpret.dot_rounding import rounded

    def function(x: Any, w: Any) -> Any:
        return jax.lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)

    rng = np.random.default_rng(0)
    x, w = (jnp.asarray(rng.standard_normal(s), jnp.bfloat16) for s in ((5, 7), (7, 3)))
    changed, lines = rounded(jax.make_jaxpr(function)(x, w))
    dots = [e for e in changed.jaxpr.eqns if e.primitive.name == "dot_general"]
    assert [[a.aval.dtype.name for a in e.invars] for e in dots] == [["float32"] * 2] and not lines
    (made,) = jax.core.eval_jaxpr(changed.jaxpr, changed.consts, x, w)
    np.testing.assert_allclose(made, np.asarray(x, np.float64) @ np.asarray(w, np.float64), rtol=1e-6, atol=1e-6)
