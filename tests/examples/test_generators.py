"""Generators drive the judge: one of templates over HTTP, one that asks a model, here a recorded one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import portakern as pk

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_templates_and_edits_are_judged_by_a_server():
    pytest.importorskip("fastapi")
    done = subprocess.run([sys.executable, str(EXAMPLES / "serve_templates.py")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.strip().split(": ", 1) for line in done.stdout.splitlines() if line.startswith("  "))
    right = {name for name, words in said.items() if words.startswith("right (executed)")}
    assert right == {"plain", "four sums", "two sums", "ten sums", "one reciprocal"}, done.stdout
    assert all("incorrect" in said[name] for name in ("without the maximum", "without the last columns"))


@contextmanager
def recorded(answers: list[str]):
    """An endpoint that gives one answer after the other, and keeps what it was asked."""
    asked: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "authorization": self.headers["Authorization"], **body})
            message = {"role": "assistant", "content": answers[len(asked) - 1]}
            text = json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": message}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
        finally:
            server.shutdown()


def test_a_model_is_told_what_was_wrong_until_it_is_right():
    kernel = pk.task("softmax", "cpp:cpu", dtype="f32", M=64, N=500).starting_kernel
    answers = ["I cannot.", f"Here it is:\n```cpp\n{kernel.replace('exp', 'expp', 1)}```\n", f"```cpp\n{kernel}```\nDone.",
               f"```cpp\n{kernel}\n// again\n```"]  # fmt: skip
    with recorded(answers) as (url, asked):
        environment = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "a key", "NO_PROXY": "127.0.0.1"}
        done = subprocess.run([sys.executable, str(EXAMPLES / "ask_a_model.py"), "some-model"], capture_output=True, text=True,
                              timeout=300, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    turns = re.findall(r"^  \d: (.*)$", done.stdout, re.MULTILINE)
    assert [words == "right" for words in turns] == [False, False, True, True]
    heads = {(a["path"], a["model"], a["authorization"]) for a in asked}
    assert heads == {("/v1/chat/completions", "some-model", "Bearer a key")}
    first, second, third, fourth = (a["messages"] for a in asked)
    assert "softmax" in first[-1]["content"] and [len(m) for m in (first, second, third, fourth)] == [2, 4, 6, 8]
    assert "That is wrong" in second[-1]["content"] and "expp" in third[-1]["content"]
    assert "It is correct" in fourth[-1]["content"] and "best:" in done.stdout
