"""What jax, Mosaic and libtpu say of kernels that they refuse, as kind, cause, fix and line: the real errors, provoked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from portakern.backend import InspectedKernel
from portakern.backends.tpu.compile.toolchain import LibtpuToolchain
from portakern.backends.tpu.trace.environment import package_version
from portakern.errors import CompileError
from portakern.study.inspecting import arguments_of
from tests.tpu.compile.errors import REFUSED, Refused
from tests.tpu.helpers import language, target

if not LibtpuToolchain().available(target()):
    pytest.skip("libtpu is not installed", allow_module_level=True)

JAX = tuple(map(int, (package_version("jax") or "0").split(".")[:2]))


@pytest.fixture(scope="module")
def toolchain() -> Iterator[LibtpuToolchain]:
    tool = LibtpuToolchain()
    yield tool
    tool.close()


def chosen(refused: Refused) -> Any:
    return pytest.param(refused, id=refused.name, marks=pytest.mark.slow if refused.kind == "vmem" else ())


@pytest.mark.parametrize("refused", [chosen(r) for r in REFUSED])
def test_refused(refused: Refused, toolchain: LibtpuToolchain) -> None:
    if JAX >= (0, 11) and refused.name in ("precision HIGH", "convolution", "dot with two batch dims"):
        pytest.skip("jax 0.11 compiles it")
    kernel = InspectedKernel(refused.text, "run", arguments_of(refused.args), file="kernel.py")
    source = language().bare(kernel, target(refused.device), ())
    with pytest.raises(CompileError) as caught:
        toolchain.compile(source)
    line = next(n for n, text in enumerate(refused.text.splitlines(), 1) if refused.line in text)
    error = caught.value
    assert (error.kind, error.where) == (f"compile-{refused.kind}", f"kernel.py:{line}")
    assert error.hint and (error.log or refused.kind == "interpret") and "{" not in error.message + error.hint
