"""The Python face."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import portakern as pk
from portakern.errors import PortakernError, UsageError


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def built():
    return pk.build("softmax", target="numba:cpu", dtype="f32", M=pk.dynamic, N=33)


def test_a_build_has_all_there_is_to_look_at(built):
    assert "def softmax" in built.source and repr(built.source) == built.source
    assert built.standalone() and built.binary.data and built.schedule
    assert "reduce" in str(built.program) and "fold" in str(built.tensor_program)
    assert repr(built) == "<softmax built for numba:cpu, f32, M=?,N=33>"


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_an_open_dim_is_that_of_the_array(built, rows: int):
    x = np.random.default_rng(0).standard_normal((rows, 33), dtype=np.float32)
    np.testing.assert_allclose(built(x), softmax(x), rtol=1e-5)


def test_strided_arrays_are_right_or_refused_by_name(built):
    x = np.random.default_rng(0).standard_normal((5, 66), dtype=np.float32)[:, ::2]
    try:
        np.testing.assert_allclose(built(x), softmax(x), rtol=1e-5)
    except UsageError as error:
        assert "contiguous" in str(error)


@pytest.mark.parametrize(("arrays", "says"), [
    ([np.zeros((3, 4), np.float32)], "x has 4 elements in dim 1"),
    ([np.zeros(33, np.float32)], "x has 1 dims"),
    ([np.zeros((3, 33))], "x is f64, this build takes f32"),
    (["x"], "x is str, not an array"),
    ([], "takes 1 inputs"),
])  # fmt: skip
def test_arrays_that_do_not_fit(built, arrays: list, says: str):
    with pytest.raises(UsageError, match=says.replace("(", "\\(")):
        built(*arrays)


def test_torch_in_torch_out(built):
    torch = pytest.importorskip("torch")
    x = torch.randn(4, 33)
    y = built(x)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, torch.softmax(x, -1))


@pytest.mark.parametrize(("values", "says"), [
    ({"Q": 3}, "no dim or parameter 'Q'"), ({"M": -1}, "not negative"), ({"dtype": "float"}, "unknown dtype"),
    ({"target": "cuda:h2O0"}, "no device"), ({"schedule": {"banana": 1}}, "banana")])  # fmt: skip
def test_builds_that_make_no_sense(values: dict, says: str):
    with pytest.raises(PortakernError, match=says):
        pk.build("softmax", **{"target": "numba:cpu", **values})


def test_no_silicon_is_said_when_called():
    k = pk.build("softmax", target="hip:gfx942", dtype="f32", M=4, N=8)
    assert "softmax" in k.source
    with pytest.raises(PortakernError) as error:
        k(np.zeros((4, 8), np.float32))
    assert error.value.kind == "no-silicon"


def test_compare_gives_a_row_per_target_with_its_texts(tmp_path: Path):
    study = pk.compare("softmax", ["cpp:cpu", "hip:gfx942", "pallas:v5e"], dtype="f16", budget=0.1, M=4, N=8)
    assert [r.target for r in study] == ["cpp:cpu", "hip:gfx942", "pallas:v5e"]
    assert study.rows[2].refused and study.rows[0].correct
    page = study.to_html(tmp_path / "page.html")
    assert "badge" in page and 'class="listing"' in page and 'data-target="cpp:cpu' in page
    assert "http" not in page
    assert study.to_json() == study.to_json()


# ---- the generator's door


def test_a_task_says_everything_and_its_kernel_passes():
    task = pk.task("row_sum", "cpp:cpu", dtype="f32", M=5, N=40)
    assert "pk.sum" in task.math and [a.name for a in task.arrays] == ["x", "out"] and task.convention
    assert task.to_dict()["starting_kernel"] == task.starting_kernel and task.starting_kernel in str(task)
    row = task.evaluate(task.starting_kernel, timing={"options": {"budget_s": 0.1}})
    assert row.correct and row.evidence == "timed" and row.time is not None


@pytest.mark.parametrize(("text", "kind"), [
    ("", "bad-source"),
    ("def row_sum(x:\n", "bad-source"),
    ("import numba\n@numba.njit\ndef zeros(out):\n    out[:] = 0\ndef row_sum(x, out):\n    zeros(out)\n", "incorrect"),
    ("def row_sum(x, out):\n    raise ValueError('no')\n", None),
    ("import os\ndef row_sum(x, out):\n    os.abort()\n", None),
    ("def row_sum(x, out):\n    while True: pass\n", None),
])
def test_a_bad_candidate_is_a_row_whatever_it_does(text: str, kind: str | None):
    limit = 4 if "while True" in text else 60  # compiling takes its time on a busy machine
    row = pk.evaluate("row_sum", text, "numba:cpu", dtype="f32", timeout_s=limit, M=5, N=40)
    assert not row.correct and row.error is not None
    assert kind is None or row.error["kind"] == kind


def test_bad_usage_of_evaluate_raises():
    with pytest.raises(UsageError):
        pk.evaluate("row_sum", "x", "numba:cpu", Q=3)
    with pytest.raises(UsageError):
        pk.evaluate("row_sum", b"x", "numba:cpu")  # type: ignore[arg-type]


def test_a_script_without_a_main_guard_does_not_run_itself_again(tmp_path: Path):
    """Workers get the traced program and never import the file of the operator."""
    script = tmp_path / "script.py"
    script.write_text('''
import portakern as pk

print("once")

@pk.operator
def double(x: pk.Tensor["M", "N"]):
    return x + x

(row,) = pk.check(double, "cpp:cpu", dtype="f32", M=3, N=5).rows
print(row.evidence, row.error)
''')
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["once", "executed None"], done.stderr
