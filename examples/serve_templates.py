"""A generator without a model, and the judge as a service: templates, edits of a right one, batches over HTTP.

    python examples/serve_templates.py [URL]

URL is that of a `portakern serve`; one is started for the while where none is given.  The first batch is what the templates
give, some of them wrong on purpose; the second one are edits of the first right one.  Nothing is drawn: each time is the same.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TASK = {"target": "cpp:cpu", "operator": "softmax", "dtype": "f32", "values": {"M": 64, "N": 500}}

KERNEL = """\
#include <cmath>

extern "C" void softmax(const float* x, float* out) {{
    for (int m = 0; m < 64; ++m) {{
        const float* row = x + m * 500;
        float* to = out + m * 500;
        float largest = row[0];
        for (int n = 1; n < 500; ++n) largest = {largest};
        float sums[{lanes}] = {{}};
        for (int n = 0; n < {columns}; n += {lanes})
            for (int k = 0; k < {lanes}; ++k) sums[k] += to[n + k] = std::exp(row[n + k] - largest);
        float sum = 0;
        for (float part : sums) sum += part;
        for (int n = 0; n < 500; ++n) to[n] {divided};
    }}
}}
"""

TEMPLATES = {
    "plain": {"largest": "row[n] > largest || row[n] != row[n] ? row[n] : largest", "lanes": 1, "columns": 500,
              "divided": "/= sum"},
    "four sums": {"largest": "row[n] > largest || row[n] != row[n] ? row[n] : largest", "lanes": 4, "columns": 500,
                  "divided": "/= sum"},
    "without the maximum": {"largest": "0.0f", "lanes": 1, "columns": 500, "divided": "/= sum"},
    "without the last columns": {"largest": "row[n] > largest || row[n] != row[n] ? row[n] : largest", "lanes": 1,
                                 "columns": 496, "divided": "/= sum"},
}  # fmt: skip

EDITS = {"two sums": {"lanes": 2}, "ten sums": {"lanes": 10}, "one reciprocal": {"divided": "*= 1 / sum"},
         "three sums": {"lanes": 3}}  # fmt: skip
"""Three sums read behind the row: 500 is no multiple of 3."""


class Server:
    """What of the service a generator needs."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url.rstrip("/")
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, self.headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def judged(self, task: str, texts: dict[str, str], level: str = "full") -> Iterator[tuple[str, dict[str, Any]]]:
        """(name, row) of every text."""
        asked = {"task": task, "level": level, "candidates": [{"source": text} for text in texts.values()]}
        batch = self.ask("/v1/batches", asked)
        found = self.ask(f"/v1/batches/{batch['id']}/results?wait_s=280")
        yield from zip(texts, (result["row"] for result in found["results"]), strict=True)


@contextmanager
def server(url: str | None) -> Iterator[Server]:
    """The one at ``url``, or one of our own on a free port of loopback."""
    if url is not None:
        yield Server(url, os.environ.get("PORTAKERN_TOKEN", ""))
        return
    command = [sys.executable, "-m", "portakern", "serve", "--port", "0", "--workers", "1", "--no-mcp", "--no-store"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "http://" in line)
            yield Server(line.split()[1])
        finally:
            process.terminate()


def main(url: str | None = None) -> None:
    with server(url) as judge:
        task = judge.ask("/v1/tasks", TASK)["id"]
        first, *_ = shown(judge.judged(task, {name: KERNEL.format(**t) for name, t in TEMPLATES.items()}))
        print(f"edits of {first!r}")
        texts = {name: KERNEL.format(**{**TEMPLATES[first], **edit}) for name, edit in EDITS.items()}
        right = shown(judge.judged(task, texts))
        print(f"{len(right)} of {len(texts)} edits are right: {', '.join(right)}")


def shown(judged: Iterator[tuple[str, dict[str, Any]]]) -> list[str]:
    """The names of those that are right; all are printed."""
    right = []
    for name, row in judged:
        print(f"  {name}: {said(row)}")
        right += [name] if row["correct"] else []
    return right


def said(row: dict[str, Any]) -> str:
    return f"right ({row['evidence']})" if row["correct"] else f"{row['error']['kind']}: {row['error']['message'][:90]}"


if __name__ == "__main__":
    main(*itertools.islice(sys.argv, 1, 2))
