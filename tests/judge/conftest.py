from __future__ import annotations

from collections.abc import Iterator

import pytest

from portakern.referee.process import KernelProcess, lacks
from tests.judge.judges import Judges


@pytest.fixture(scope="session")
def whole_jail() -> None:
    """Some attacks would harm a machine that cannot make a whole jail."""
    with KernelProcess() as process:
        if lacking := lacks(process.parts or ()):
            pytest.skip(f"needs every part of the jail (portakern doctor lists them), and this machine lacks {lacking}")


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    with Judges(tmp_path_factory.mktemp("judges")) as found:
        yield found
