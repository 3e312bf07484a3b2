"""Where inputs are put."""

from __future__ import annotations

import pytest

from portakern.errors import ToolMissing
from portakern.timing.inputs import torch_place

torch = pytest.importorskip("torch")


def test_a_torch_for_an_accelerator_that_is_not_here_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the accelerator it is built for all the same."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with pytest.raises(ToolMissing, match="sees no accelerator"):
        torch_place()
