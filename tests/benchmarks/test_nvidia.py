"""benchmarks/nvidia.py without a GPU: the whole way of a case on the host, its verdicts on made-up rows, and its plot."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "nvidia.py"


@pytest.fixture(scope="module")
def bars() -> Any:
    """The file as a module; it changes where modules are looked for, which ends with this fixture."""
    import importlib.util

    before = list(sys.path)
    spec = importlib.util.spec_from_file_location("portakern_bars", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before
    del sys.modules[spec.name]


def test_a_dry_run(tmp_path: Path) -> None:
    command = [sys.executable, str(FILE), "--targets", "numba:cpu", "--tiny", "--only", "row_sum", "--against",
               "torch.eager", "--budget", "0.02", "--jobs", "1", "--out", str(tmp_path / "bars")]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result = json.loads((tmp_path / "bars.json").read_text())
    rows = [row for case in result["cases"] for row in case["rows"]]
    assert len(rows) == 1
    for row in rows:
        assert row["correct"] and row["parts"] >= 1 and not row["error"]
        assert row["us"] > 0 and row["peer"] == "torch.eager" and row["ratio"] > 0
    assert result["bandwidths"]["copy"] > 0
    ElementTree.parse(tmp_path / "bars.svg")


@pytest.mark.slow
def test_a_kernel_that_is_not_built_fails_its_row_only(tmp_path: Path) -> None:
    command = [sys.executable, str(FILE), "--targets", "numba:cpu,triton:h200", "--tiny", "--only", "row_sum", "--against", "",
               "--budget", "0.02", "--jobs", "1", "--out", str(tmp_path / "bars")]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ran.returncode == 1
    ours, other = json.loads((tmp_path / "bars.json").read_text())["cases"][0]["rows"]
    assert not ours["error"] and ours["us"] > 0
    assert other["error"] and other["met"] is False and "us" not in other


@pytest.mark.parametrize(("have", "met"), [
    ({"verdict": "SAME", "share": 0.96}, True), ({"verdict": "UNDECIDED", "share": 0.95}, True),
    ({"verdict": "SLOWER", "share": 0.99}, False), ({"verdict": "FASTER", "share": 0.94}, False),
    ({"verdict": "FASTER"}, False), ({"share": 0.99}, False),
])  # fmt: skip
def test_a_bar_is_met(bars: Any, have: dict[str, Any], met: bool) -> None:
    assert bars.bar_verdicts.judged(bars.Bar(not_slower=True, share=0.95), {"error": "", **have})[0] is met


def test_what_is_wrong_meets_nothing(bars: Any) -> None:
    assert bars.bar_verdicts.judged(bars.Bar(0.9), {"error": "incorrect", "ratio": 2.0})[0] is False
    assert bars.bar_verdicts.judged(bars.Bar(0.9), {"error": "", "ratio": 0.91}) == (True, "+1.1%")
    assert bars.bar_verdicts.judged(bars.Bar(), {"error": ""})[0] is None


RESULT: dict[str, Any] = {
    "targets": ["cuda:h200", "triton:h200"], "taken": "2026-01-02T03:04", "device": {"name": "A GPU", "version": "13.0"},
    "environment": {"commit": "0123456789abcdef", "libraries": {"torch": "2.11.0"}}, "bandwidths": {"copy": 4.25e12},
    "cases": [{"case": "add_relu", "rows": [
        {"target": "cuda:h200", "us": 90.84, "peer": "torch.compile", "peer_us": 90.8, "ratio": 1.0, "roof": "copy kernel",
         "share": 1.02, "met": True, "error": ""},
        {"target": "triton:h200", "us": 1234.5, "peer": "torch.compile", "peer_us": 90.8, "ratio": 0.5, "tflops": 3.0,
         "gbs": 3950.0, "met": False, "error": ""}]}],
}  # fmt: skip


@pytest.mark.slow
def test_a_run_goes_into_a_page_by_one_command(tmp_path: Path) -> None:
    run, page = tmp_path / "run.json", tmp_path / "page.md"
    run.write_text(json.dumps(RESULT))
    page.write_text("before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nafter\n")
    command = [sys.executable, str(FILE), "--table", str(run), "--into", str(page)]
    for _ in range(2):  # a second time changes nothing
        assert subprocess.run(command, timeout=60).returncode == 0
        text = page.read_text()
        assert text.startswith("before\n<!-- measured: begin -->\n| case |") and text.endswith(
            "\n<!-- measured: end -->\nafter\n"
        )
        assert "| case | PyTorch us | by | CUDA C++ us | × | reaches | Triton us | × | reaches |" in text
        assert "| add_relu | 90.8 | compile | 90.8 | 1.00 | 102% of copy | 1234 | 0.50 ▾ | 3.95 TB/s |" in text
        assert (
            "1 of 2 bars are met. A GPU, CUDA 13.0, torch 2.11.0, commit 0123456789, 2026-01-02" in text and "old" not in text
        )


def test_a_page_without_a_place_is_left_alone(tmp_path: Path) -> None:
    run, page = tmp_path / "run.json", tmp_path / "page.md"
    run.write_text(json.dumps(RESULT))
    page.write_text("nothing here\n")
    ran = subprocess.run([sys.executable, str(FILE), "--table", str(run), "--into", str(page)], capture_output=True, text=True,
                         timeout=60)  # fmt: skip
    assert ran.returncode == 2 and "measured: begin" in ran.stderr and page.read_text() == "nothing here\n"


def test_the_readme_has_a_place_for_the_table(bars: Any) -> None:
    readme = (FILE.parents[1] / "README.md").read_text()
    assert "| a table |" in bars.into(readme, "| a table |")
