"""Tools in child processes: every way they can end."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from portakern.errors import CompileError, ToolMissing
from portakern.tools import process as processes
from portakern.tools.process import find_tool, is_running, run_tool


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_output_and_status_come_back():
    result = run_tool(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
    assert (result.status, result.stdout, result.stderr, result.ok) == (3, "out\n", "err\n", False)
    assert result.log == "err\nout"


def test_checked_names_the_tool_the_work_and_the_log():
    with pytest.raises(CompileError, match=r"exited with status 3 on softmax for gfx942:\nno such opcode") as caught:
        run_tool(["sh", "-c", "echo no such opcode >&2; exit 3"]).checked("softmax for gfx942")
    assert caught.value.log == "no such opcode"
    assert run_tool(["true"]).checked("nothing").ok


def test_a_crash_names_its_signal():
    result = run_tool(["sh", "-c", "kill -SEGV $$"])
    assert not result.ok and result.ending() == "was ended by SIGSEGV"


def test_input_environment_and_directory_reach_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PK_REMOVED", "1")
    code = "import os, sys; print(sys.stdin.read(), os.getcwd(), os.environ['PK_ADDED'], 'PK_REMOVED' in os.environ)"
    result = run_tool(python(code), stdin=b"text", cwd=tmp_path, env={"PK_ADDED": "yes", "PK_REMOVED": None})
    assert result.stdout.split() == ["text", os.path.realpath(tmp_path), "yes", "False"]


def test_a_missing_tool_is_its_own_error():
    with pytest.raises(ToolMissing, match="pk-no-such-tool") as caught:
        run_tool(["pk-no-such-tool"], missing_hint="pip install it")
    assert caught.value.hint == "pip install it"
    with pytest.raises(ToolMissing, match="pk-no-such-tool"):
        find_tool("pk-no-such-tool")
    assert os.access(find_tool("sh"), os.X_OK)


def test_a_hang_is_ended_with_everything_it_started(tmp_path: Path):
    marker = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\n"
        "print('before the hang', flush=True)\n"
        "time.sleep(60)\n"
    )
    started = time.monotonic()
    with pytest.raises(CompileError, match=r"did not finish within 3 s") as caught:
        run_tool(python(code, str(marker)), timeout_s=3.0)
    assert time.monotonic() - started < 20
    assert caught.value.kind == "compile-timeout"
    assert "before the hang" in caught.value.log
    assert not is_running(int(marker.read_text()))


def test_a_tool_that_ignores_being_asked_is_killed():
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    started = time.monotonic()
    with pytest.raises(CompileError):
        run_tool(python(code), timeout_s=0.5)
    assert time.monotonic() - started < 10


def test_memory_is_limited():
    if sys.platform != "linux":
        pytest.skip("only Linux limits anonymous memory by RLIMIT_DATA")
    code = "b = bytearray(1 << 30); print(len(b))"
    assert "MemoryError" in run_tool(python(code), memory_bytes=256 << 20).stderr
    assert run_tool(python(code.replace("30", "10")), memory_bytes=256 << 20).stdout == "1024\n"


def test_long_output_is_cut_in_the_middle():
    result = run_tool(python("print('first'); print('x' * 5_000_000); print('last')"), output_limit=1000)
    assert result.stdout.startswith("first\nx") and result.stdout.endswith("x\nlast\n")
    assert "4999012 bytes left out" in result.stdout and len(result.stdout) < 1100


def test_a_child_left_behind_does_not_hold_up_the_result():
    started = time.monotonic()
    result = run_tool(["sh", "-c", "sleep 20 & echo $!"])
    assert time.monotonic() - started < 10
    os.kill(int(result.stdout), 9)


def test_a_child_whose_parent_ends_while_it_is_looked_for_is_stopped_too(monkeypatch: pytest.MonkeyPatch):
    """Lists of children are read one after the other: a grandchild moves from one that is not read yet to one that was."""
    root, child, grandchild = 101, 102, 103
    running, looks = {root, child, grandchild}, 0

    def family(_: int) -> list[int]:
        nonlocal looks
        looks += 1
        if looks == 2:  # the list of the root has been read, that of the child has not
            running.discard(child)
        return [child] if looks <= 2 else [child, grandchild]

    def stop(pid: int, _: int) -> None:
        if pid != child:  # which is on its way out
            running.discard(pid)

    monkeypatch.setattr(processes, "_family", family)
    monkeypatch.setattr(processes, "_waits", lambda pid: pid not in running)
    monkeypatch.setattr(processes.os, "kill", stop)
    assert processes.held(root) == [root, child, grandchild] and not running
