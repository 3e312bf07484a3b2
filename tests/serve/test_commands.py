"""The commands: who may be reached from elsewhere needs a token, what is not installed is said, nothing stays behind."""

from __future__ import annotations

import builtins
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from portakern.cli import COMMANDS, main
from portakern.errors import UsageError
from portakern.jobs.tokens import is_loopback, token_of

quick = pytest.mark.quick


def token(folder: Path, text: str = "0123456789abcdef", mode: int = 0o600) -> str:
    file = folder / "token"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


@quick
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "portakern.example", "128.0.0.1"])
def test_who_may_be_reached_from_elsewhere_needs_a_token(host, capsys):
    pytest.importorskip("fastapi")
    assert main(["serve", "--host", host, "--port", "0"]) == 2
    assert "has no token" in capsys.readouterr().err


@quick
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1", "[::1]"])
def test_loopback_needs_none(host):
    assert is_loopback(host) and token_of(None, host) is None


@quick
@pytest.mark.parametrize(("text", "mode", "words"), [
    ("short", 0o600, "too short"), ("0123456789abcdef", 0o644, "others may read"),
    ("two words of many", 0o600, "no single word"), ("é" * 20, 0o600, "no single")])  # fmt: skip
def test_a_token_is_long_and_its_owners(tmp_path, text, mode, words):
    with pytest.raises(UsageError, match=words):
        token_of(token(tmp_path, text, mode), "127.0.0.1")
    with pytest.raises(UsageError, match="cannot read"):
        token_of(str(tmp_path / "none"), "127.0.0.1")
    assert token_of(token(tmp_path, " 0123456789abcdef\n"), "0.0.0.0") == "0123456789abcdef"


EXTRAS = {"serve": (["serve"], "fastapi"), "mcp": (["mcp"], "mcp"), "fleet": (["fleet", "up"], "ray"),
          "fleet join": (["fleet", "join", "127.0.0.1:1"], "ray")}  # fmt: skip


@quick
@pytest.mark.parametrize(("command", "package"), EXTRAS.values(), ids=EXTRAS)
def test_what_is_not_installed_is_said(command, package, monkeypatch, capsys):
    import importlib.util

    real, find = builtins.__import__, importlib.util.find_spec

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {package!r}", name=package)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == package else find(name, *a))
    assert main(command) == 1
    error = capsys.readouterr().err
    assert package in error and f"pip install 'portakern[{command[0]}]'" in error


@quick
def test_no_other_command_imports_what_serves():
    words = ("import sys, portakern as pk; from portakern.cli import main; main(['ops']); main(['serve', '--port', 'x']); "
             "pk.task('softmax', 'cpp:cpu'); "
             "print([m for m in ('fastapi', 'pydantic', 'uvicorn', 'mcp', 'ray') if m in sys.modules])")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


@quick
@pytest.mark.parametrize("command", [["fleet", "join"], ["fleet", "status", "127.0.0.1:1"], ["fleet", "start"]])
def test_what_makes_no_sense_to_a_fleet(command, capsys):
    assert main(command) == 2


@quick
def test_a_fleet_that_is_not_there(tmp_path, capsys):
    assert main(["fleet", "status", "--dir", str(tmp_path)]) == 1
    assert main(["fleet", "down", "--dir", str(tmp_path)]) == 0
    assert main(["fleet", "down", "--dir", str(tmp_path), "--name", "x"]) == 2
    pytest.importorskip("fastapi")
    assert main(["serve", "--port", "0", "--fleet", str(tmp_path)]) == 1
    assert "no fleet is up" in capsys.readouterr().err


@quick
def test_a_port_that_is_taken(capsys):
    pytest.importorskip("fastapi")
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen" in capsys.readouterr().err


def test_a_server_ends_when_it_is_told_to_with_all_that_it_started(tmp_path):
    """It is told while it judges."""
    pytest.importorskip("fastapi")
    import httpx

    from portakern.fleet.processes import alive, descendants
    from tests.serve.support import TASK, until
    from tests.serve.test_judging import ENDLESS

    secret = token(tmp_path)
    command = [sys.executable, "-m", "portakern", "serve", "--host", "0.0.0.0", "--port", "0", "--token-file", secret,
               "--workers", "1", "--no-store"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = re.search(r"http://0\.0\.0\.0:(\d+)", process.stderr.readline())
        assert port is not None
        url = f"http://127.0.0.1:{port[1]}"
        until(lambda: _answers(url))
        assert httpx.get(f"{url}/v1/targets", trust_env=False).status_code == 401
        headers = {"Authorization": f"Bearer {Path(secret).read_text()}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as client:
            batch = client.post("/v1/batches", json={"task": TASK, "candidates": [{"source": ENDLESS}]}).json()
            until(lambda: client.get(f"/v1/batches/{batch['id']}").json()["counts"]["running"])
        started = until(lambda: descendants(process.pid))
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        until(lambda: not any(map(alive, started)), 10)
    finally:
        process.kill()
        process.wait(10)


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/v1/health", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@quick
def test_the_readme_names_the_commands():
    text = (Path(__file__).parents[2] / "README.md").read_text()
    for name in ("serve", "mcp", "fleet"):
        assert name in COMMANDS and re.search(rf"^portakern {name}\b", text, re.MULTILINE)
