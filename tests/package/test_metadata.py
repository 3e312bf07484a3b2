"""pyproject.toml, the folders and what is installed agree."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import portakern

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BACKENDS = sorted(path.parent.name for path in (ROOT / "backends").glob("*/__init__.py"))

COMPILED = re.compile(r"/driver/|/native/|/CMakeLists.txt$|^csrc")
"""Native code: of it modules are installed, and no sources."""


def test_versions_agree():
    assert portakern.__version__ == importlib.metadata.version("portakern")
    assert re.match(r"\d+\.\d+", portakern.__version__)


def test_every_backend_folder_is_installed_and_found():
    assert BACKENDS
    entries = PYPROJECT["project"]["entry-points"]["portakern.backends"]
    assert entries == {name: f"portakern.backends.{name}:backend" for name in entries}
    assert sorted(entries) == BACKENDS
    installed = importlib.metadata.entry_points(group="portakern.backends")
    assert set(BACKENDS) <= {entry.name for entry in installed}
    assert (ROOT / "portakern" / "backends").resolve() == ROOT / "backends"  # how they are packaged, and found in a checkout


def test_all_brings_every_extra_that_users_have():
    extras = PYPROJECT["project"]["optional-dependencies"]
    named = extras["all"][0].removeprefix("portakern[").removesuffix("]").split(",")
    assert sorted(named) == sorted(set(extras) - {"all", "dev", "docs"})


@pytest.mark.slow
def test_the_wheel_holds_code_and_data_and_no_native_sources(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("portakern-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in [("portakern", "portakern"), ("backends", "portakern/backends")]:
        tracked = subprocess.run(["git", "ls-files", folder], cwd=ROOT, check=True, capture_output=True, text=True)
        files = {name for name in tracked.stdout.split() if (ROOT / name).is_file() and not COMPILED.search(name)}
        assert {name.replace(folder, package, 1) for name in files} <= names
    assert any(name.startswith("portakern/_native.") and name.endswith((".so", ".pyd")) for name in names)
    assert "portakern/include/portakern/driver.h" in names
    assert not [name for name in names if COMPILED.search(name)]
