"""Every backend of this repository passes the suite that a stranger's has to pass."""

from __future__ import annotations

import pytest

from portakern.registry import registry
from portakern.testing.conformance import Check, conformance

CHECKS = [check for backend in registry().backends for check in conformance(backend)]


def test_every_backend_is_found():
    assert not registry().broken
    assert {b.name for b in registry().backends} >= {"cpu", "cuda", "rocm", "triton", "tpu", "sycl"}


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_conformance(check: Check):
    check.run()
