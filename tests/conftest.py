"""Fixtures that all tests share."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.thinned import thin, unguarded

if TYPE_CHECKING:
    from portakern.study.slots import Slots

# Tests start hundreds of processes, which must not compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# Beside other workers, and beside the processes that tests start, a product of two threads waits for the slower one.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# Kernels in tests have the backends' default schedules, whatever was tuned on this machine or is shipped.
os.environ["PORTAKERN_TUNED"] = "off"


# Tests, and the commands they start, keep no results among the user's.
os.environ["PORTAKERN_RESULTS"] = str(Path(tempfile.mkdtemp(prefix="portakern-tests-")) / "results.sqlite")


UNGUARDED = pytest.StashKey[list[str]]()


QUICK_TIER = "quick and not slow and not gpu"


@pytest.hookimpl(tryfirst=True)  # before xdist takes its own default
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Workers begin with a run of neighbouring tests each, and take over others' when theirs are done.  By default xdist deals
    tests out one by one: then nearly every file's fixtures and kept workers are made by all of its workers."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "quick":
        config.option.markexpr = QUICK_TIER


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file without a quick test is not imported for the quick tier: importing them all takes a fifth of its time."""
    if config.option.markexpr != QUICK_TIER or not collection_path.name.startswith("test_"):
        return None
    return "mark.quick" not in collection_path.read_text() or None


@pytest.hookimpl(tryfirst=True)  # before markers are looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    thin(items)
    config.stash[UNGUARDED] = [] if any("::" in arg for arg in config.args) else unguarded(items)


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


KEPT_IN = ("check/", "cpu/", "cuda/", "emit/", "examples/", "gradients/", "lower/", "model_study/", "operators/", "rocm/",
           "spec/", "sycl/", "tpu/", "triton/", "cli/test_commands.py", "cli/test_gate.py", "cli/test_resume.py",
           "study/test_api.py", "study/test_row_schema.py", "study/test_traps.py")  # fmt: skip
"""Where tests build and check kernels one by one: starting a worker for each takes longer than most kernels do."""


class KeptWorkers:
    """Takes the place of :class:`Slots` for studies: one slot per limit of memory, whose workers stay for the next study."""

    def __init__(self) -> None:
        self._slots: dict[int | None, Slots] = {}

    @contextmanager
    def __call__(self, count: int = 2, memory_bytes: int | None = None) -> Iterator[Slots]:
        from portakern.study.slots import Slots

        slots = self._slots.setdefault(memory_bytes, Slots(1, memory_bytes))
        try:
            yield slots
        except BaseException:  # what was under way would be the next study's
            self._slots.pop(memory_bytes).close()
            raise

    def close(self) -> None:
        while self._slots:
            with self._slots.popitem()[1]:
                pass


@pytest.fixture(scope="module")
def kept_workers() -> Iterator[KeptWorkers]:
    kept = KeptWorkers()
    yield kept
    kept.close()


@pytest.fixture(autouse=True)
def workers_stay(request: pytest.FixtureRequest) -> Iterator[None]:
    """Studies of tests of one file share workers, as rows of one study do; not where a test changes the environment."""
    place = request.path.relative_to(Path(__file__).parent).as_posix()
    if not place.startswith(KEPT_IN) or "monkeypatch" in request.fixturenames:
        yield
        return
    user = "portakern.model_study.making" if place.startswith("model_study/") else "portakern.study.study"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{user}.Slots", request.getfixturevalue("kept_workers"))
        yield
