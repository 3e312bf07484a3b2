"""What a host function launches on a GPU, done again alone: however it was launched, and nothing but that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch sees")]

TEXT = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, y, n, T: tl.constexpr):
    i = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(y + i, 2.0 * tl.load(x + i, mask=i < n), mask=i < n)


def called(x, y):
    double[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), 64)


def compiled_first(x, y):
    kernel = double.warmup(x, y, x.numel(), 64, grid=(1,))
    kernel[(triton.cdiv(x.numel(), 64), 1, 1)](x, y, x.numel(), 64)


def beside(x, y):
    with torch.cuda.stream(torch.cuda.Stream()):
        called(x, y)
    torch.cuda.synchronize()


def by_torch(x, y):
    called(x, torch.empty_like(y))
    torch.softmax(x, 0, out=y)


def after_heavy_torch(x, y):
    called(torch.softmax(x, 0), y)
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file: Path = tmp_path_factory.mktemp("hosts") / "hosts.py"  # Triton reads a kernel's lines from its file
    file.write_text(TEXT)
    scope: dict[str, Any] = {"__name__": "hosts"}
    exec(compile(TEXT, str(file), "exec"), scope)
    return scope


def again_on(host: Any, launches: bool = True) -> tuple[Any, Any]:
    """What is left in the output when what was noted is done again on another input, and that input."""
    from portakern.backends.triton.launch.alone import launchers, noting

    launchers()
    x, y = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")
    with noting([x, y]) as found:
        host(x, y)
    torch.cuda.synchronize()
    x.copy_(torch.randn(1000, device="cuda"))
    y.fill_(float("nan"))
    found.poison()
    found.again(launches)
    torch.cuda.synchronize()
    return y, x


@pytest.mark.parametrize("name", ["called", "compiled_first", "beside"])
def test_what_kernels_do_is_done_again(hosts: dict[str, Any], name: str) -> None:
    y, x = again_on(hosts[name])
    assert torch.equal(y, 2 * x)
    assert torch.isnan(again_on(hosts[name], launches=False)[0]).all()


@pytest.mark.parametrize("name", ["by_torch", "after_heavy_torch"])
def test_what_torch_does_is_not(hosts: dict[str, Any], name: str) -> None:
    y, x = again_on(hosts[name])
    wanted = (1 if name == "by_torch" else 2) * torch.softmax(x, 0)
    assert not torch.allclose(y, wanted)
