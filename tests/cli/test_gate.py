"""``results --gate``: cases measured again or imported, from files, names and dates, and what the exit status says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portakern.cli import main
from portakern.study.row_schema import schema

OPERATOR = '''
import portakern as pk

@pk.operator
def twice(x: pk.Tensor["N"]):
    return x {sign} x
'''


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command with a store of the test's; gives (status, what was printed, what was said beside it)."""
    def call(*words: str) -> tuple[int, str, str]:
        status = main([*words, "--store", str(tmp_path / "mine.sqlite")])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of one case and the store that has kept it."""
    folder = tmp_path_factory.mktemp("once")
    words = ["bench", "row_sum", "-t", "numba:cpu", "--dtype", "f32", "--shape", "M=16,N=64", "--budget", "0.1s"]
    assert main([*words, "--json", str(folder / "before.json"), "--store", str(folder / "mine.sqlite")]) == 0
    return folder


@pytest.fixture
def before(tmp_path: Path, once: Path) -> Path:
    """A run of one case, which the test's store has."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "before.json"


def changed(file: Path, change: Callable[[dict[str, Any]], None], name: str = "changed.json") -> Path:
    data = json.loads(file.read_text())
    for row in data["rows"]:
        change(row)
    other = file.with_name(name)
    other.write_text(json.dumps(data))
    return other


def times(factor: float) -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        row["time"] |= {k: row["time"][k] * factor for k in ("median_us", "ci_low_us", "ci_high_us")}

    return change


def quiet(row: dict[str, Any]) -> None:
    """As measured where nothing else runs."""
    row["time"] |= {"ci_low_us": row["time"]["median_us"] * 0.99, "ci_high_us": row["time"]["median_us"] * 1.01}


def test_cases_are_measured_again(run: Callable, before: Path, tmp_path: Path):
    """A baseline that was far faster fails, one that was far slower passes, and the rows are kept."""
    status, out, _ = run("results", "--gate", str(changed(before, times(0.01))), "--budget", "0.1s")
    assert status == 1 and "REGRESSED" in out and "M=16,N=64" in out
    words = ("--budget", "0.1s", "--json", str(tmp_path / "g"))
    status, out, _ = run("results", "--gate", str(changed(before, times(100))), *words)
    found = json.loads((tmp_path / "g").read_text())
    assert status == 0 and "improved" in out and found["gate"]["passes"] and found["gate"]["counts"] == {"improved": 1}
    assert "budget 0.1" not in out and len(found["rows"]) == 1
    pytest.importorskip("jsonschema").validate(found, schema())
    assert len(json.loads(run("results", "--json")[1])["rows"]) == 4, "one before, two that seemed slower, one that was not"


def test_rows_from_elsewhere_are_held_against_it(run: Callable, before: Path):
    before = changed(before, quiet, "quiet.json")
    assert run("results", "--gate", str(before), "--against", str(before))[0] == 0
    slower = changed(before, times(3))
    status, out, _ = run("results", "--gate", str(before), "--against", str(slower))
    assert status == 1 and "3.000 [" in out
    assert run("results", "--gate", str(before), "--against", str(slower), "--margin", "95%")[0] == 1

    def other(row: dict[str, Any]) -> None:
        row["environment"]["machine_id"] = "another"

    status, out, _ = run("results", "--gate", str(before), "--against", str(changed(before, other)))
    assert status == 0 and "WARNING" in out and "-> another (1 of 1 cases)" in out


def test_what_was_right_and_is_wrong_now_fails(run: Callable, before: Path):
    def wrong(row: dict[str, Any]) -> None:
        row |= {"correct": False, "time": None, "error": {"kind": "incorrect", "message": "out[3] is 7", "hint": ""}}

    status, out, _ = run("results", "--gate", str(before), "--against", str(changed(before, wrong)))
    assert status == 1 and "NOW WRONG" in out and "out[3] is 7" in out


def test_a_baseline_is_a_store_a_name_or_a_date(run: Callable, before: Path, tmp_path: Path):
    elsewhere = ("--against", str(before))
    store = str(tmp_path / "mine.sqlite")
    assert run("results", "--gate", store, *elsewhere)[0] == 0
    assert run("results", "--last", "1", "--name", "main")[0] == 0
    assert run("results", "--gate", "main", *elsewhere)[0] == 0
    taken = json.loads(before.read_text())["rows"][0]["time"]["provenance"]["taken"]
    assert run("results", "--gate", taken[:10], *elsewhere)[0] == 0
    assert run("results", "--gate", "2001-01-01", *elsewhere)[0] == 2
    status, _, err = run("results", "--gate", "mian", *elsewhere)
    assert status == 2 and "did you mean main?" in err


def test_where_nothing_fits_nothing_is_passed(run: Callable, before: Path):
    status, _, err = run("results", "--gate", str(before), "--dtype", "f64")
    assert status == 2 and "fits" in err
    status, _, err = run("results", "--against", str(before))
    assert status == 2 and "--gate" in err

    def gone(row: dict[str, Any]) -> None:
        row["operator"] = "gone"

    status, out, _ = run("results", "--gate", str(changed(before, gone)), "--no-store")
    assert status == 1 and "missing" in out and "--operator FILE.py:gone" in out


def test_operators_of_files_and_rows_that_were_only_checked(run: Callable, tmp_path: Path):
    source, file = tmp_path / "mine.py", tmp_path / "checked.json"
    source.write_text(OPERATOR.format(sign="+"))
    words = ["check", f"{source}:twice", "-t", "numba:cpu", "--shape", "N=8", "--dtype", "f32", "--json", str(file)]
    assert main(words) == 0
    status, out, _ = run("results", "--gate", str(file), "--operator", f"{source}:twice")
    assert status == 0 and "1 same" in out and "before us" in out
