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
    command = [sys.executable, str(FILE), "--targets", "numba:cpu", "--tiny", "--only", "row_sum,1x8192", "--against",
               "torch.eager", "--budget", "0.02", "--jobs", "1", "--out", str(tmp_path / "bars")]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result = json.loads((tmp_path / "bars.json").read_text())
    rows = [row for case in result["cases"] for row in case["rows"]]
    assert len(rows) == 2
    for row in rows:
        assert row["correct"] and row["parts"] >= 1 and not row["error"]
        assert row["us"] > 0 and row["peer"] == "torch.eager" and row["ratio"] > 0
    assert result["bandwidths"]["copy"] > 0
    ElementTree.parse(tmp_path / "bars.svg")


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
    assert bars.judged(bars.Bar(not_slower=True, share=0.95), {"error": "", **have})[0] is met


def test_what_is_wrong_meets_nothing(bars: Any) -> None:
    assert bars.judged(bars.Bar(0.9), {"error": "incorrect", "ratio": 2.0})[0] is False
    assert bars.judged(bars.Bar(0.9), {"error": "", "ratio": 0.91}) == (True, "+1.1%")
    assert bars.judged(bars.Bar(), {"error": ""})[0] is None
