"""A kernel that faults on a GPU: its process is of no more use, and the error says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from portakern.backends.triton.launch.executable import TritonExecutable
from portakern.errors import RuntimeFault

pytestmark = pytest.mark.quick


def _fault(*_: object) -> None:
    raise RuntimeError("Triton Error [CUDA]: misaligned address")


@pytest.mark.parametrize(("answers", "kind"), [(_fault, "device-lost"), (lambda: None, "runtime")], ids=["lost", "usable"])
def test_an_error_that_stays_is_told_apart(answers, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", answers)
    executable = object.__new__(TritonExecutable)
    executable.device, executable.function = "cuda", _fault
    executable.source = SimpleNamespace(operator="op", target="triton:h200")  # type: ignore[assignment]
    with pytest.raises(RuntimeFault, match="op on triton:h200 failed: RuntimeError: Triton Error") as caught:
        executable._launch(())
    assert caught.value.kind == kind
