"""A language model as the generator: any endpoint that speaks OpenAI's chat completions.

    OPENAI_BASE_URL=http://127.0.0.1:8000/v1 python examples/ask_a_model.py MODEL [OPERATOR] [TARGET]

The model is told the task and a correct kernel to start from; what it answers is judged, and what was wrong is told back.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request

import portakern as pk
from portakern.search import Candidate, search
from portakern.study.row import Row
from portakern.study.task import Task

Message = dict[str, str]

BLOCK = re.compile(r"```[\w+-]*\n(.*?)```", re.DOTALL)

SYSTEM = "You write fast kernels. Answer with one whole file in a code block, in the convention that you are told."


class Endpoint:
    """``{base}/chat/completions``."""

    def __init__(self, model: str, base: str = "", key: str = "") -> None:
        self.model = model
        self.base = (base or os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")).rstrip("/")
        self.key = key or os.environ.get("OPENAI_API_KEY", "")

    def complete(self, messages: list[Message]) -> str:
        body = json.dumps({"model": self.model, "messages": messages, "temperature": 0}).encode()
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
        request = urllib.request.Request(f"{self.base}/chat/completions", body, headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)["choices"][0]["message"]["content"] or ""


class Conversation:
    """A search that asks a model, one kernel at a time."""

    def __init__(self, endpoint: Endpoint, task: Task, turns: int = 4) -> None:
        self.endpoint, self.turns = endpoint, turns
        self.messages: list[Message] = [{"role": "system", "content": SYSTEM},
                                        {"role": "user", "content": f"{task}\n\nWrite a faster one."}]  # fmt: skip

    def ask(self) -> Candidate | None:
        if self.turns <= 0:
            return None
        self.turns -= 1
        answer = self.endpoint.complete(self.messages)
        self.messages.append({"role": "assistant", "content": answer})
        return Candidate(code_of(answer))

    def tell(self, row: Row) -> None:
        self.messages.append({"role": "user", "content": remarks(row)})


def code_of(answer: str) -> str:
    """The last code block; all of it where there is none."""
    blocks = BLOCK.findall(answer)
    return blocks[-1] if blocks else answer


def remarks(row: Row) -> str:
    """What a row says to its author."""
    if row.error is not None:
        return f"That is wrong ({row.error['kind']}): {row.error['message']}\n{row.error['hint']}\nCorrect it."
    told = f"It is correct: {row.method}."
    if row.time is not None:
        told += f" It takes {row.time['median_us']:.1f} us."
    return f"{told} Its resources are {json.dumps(row.resources, default=str)}. Write a faster one."


def main(model: str, operator: str = "softmax", target: str = "cpp:cpu") -> None:
    task = pk.task(operator, target, dtype="f32", M=64, N=500)
    outcome = search(Conversation(Endpoint(model), task), task, budget_s=600, level="full")
    for number, (_, row) in enumerate(outcome.tried, 1):
        print(f"  {number}: {'right' if row.correct else row.error['message'][:100] if row.error else row.method}")
    print("best:\n" + outcome.best[0].source if outcome.best else "none is right")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
