"""benchmarks/models.py on models of our own: none of the packages that it takes models from is needed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def models() -> Any:
    """The file as a module; where modules are looked for is as before afterwards."""
    before = list(sys.path)
    sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location("portakern_models", FOLDER / "models.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before
    sys.modules.pop("model_zoo")


def entry(models: Any, module: Any, *args: Any, package: str = "torch") -> Any:
    return models.Entry("own/model", package, lambda: (module, args, {}))


def test_a_model_is_a_row_with_errors_against_float64(models: Any) -> None:
    mlp = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).eval()
    row = models.row(entry(models, mlp, torch.randn(4, 6)), "cpp:cpu", False, False)
    assert "wrong" not in row and row["kernels"] == row["launches"] == 2 and row["import"] == 0
    assert 0 < row["error"] < 1e-5 and row["import s"] > 0
    assert "own/model" in models.text_of(row)


def test_what_is_refused_and_what_is_wrong_are_rows_too(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.nonzero()

    row = models.row(entry(models, Refused(), torch.randn(3)), "cpp:cpu", False, False)
    assert "inside an array" in row["wrong"]
    monkeypatch.setattr(models, "_apart", lambda made, exact: 0.5)
    row = models.row(entry(models, torch.nn.Linear(3, 3), torch.randn(2, 3)), "cpp:cpu", False, False)
    assert "0.5 from PyTorch in float64" in row["wrong"]


def test_packages_that_are_missing_are_named(models: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(models, "entries", lambda: [entry(models, None, package="no_such_package")])
    monkeypatch.setattr(sys, "argv", ["models.py"])
    assert models.main() == 0
    assert "no_such_package is missing: 1 models are not tried" in capsys.readouterr().out


def test_the_zoo_names_every_model_once(models: Any) -> None:
    names = [e.name for e in sys.modules["model_zoo"].entries()]
    assert len(names) == len(set(names)) > 100
