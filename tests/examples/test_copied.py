"""Examples that people copy do what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(place: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300)


def test_arrays_of_every_library_go_in_and_out(tmp_path: Path) -> None:
    done = run(tmp_path, "arrays_in_and_out.py")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["numpy_arrays", "torch_on_the_host", "jax_on_the_host"]
    assert "numpy_arrays: numpy in, numpy out" in lines
    assert all(line in ("torch_on_the_host: torch in, torch out",) or "left out" in line for line in lines if "torch" in line)


def test_the_gate_lets_through_what_is_the_same_and_stops_what_uses_more(tmp_path: Path) -> None:
    baseline = tmp_path / "used.json"
    assert run(tmp_path, "gate.py", str(baseline)).returncode == 0
    used = json.loads(baseline.read_text())
    used["row_sum hip:gfx942"]["registers"] -= 1
    used["row_sum numba:cpu"]["spills"] = None
    baseline.write_text(json.dumps(used))
    done = run(tmp_path, "gate.py", str(baseline))
    assert done.returncode == 1 and done.stdout.startswith("row_sum hip:gfx942: registers"), done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.slow
def test_an_agent_gets_its_verdicts(tmp_path: Path) -> None:
    """tests/serve/test_mcp.py visits the same server."""
    pytest.importorskip("mcp")
    done = run(tmp_path, "mcp_client.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["the starting kernel: right", "a broken one: wrong"]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    """Without Jupyter; what it does is tested elsewhere, each by itself."""
    cells = json.loads((EXAMPLES / "study.ipynb").read_text())["cells"]
    script = tmp_path / "study.py"
    script.write_text("\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code"))
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "hip:gfx942 simulated True" in done.stdout and (tmp_path / "scaled_sum.html").exists()
