"""The suite that portakern gives to authors of backends."""

import pytest
from portakern_c import backend

from portakern.testing.conformance import conformance


@pytest.mark.parametrize("check", conformance(backend), ids=str)
def test_conformance(check):
    check.run()
