"""Sweeps over sizes on the command line: a row for each point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from portakern.cli import main
from portakern.errors import UsageError
from portakern.study.axes import points

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("text", "sizes"), [
    ("8", "8"), ("8|16", "8 16"), ("8:64:*2", "8 16 32 64"), ("8:60:*2", "8 16 32"), ("8:20:+4", "8 12 16 20"),
    ("1|8:32:*4|8", "1 8 32"), ("0:2:+1", "0 1 2"), ("?", "?"), ("2x3|4", "2x3 4"), ("7:7:*2", "7")])  # fmt: skip
def test_an_axis(text: str, sizes: str):
    assert [p["M"] for p in points({"M": text})] == sizes.split()


def test_the_last_axis_varies_fastest():
    assert points({"M": "1|2", "N": "3|4"}) == [{"M": a, "N": b} for a in "12" for b in "34"]
    assert points({}) == [{}]


@pytest.mark.parametrize("text", ["8:64", "8:64:2", "64:8:*2", "8:64:*1", "0:64:*2", "8:64:+0", "8:64:-8", "8:64:*2:3",
                                  "a:b:*2"])  # fmt: skip
def test_what_is_no_axis(text: str):
    with pytest.raises(UsageError, match=r"M=.*:"):
        points({"M": text})


def test_more_points_than_anybody_wants():
    with pytest.raises(UsageError, match="points"):
        points({"M": "1:1000:+1", "N": "1:1000:+1"})
    assert len(points({"M": "1:100:+1", "N": "1:100:+1"})) == 10_000


def test_several_operators_over_a_sweep(capsys: pytest.CaptureFixture[str]):
    """A dim belongs to the operators that have it."""
    status = main(["compare", "row_sum,matmul", "-t", "pallas:v5e", "--dtype", "f16", "--shape", "M=4|8,N=16,K=32", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert status == 0 and all(r["error"]["kind"] == "unsupported-dtype" for r in rows)
    assert [(r["operator"], r["shape"].get("M")) for r in rows][:2] == [("row_sum", 4), ("row_sum", 8)]
    assert [r["shape"] for r in rows][2:] == [{"M": 4, "N": 16, "K": 32}, {"M": 8, "N": 16, "K": 32}]
    assert {r["operator"] for r in rows} == {"row_sum", "matmul"}


def test_texts_of_a_sweep_have_files_of_their_own(tmp_path: Path):
    asked = ["-t", "pallas:v5e", "--dtype", "f32", "--shape", "M=4|8,N=16"]
    assert main(["emit", "row_sum", *asked, "-o", f"{tmp_path}/out"]) == 0
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["row_sum-pallas-v5e-M4-N16-f32.py", "row_sum-pallas-v5e-M8-N16-f32.py"]
