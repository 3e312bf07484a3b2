"""A backend from outside the repository: installed by pip, found through its entry point, and held to the same suite."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools")
TEMPLATE = Path(__file__).parents[2] / "examples" / "backend_template"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which the example is installed beside what is there."""
    folder = tmp_path_factory.mktemp("out_of_tree")
    source, site = folder / "source", folder / "site"
    shutil.copytree(TEMPLATE, source)  # building leaves files behind
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--disable-pip-version-check", "--target", str(site), str(source)],
        check=True, timeout=120,
    )  # fmt: skip
    return {**os.environ, "PYTHONPATH": str(site), "PORTAKERN_CACHE": str(folder / "cache")}


def run(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=400)


def test_its_target_is_listed_without_naming_it_anywhere(environment: dict[str, str]):
    done = run(environment, "-m", "portakern", "targets", "c:*")
    assert done.returncode == 0, done.stderr
    assert "c:cpu" in done.stdout


def test_it_builds_checks_and_reports_like_any_other(environment: dict[str, str]):
    done = run(environment, "-m", "portakern", "check", "rms_norm", "--targets", "c:cpu,numba:cpu", "--shape", "M=5,N=70",
               "--dtype", "f32,f16", "--json")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)["rows"]
    mine = {r["dtype"]: r for r in rows if r["target"] == "c:cpu"}
    assert mine["f32"]["evidence"] == "executed" and mine["f32"]["correct"]
    assert mine["f16"]["error"]["kind"] == "unsupported-dtype" and "bf16" in mine["f16"]["error"]["hint"]


@pytest.mark.skipif(not shutil.which("cc") and not shutil.which("gcc"), reason="needs a C compiler")
@pytest.mark.slow
def test_it_passes_the_conformance_suite(environment: dict[str, str]):
    done = run(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TEMPLATE / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
