"""Finding operators by name and in files."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import portakern as pk
from portakern.errors import SpecError, UsageError
from portakern.spec.load import load_operator, operator_names

pytestmark = pytest.mark.quick

GOOD = """
import portakern as pk

@pk.operator
def twice(x: pk.Tensor["M"]):
    return x * 2

def plain(x):
    return x
"""


def test_the_library_is_found_by_file_name() -> None:
    assert operator_names() == (
        "add_relu", "attention", "attention_varlen", "avg_pool", "batch_norm", "conv2d", "conv2d_bias_relu",
        "conv_transpose2d", "cross_entropy", "cumsum", "depthwise_conv", "dropout", "embedding", "fft",
        "group_norm", "gru", "interpolate", "layer_norm", "linear_recurrence", "lstm", "matmul",
        "matmul_bias_gelu", "max_pool", "moe_grouped_matmul", "rms_norm", "rope", "row_sum", "scatter_add",
        "sddmm", "segment_sum", "silu_mul", "softmax", "sort", "spmm", "top_k", "transpose")  # fmt: skip
    assert all(load_operator(n).name == n for n in operator_names())


def test_an_operator_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    assert load_operator(f"{file}:twice").name == "twice"
    assert load_operator(str(file)).name == "twice"
    again = pickle.loads(pickle.dumps(load_operator(f"{file}:twice")))
    assert str(again.trace()) == str(load_operator(f"{file}:twice").trace())


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    import os

    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    load_operator(f"{file}:twice")
    file.write_text(GOOD.replace("twice", "thrice"))
    os.utime(file, ns=(1, 1))
    assert load_operator(str(file)).name == "thrice"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("sofmax", "unknown operator 'sofmax'", "did you mean softmax?"),
        ("qqqq", "unknown operator 'qqqq'", "operators are add_relu"),
        ("nowhere.py:f", "there is no file nowhere.py", "file.py:function"),
    ],
)
def test_unknown_names(name: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        pk.load_operator(name)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("twise", "has no function 'twise'"),
        ("plain", "plain in .* is not an operator"),
    ],
)
def test_wrong_functions(tmp_path: Path, function: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    with pytest.raises(UsageError, match=message):
        load_operator(f"{file}:{function}")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("x = (\n", "was never closed", 1),
        ("import math\nmath.nope\n", "no attribute 'nope'", 2),
        ("import portakern as pk\n@pk.operator\ndef f(x):\n    return x\n", "'x' has no annotation", 3),
    ],
)
def test_mistakes_in_the_file_are_at_their_line(tmp_path: Path, text: str, message: str, line: int) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(SpecError, match=message) as caught:
        load_operator(f"{file}:f")
    assert caught.value.where.endswith(f"broken.py:{line}")
