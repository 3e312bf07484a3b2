"""Known bugs of Pallas kernels are seen by the stage that is there for them; correct kernels pass every stage."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from portakern.backends.tpu.interpret import deadlocks
from portakern.errors import PortakernError, SimulatorError
from portakern.spec.load import load_operator
from portakern.study.steps import lowered
from portakern.study.work import Problem, works
from tests.tpu.bugs import BUGS, SIZES, Bug, correct
from tests.tpu.helpers import buffers, language, target

os.environ.setdefault("JAX_PLATFORMS", "cpu")
pytest.importorskip("jax")

QUICK = ("ragged sum, only the left operand masked", "a slot filled again before it is read")
ALONE = tuple(b for b in BUGS if b.stage in ("grid", "memory", "races"))
"""Those that need no oracle and no compiler; ``benchmarks/tpu_bugs.py`` judges all of them."""


def run(base: str, text: str, dims: dict[str, int]) -> tuple[Any, Any]:
    (work,) = works(Problem(load_operator(base), dims, {}), [target()], ["f32"], None)
    program = lowered(work, target())
    executable = language().simulator.load(language().adopt(text, base, program, target()), None)
    found = buffers(program, {})
    executable.run(found, {})
    return executable, found


def test_an_error_does_not_reach_the_next_kernel() -> None:
    bug = next(b for b in BUGS if b.name == "copy waited for twice")
    with pytest.raises(PortakernError, match="deadlock: the kernel waits for 8192"):
        run(bug.base, bug.text, bug.dims)
    run(bug.base, correct(bug.base), bug.dims)


def test_what_takes_long_is_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = next(b for b in BUGS if b.name == "copy waited for twice")
    monkeypatch.setattr(deadlocks, "DEADLINE_S", 0.0)
    monkeypatch.setattr(deadlocks, "LOOK_S", 0.001)
    with pytest.raises(SimulatorError, match="not done within") as caught:
        run(bug.base, correct(bug.base), bug.dims)
    assert caught.value.kind == "timeout" and "smaller size" in caught.value.hint


def chosen(bug: Bug) -> Any:
    return pytest.param(bug, id=bug.name, marks=() if bug.stage == "grid" or bug.name in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("bug", [chosen(b) for b in ALONE])
def test_caught_by(bug: Bug) -> None:
    with pytest.raises(PortakernError) as caught:
        run(bug.base, bug.text, bug.dims)
    assert f"{bug.stage} stage: " in caught.value.message
    assert caught.value.kind.startswith("runtime-") and caught.value.hint
    assert bug.stage != "grid" or ".py:" in caught.value.where


@pytest.mark.parametrize("base", [pytest.param(b, marks=() if b == "add_relu" else pytest.mark.slow) for b in SIZES])
def test_correct_kernels_pass(base: str) -> None:
    executable, found = run(base, correct(base), dict(SIZES[base]))
    assert "grids walked; TPU interpreter" in executable.method
    assert ("races looked for on two cores" in executable.method) == (base != "transpose")
    assert np.isfinite(found["out"].array).all()


def test_a_sum_at_the_default_precision_is_rounded_as_on_a_tpu() -> None:
    """The interpreters multiply f32 whatever was asked; the matrix unit would round the operands to bf16."""
    bug = next(b for b in BUGS if b.name == "f32 product at the default precision")
    executable, found = run(bug.base, bug.text, {"M": 16, "N": 128, "K": 128})
    a, b = (found[n].array for n in "ab")
    bf16 = found["a"].array.astype("bfloat16").astype(np.float64) @ found["b"].array.astype("bfloat16").astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(found["out"].array - bf16).max() < 1e-4 < 1e-2 < np.abs(found["out"].array - exact).max()
    assert "f32 dots at default precision rounded to bf16 as a TPU does" in executable.method
