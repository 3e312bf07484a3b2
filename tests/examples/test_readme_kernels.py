"""The kernels that the README shows are those that its command prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from portakern.cli import main

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.parametrize("target", ["hip:gfx942", "triton:gfx942", "pallas:v6e"])
def test_the_readme_shows_the_kernel_as_it_is_emitted(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", "softmax", "--targets", target, "--shape", "M=4096,N=8192", "--dtype", "bf16"]) == 0
    assert capsys.readouterr().out.strip() in README.read_text()
