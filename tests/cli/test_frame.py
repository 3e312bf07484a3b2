"""The frame of the command line: dispatch, exit status, errors without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

import portakern
from portakern import cli
from portakern.errors import CompileError

pytestmark = pytest.mark.quick


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):
    """A command named ``probe`` that returns or raises what a test tells it to."""
    module = types.ModuleType("portakern.cli.probe")
    outcome: list[object] = [0]

    def run(arguments: object) -> int:
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]  # type: ignore[return-value]

    module.add_arguments = lambda parser: parser.add_argument("--flag", choices=["a"])  # type: ignore[attr-defined]
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "portakern.cli.probe", module)
    monkeypatch.setitem(cli.COMMANDS, "probe", "a command of the tests")
    return outcome


@pytest.mark.parametrize("status", [0, 1])
def test_the_commands_status_is_the_exit_status(command: list[object], status: int):
    command[0] = status
    assert cli.main(["probe"]) == status


def test_an_error_is_printed_without_a_traceback(command: list[object], capsys: pytest.CaptureFixture[str]):
    command[0] = CompileError("clang exited with status 1", hint="read the log")
    assert cli.main(["probe"]) == 1
    assert capsys.readouterr().err == "portakern: clang exited with status 1\n  hint: read the log\n"


def test_a_defect_is_said_with_its_place(command: list[object], capsys: pytest.CaptureFixture[str]):
    command[0] = ZeroDivisionError("nothing to divide by")
    assert cli.main(["probe"]) == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError: nothing to divide by (raised at" in said and "test_frame.py:" in said
    assert "report it" in said and "PORTAKERN_TRACEBACK=1" in said and "Traceback" not in said


def test_a_defect_shows_its_traceback_where_that_is_asked_for(command: list[object], monkeypatch: pytest.MonkeyPatch):
    command[0] = ZeroDivisionError()
    monkeypatch.setenv("PORTAKERN_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["probe"])


@pytest.mark.parametrize(("arguments", "says"), [
    (["no-such-command"], "no command is named 'no-such-command'"),
    (["probe", "--no-such-flag"], "unrecognized arguments: --no-such-flag"),
    (["probe", "--flag", "b"], "invalid choice"),
])  # fmt: skip
def test_bad_usage_exits_with_two(
    command: list[object], capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
):
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err and "hint:" in captured.err and captured.out == ""


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text and help in text for name, help in cli.COMMANDS.items())
    assert cli.main([]) == 2


def test_the_module_is_the_command():
    result = subprocess.run(
        [sys.executable, "-m", "portakern", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout) == (0, f"portakern {portakern.__version__}\n")


def test_a_reader_that_leaves_is_no_fault_of_ours():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as gone:
        command = [sys.executable, "-m", "portakern", "--help"]
        result = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (1, "")
