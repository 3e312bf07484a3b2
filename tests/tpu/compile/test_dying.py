"""Workers that die by a signal: once is forgiven and said, twice is a row that names the signal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study.row import Row
from portakern.study.study import Runner
from portakern.study.work import Foreign, Problem, works
from tests.tpu.bugs import SIZES, correct

pytest.importorskip("jax")
pytest.importorskip("libtpu")

DYING = """
import os, signal
tries = {path!r}
with open(tries, "a") as file:
    file.write("x")
if os.path.getsize(tries) <= {times}:
    os.kill(os.getpid(), signal.{how})
"""


def deadly(tries: Path, times: int, how: str, text: str) -> str:
    """``text`` whose first ``times`` loads take the process down; they are counted outside of it, which no jail allows."""
    return DYING.format(path=str(tries), times=times, how=how) + text


def row_of(text: str) -> Row:
    (asked,) = works(Problem(load_operator("add_relu"), SIZES["add_relu"], {}), [registry().target("pallas:v5e")], ["f32"])
    (row,) = Runner("checked", 1).run([replace(asked, foreign=Foreign(text, None, jail="off"))]).rows
    return row


def test_what_dies_once_is_tried_again_and_the_row_says_so(tmp_path: Path) -> None:
    row = row_of(deadly(tmp_path / "tries", 1, "SIGSEGV", correct("add_relu")))
    assert row.correct and row.error is None, row.error
    assert "compiling add_relu for pallas:v5e ended its process by SIGSEGV at first" in str(row.method)


def test_what_dies_twice_is_a_row_that_names_the_signal(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    row = row_of(deadly(tries, 2, "SIGABRT", correct("add_relu")))
    assert tries.stat().st_size == 2
    assert row.error is not None and row.error["kind"] == "crash"
    assert "compiling add_relu for pallas:v5e ended its process by SIGABRT" in row.error["message"]
