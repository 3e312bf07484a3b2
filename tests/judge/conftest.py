from __future__ import annotations

import pytest

from portakern.referee.process import KernelProcess, lacks


@pytest.fixture(scope="session")
def whole_jail() -> None:
    """Some attacks would harm a machine that cannot make a whole jail."""
    with KernelProcess() as process:
        if lacking := lacks(process.parts or ()):
            pytest.skip(f"needs every part of the jail (portakern doctor lists them), and this machine lacks {lacking}")
