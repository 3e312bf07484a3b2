"""The commands on the CPU target that is always there: output, JSON, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from portakern.cli import main

SMALL = ["--shape", "M=4,N=6", "--dtype", "f32"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    out = capsys.readouterr()
    return status, out.out, out.err


def test_ops_lists_the_library(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "ops")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()][1:] == [
        "add_relu", "attention", "cross_entropy", "cumsum", "layer_norm", "matmul", "matmul_bias_gelu", "rms_norm", "row_sum",
        "silu_mul", "softmax", "transpose"]  # fmt: skip


def test_ops_shows_one_with_its_cases(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "ops", "softmax")
    assert status == 0 and "typical" in out and "pk.softmax" in out


def test_targets_take_patterns_and_products(capsys: pytest.CaptureFixture[str]):
    assert "hip:gfx942" in run(capsys, "targets", "*:gfx942")[1]
    status, out, _ = run(capsys, "targets", "hip:mi300x", "--json")
    (target,) = json.loads(out)["targets"]
    assert status == 0 and target["product"] == "mi300x"
    assert all(figure["source"] for figure in target["figures"].values())


@pytest.mark.parametrize("level", ["tensor", "tile", "plan"])
def test_emit_prints_each_level(capsys: pytest.CaptureFixture[str], level: str):
    status, out, _ = run(capsys, "emit", "softmax", "--targets", "hip:gfx942", "--ir", level)
    assert status == 0 and "softmax" in out


def test_emit_standalone_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "softmax.hip"
    status, out, _ = run(capsys, "emit", "softmax", "--targets", "hip:gfx942", "--standalone", "-o", str(file), *SMALL)
    assert status == 0 and out == ""
    assert "#include \"pk/" not in file.read_text()


def test_emit_of_several_goes_to_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    status, _, _ = run(capsys, "emit", "softmax", "-t", "hip:gfx942,triton:sm_90", "-o", str(tmp_path / "out"), *SMALL)
    assert status == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["softmax-hip-gfx942-f32.hip", "softmax-triton-sm_90-f32.py"]


def test_build_check_and_compare_agree_on_the_row(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    status, out, _ = run(capsys, "build", "softmax", "-t", "numba:cpu", "--json", *SMALL)
    (built,) = json.loads(out)["rows"]
    assert status == 0 and built["evidence"] == "compiled" and built["correct"] is None

    file = tmp_path / "rows.json"
    status, out, _ = run(capsys, "check", "softmax", "-t", "numba:cpu", "--json", str(file), *SMALL)
    (checked,) = json.loads(file.read_text())["rows"]
    assert status == 0 and "1 of 1 rows checked" in out
    assert checked["evidence"] == "executed" and checked["correct"] and 0 <= checked["max_error_ratio"] <= 1
    assert (checked["source_hash"], checked["binary_hash"]) == (built["source_hash"], built["binary_hash"])

    page = tmp_path / "page.html"
    status, out, _ = run(capsys, "compare", "softmax", "--from", str(file), "--html", str(page))
    assert status == 0 and "executed" in out
    assert "<table>" in page.read_text() and "http" not in page.read_text()


def test_a_row_has_every_key_of_the_design(capsys: pytest.CaptureFixture[str]):
    data = json.loads(run(capsys, "build", "row_sum", "-t", "numba:cpu", "--json", *SMALL)[1])
    assert set(data) == {"portakern", "environment", "rows"}
    assert list(data["rows"][0]) == [
        "operator", "target", "device", "shape", "dtype", "params", "schedule", "evidence", "method", "correct",
        "max_error_ratio", "error", "source_hash", "binary_hash", "resources", "estimate", "time", "environment"]  # fmt: skip


def test_a_dtype_refused_by_rule_is_no_failure(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "build", "softmax", "-t", "pallas:v5e", "--shape", "M=4,N=6", "--dtype", "f16")
    assert status == 0 and "refused" in out and "use bf16" in out


def test_a_target_without_its_silicon_is_not_timed(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "bench", "row_sum", "-t", "hip:gfx942", *SMALL)
    assert status == 1 and "0 of 1 rows timed" in out and "not-timed" in out


def test_open_dims_are_shown_as_such(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "check", "softmax", "-t", "numba:cpu", "--shape", "M=?,N=33", "--dtype", "f32")
    assert status == 0 and "M=?,N=33" in out


def test_bench_against_numpy(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "bench", "row_sum", "-t", "numba:cpu", "--against", "numpy", "--budget", "0.2s", "--json",
                         *SMALL)  # fmt: skip
    (row,) = json.loads(out)["rows"]
    assert status == 0 and row["evidence"] == "timed"
    assert row["time"]["ci_low_us"] <= row["time"]["median_us"] <= row["time"]["ci_high_us"]
    (peer,) = row["time"]["peers"]
    assert peer["name"] == "numpy" and peer["verdict"] in ("FASTER", "SLOWER", "SAME", "UNDECIDED")


def test_bench_against_a_function_in_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "mine.py").write_text("def total(x):\n    return x.sum(-1)\n")
    status, out, _ = run(capsys, "bench", "row_sum", "-t", "numba:cpu", "--against", f"{tmp_path}/mine.py:total", "--budget",
                         "0.2s", "--json", *SMALL)  # fmt: skip
    assert status == 0 and json.loads(out)["rows"][0]["time"]["peers"][0]["ratio"] > 0


def test_evaluate_takes_back_what_was_emitted(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "kernel.py"
    main(["emit", "row_sum", "-t", "numba:cpu", "-o", str(file), *SMALL])
    assert run(capsys, "evaluate", "row_sum", "-t", "numba:cpu", "--source", str(file), *SMALL)[0] == 0
    file.write_text(file.read_text().replace("+", "-"))
    status, out, _ = run(capsys, "evaluate", "row_sum", "-t", "numba:cpu", "--source", str(file), *SMALL)
    assert status == 1 and "WRONG" in out
