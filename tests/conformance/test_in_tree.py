"""Every backend of this repository passes the suite that a stranger's has to pass."""

from __future__ import annotations

import pytest

from portakern.registry import registry
from portakern.testing.conformance import BY_SHARES, Check, conformance

CHECKS = [check for backend in registry().backends for check in conformance(backend, share=9)]
WHOLE = [check for backend in registry().backends for check in conformance(backend) if check.name in {*BY_SHARES, "machine"}]
QUICK = {"emits the same again": ("cpp",), "runs correctly": ("cpp", "opencl", "triton")}
"""What emits or runs the library in processes of its own is tried by default on some languages; the
check of AMD's machine runs HIP."""


def test_every_backend_is_found():
    assert not registry().broken
    assert {b.name for b in registry().backends} >= {"cpu", "cuda", "rocm", "triton", "tpu", "sycl"}


def slow(check: Check) -> list[pytest.MarkDecorator]:
    language, _, what = str(check).partition("-")
    return [pytest.mark.slow] * (language not in QUICK.get(what, language))


def test_what_is_slow_is_told_by_its_name():
    assert 0 < sum(bool(slow(c)) for c in CHECKS) < len(CHECKS) / 5


@pytest.mark.parametrize("check", [pytest.param(c, id=str(c), marks=slow(c)) for c in CHECKS])
def test_conformance(check: Check):
    check.run()


@pytest.mark.slow
@pytest.mark.parametrize("check", WHOLE, ids=str)
def test_conformance_on_every_sample(check: Check):
    check.run()
