"""The commands on the CPU target that is always there: output, JSON, exit status."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

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
        "add_relu", "attention", "attention_varlen", "avg_pool", "batch_norm", "conv2d", "conv2d_bias_relu",
        "conv_transpose2d", "cross_entropy", "cumsum", "depthwise_conv", "dropout", "embedding", "fft",
        "group_norm", "gru", "interpolate", "layer_norm", "linear_recurrence", "lstm", "matmul",
        "matmul_bias_gelu", "max_pool", "moe_grouped_matmul", "rms_norm", "rope", "row_sum", "scatter_add",
        "sddmm", "segment_sum", "silu_mul", "softmax", "sort", "spmm", "top_k", "transpose"]  # fmt: skip


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
    assert "<table" in page.read_text() and "http" not in page.read_text()


def test_a_row_has_every_key_of_the_design(capsys: pytest.CaptureFixture[str]):
    data = json.loads(run(capsys, "build", "row_sum", "-t", "numba:cpu", "--json", *SMALL)[1])
    assert set(data) == {"portakern", "schema", "environment", "rows"}
    # More keys may stand between these, which scripts know.
    known = [
        "operator", "target", "device", "shape", "dtype", "params", "schedule", "evidence", "method", "correct",
        "max_error_ratio", "error", "source_hash", "binary_hash", "resources", "estimate", "time", "environment",
        "secret"]  # fmt: skip
    assert [key for key in data["rows"][0] if key in known] == known


def test_a_dtype_refused_by_rule_is_no_failure(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "build", "softmax", "-t", "pallas:v5e", "--shape", "M=4,N=6", "--dtype", "f16")
    assert status == 0 and "refused" in out and "use bf16" in out


def test_a_target_without_its_silicon_is_not_timed(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "bench", "row_sum", "-t", "hip:gfx942", *SMALL)
    assert status == 1 and "0 of 1 rows timed" in out and "not-timed" in out


def test_open_dims_are_shown_as_such(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "check", "softmax", "-t", "numba:cpu", "--shape", "M=?,N=33", "--dtype", "f32")
    assert status == 0 and "M=?,N=33" in out


STORED = ["--budget", "0.1s", *SMALL]
PEERS = """def total(x):
    return x.sum(-1)

def mean(x):
    return x.mean(-1)

