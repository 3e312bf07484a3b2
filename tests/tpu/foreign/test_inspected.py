"""Kernels that belong to no operator: found in a text, called as asked, and judged without an oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

import portakern as pk
from portakern.backend import InspectedKernel
from portakern.errors import PortakernError, UsageError
from portakern.study import inspecting
from portakern.study.inspecting import arguments_of
from tests.tpu.helpers import language, target

pytest.importorskip("jax")

EXAMPLES = Path(__file__).parents[3] / "examples" / "tpu"
MATMUL = (EXAMPLES / "blocked_matmul.py").read_text()
ARGS = "x=f32[128,128],y=f32[128,128],bm=128,bn=128,bk=128"


def bare(text: str, entry: str = "", args: str = "", file: str = "") -> object:
    return language().bare(InspectedKernel(text, entry, arguments_of(args), file=file), target(), ())


def test_numbers_are_passed_by_name_and_lines_stay() -> None:
    source = language().bare(InspectedKernel(MATMUL, "", arguments_of(ARGS), file="mine.py"), target(), ())
    assert source.text.startswith(MATMUL) and "return matmul(x=x, y=y, bm=128, bn=128, bk=128)" in source.text
    assert [a.name for a in source.arrays] == ["x", "y"] and source.operator == "matmul"


@pytest.mark.parametrize(("text", "entry", "args", "message"), [
    ("def (", "", "x=f32[8]", "not Python: line 1"),
    (MATMUL, "nothing", ARGS, "defines no function 'nothing'"),
    ("def f(x):\n    return x", "", "x=f32[8]", "0 functions that call pallas_call"),
    (MATMUL, "matmul", "", "compiled for the shapes of its arguments (x, y, bm, bn, bk)"),
])  # fmt: skip
def test_what_cannot_be_asked(text: str, entry: str, args: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        bare(text, entry, args)
    assert message in caught.value.message


def run(text: str, args: str) -> str:
    kernel = InspectedKernel(text, "matmul", arguments_of(args), file="mine.py")
    source = language().bare(kernel, target(), ())
    executable = language().simulator.load(source, None)
    executable.run(inspecting._buffers(kernel, source, 0), {})
    return executable.method


def test_every_stage_runs_without_an_operator() -> None:
    assert "again with zeros in unwritten memory" in run(MATMUL, ARGS)
    unset = MATMUL.replace("acc_ref[...] = jnp.zeros_like(acc_ref)", "pass")
    with pytest.raises(PortakernError, match="never written"):
        run(unset, ARGS)


def test_parallel_axes_may_come_last() -> None:
    last = MATMUL.replace('("parallel", "parallel", "arbitrary")', '("arbitrary", "parallel", "arbitrary")')
    assert "races not looked for: parallel axes" in run(last, ARGS.replace("y=f32[128,128]", "y=f32[128,256]"))


@pytest.mark.slow
def test_nan_of_finite_numbers_is_a_fault() -> None:
    with pytest.raises(PortakernError, match="NaN though every input is finite"):
        run(MATMUL.replace("acc_ref[...].astype", "jnp.log(-1 - acc_ref[...] ** 2).astype"), ARGS)


@pytest.mark.slow
def test_inspect_from_python() -> None:
    (found,) = pk.inspect(EXAMPLES / "gather_rows.py", "pallas:v5e", entry="gather")
    assert found.fault is not None and found.fault["kind"] == "runtime-race" and "gather_rows.py:28" in found.fault["message"]
    assert found.kernels[0]["kernel"] == "gather" and found.kernels[0]["spills"] == 0 and found.kernels[0]["registers"] > 0
    (good,) = pk.inspect(EXAMPLES / "blocked_matmul.py", "pallas:v6e", entry="matmul", args=ARGS)
    assert good.fault is None and good.error is None and "races looked for" not in good.ran
    (bad,) = pk.inspect(MATMUL.replace("(bm, bk)", "(bm, 100)"), "pallas:v5e", entry="matmul", args=ARGS)
    assert bad.error is not None and bad.error["kind"] == "compile-trace" and "contracting dimensions" in bad.error["message"]
