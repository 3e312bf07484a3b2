"""The targets of this backend, and which of their tools are here."""

from __future__ import annotations

import shutil

import pytest

from portakern.backend import Language, Target
from portakern.registry import registry


def target(name: str) -> Target:
    return registry().target(name)


def language(name: str) -> Language:
    return registry().languages[name]


def usable(name: str) -> bool:
    of = language(name.split(":")[0])
    return of.toolchain is not None and bool(of.toolchain.available(target(name)))


needs_opencl = pytest.mark.skipif(not usable("opencl:cpu"), reason="no OpenCL CPU device: pip install 'portakern[opencl]'")
needs_sycl = pytest.mark.skipif(not usable("sycl:cpu"), reason="no SYCL: pip install 'portakern[sycl]'")
needs_ocloc = pytest.mark.skipif(shutil.which("ocloc") is None, reason="ocloc is not installed")
