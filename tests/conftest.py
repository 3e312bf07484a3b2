"""Fixtures that all tests share."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

# Tests start hundreds of processes, which must not compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# Kernels in tests have the backends' default schedules, whatever was tuned on this machine or is shipped.
os.environ["PORTAKERN_TUNED"] = "off"


# Tests, and the commands they start, keep no results among the user's.
os.environ["PORTAKERN_RESULTS"] = str(Path(tempfile.mkdtemp(prefix="portakern-tests-")) / "results.sqlite")


QUICK_TIER = "quick and not slow and not gpu"


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "quick":
        config.option.markexpr = QUICK_TIER


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file without a quick test is not imported for the quick tier: importing them all takes a fifth of its time."""
    if config.option.markexpr != QUICK_TIER or not collection_path.name.startswith("test_"):
        return None
    return "mark.quick" not in collection_path.read_text() or None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)``: ``text`` must be that of the file ``golden/name`` beside the test."""
    folder = Path(request.path).parent / "golden"

    def check(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text)
            return
        assert path.is_file(), f"there is no golden file {path.name}: run the test with --update-golden and read the file"
        assert text == path.read_text(), f"{path.name} has changed: run the test with --update-golden and read the difference"

    return check