def fails(x):
    raise ValueError('never')
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with a row of numba and one of C++, timed against peers that are right, wrong and failing, and what was printed
    meanwhile; the file of rows lies beside it."""
    folder = tmp_path_factory.mktemp("store")
    file = folder / "r.sqlite"
    (folder / "mine.py").write_text(PEERS)
    peers = ",".join(["numpy", *(f"mine.py:{name}" for name in ("total", "mean", "fails"))])
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        words = ["bench", "row_sum", "-t", "numba:cpu,cpp:cpu", "--against", peers, "--store", str(file), *STORED]
        assert main([*words, "--json", str(folder / "rows.json")]) == 0
    return file, printed.getvalue()


@pytest.fixture(scope="module")
def benched(store: tuple[Path, str]) -> dict[str, Any]:
    row = json.loads(store[0].with_name("rows.json").read_text())["rows"][0]
    assert row["evidence"] == "timed" and "samples_us" not in row["time"]
    return row


def test_bench_against_numpy(benched: dict[str, Any]):
    time = benched["time"]
    assert time["ci_low_us"] <= time["median_us"] <= time["ci_high_us"]
    peer = time["peers"][0]
    assert peer["name"] == "numpy" and peer["verdict"] in ("FASTER", "SLOWER", "SAME", "UNDECIDED")


def test_bench_against_a_function_in_a_file(benched: dict[str, Any]):
    (peer,) = [p for p in benched["time"]["peers"] if p["name"].endswith("mine.py:total")]
    assert peer["ratio"] > 0


def test_a_peer_that_computes_something_else_is_not_timed(benched: dict[str, Any]):
    found = {p["name"].rpartition(":")[2]: p for p in benched["time"]["peers"]}
    mean, fails = found["mean"], found["fails"]
    assert "computes something else" in mean["error"] and "ratio" not in mean and "never" in fails["error"]


def test_bench_keeps_results_and_results_shows_them(capsys: pytest.CaptureFixture[str], store: tuple[Path, str]):
    file, out = store
    assert "portakern" in out and "numpy" in out and "median us" in out and "roofline" in out
    assert max(map(len, out.splitlines())) <= 80
    kept = ["--store", str(file)]
    status, out, _ = run(capsys, "results", *kept)
    assert status == 0 and out.count("row_sum") == 2 and "timed" in out
    assert run(capsys, "results", *kept, "--target", "cpp:*")[1].count("row_sum") == 1
    assert run(capsys, "results", *kept, "--operator", "softmax")[1].startswith("no results")
    (row,) = json.loads(run(capsys, "results", *kept, "--last", "1", "--json")[1])["rows"]
    assert "samples_us" not in row["time"] and row["time"]["provenance"]["device"] and row["environment"]["machine_id"]


def test_results_are_exported_imported_and_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, store: tuple[Path, str]
):
    second, out_file = tmp_path / "b.sqlite", tmp_path / "a.json"
    assert run(capsys, "results", "--store", str(store[0]), "--target", "numba:cpu", "--export", str(out_file))[0] == 0
    assert json.loads(out_file.read_text())["rows"][0]["time"]["samples_us"]
    status, _, err = run(capsys, "results", "--store", str(second), "--import", str(out_file), str(store[0]), str(out_file))
    assert status == 0 and err.count("1 of 1 rows are new") == 1 and "1 of 2 rows are new" in err
    assert err.count("0 of 1 rows are new") == 1
    assert run(capsys, "results", "--store", str(second), "--export", str(tmp_path / "b.csv"))[0] == 0
    assert "row_sum,numba:cpu" in (tmp_path / "b.csv").read_text()
    # Rows that contradict each other are all shown, each with its file and machine.
    data = json.loads(out_file.read_text())
    data["rows"][0]["time"]["median_us"] *= 2
    data["rows"][0]["environment"]["machine_id"] = "another"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(data))
    status, out, _ = run(capsys, "compare", "row_sum", "--from", str(second), str(other))
    assert status == 0 and "b.sqlite (" in out and "other.json (another)" in out


def test_a_store_that_cannot_be_written_costs_no_timing(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "r.sqlite"
    file.write_text("not a database at all" * 99)
    status, out, err = run(capsys, "bench", "row_sum", "-t", "numba:cpu", "--store", str(file), *STORED)
    assert status == 0 and "1 of 1 rows timed" in out
    assert "warning: the results are not kept" in err and "hint: move it away" in err


def test_samples_are_in_the_json_when_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Where they are not asked for they are not: see what ``benched`` has.  And without a store none is made."""
    file = tmp_path / "r.sqlite"
    words = ["bench", "row_sum", "-t", "numba:cpu", "--no-store", "--store", str(file), "--json", "--samples"]
    out = run(capsys, *words, *STORED)[1]
    assert not file.exists()
    time = json.loads(out)["rows"][0]["time"]
    assert len(time["samples_us"]) == time["samples"] >= 5
    assert time["options"]["budget_s"] == 0.1 and time["calls_per_sample"] >= 1


def test_a_peer_that_ends_the_process_does_not_cost_our_time(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "mine.py").write_text("import os\n\ndef dies(x):\n    os.abort()\n")
    out = run(capsys, "bench", "row_sum", "-t", "numba:cpu", "--against", f"{tmp_path}/mine.py:dies", "--no-store", "--json",
              *STORED)[1]  # fmt: skip
    (row,) = json.loads(out)["rows"]
    assert row["evidence"] == "timed" and row["time"]["median_us"] > 0
    assert "SIGABRT" in row["time"]["peers"][0]["error"] and "without peers" in row["time"]["peers"][0]["error"]


def test_inputs_that_speak_of_dims_fit_the_sizes_asked_for(capsys: pytest.CaptureFixture[str]):
    """Labels are below N, and not below the N of the typical case."""
    out = run(capsys, "bench", "cross_entropy", "-t", "numba:cpu", "--shape", "M=8,N=16", "--dtype", "f32", "--against",
              "torch.eager", "--budget", "0.1s", "--no-store", "--json")[1]  # fmt: skip
    (peer,) = json.loads(out)["rows"][0]["time"]["peers"]
    assert peer.get("ratio"), peer


def test_evaluate_takes_back_what_was_emitted(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "kernel.py"
    main(["emit", "row_sum", "-t", "numba:cpu", "-o", str(file), *SMALL])
    assert run(capsys, "evaluate", "row_sum", "-t", "numba:cpu", "--source", str(file), *STORED)[0] == 0
    file.write_text(file.read_text().replace("+", "-"))
    status, out, _ = run(capsys, "evaluate", "row_sum", "-t", "numba:cpu", "--source", str(file), *STORED)
    assert status == 1 and "WRONG" in out
