"""An exception that nobody foresaw ends a command in words, and with the whole way there where that is asked for."""

from __future__ import annotations

import pytest

from portakern import cli
from portakern.cli import targets

pytestmark = pytest.mark.quick


def _fails(_: object) -> int:
    raise ZeroDivisionError("nothing to divide by")


def test_it_is_said_what_went_wrong_and_where(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(targets, "run", _fails)
    assert cli.main(["targets"]) == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError: nothing to divide by (raised at" in said and "test_unforeseen.py:" in said
    assert "report it" in said and "PORTAKERN_TRACEBACK=1" in said and "Traceback" not in said


def test_the_traceback_is_shown_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(targets, "run", _fails)
    monkeypatch.setenv("PORTAKERN_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["targets"])
