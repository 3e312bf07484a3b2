"""A client of the judge over the Model Context Protocol: it asks for a task, hands in two kernels, and reads the verdicts.

    python examples/mcp_client.py [OPERATOR] [TARGET]

It starts `portakern mcp` and speaks to it on standard input and output, as a host of agents does.  Needs `portakern[mcp]`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

SERVER = StdioServerParameters(command=sys.executable, args=["-m", "portakern", "mcp", "--workers", "1"])


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers, as data; lists come under ``result``."""
    answer = await client.call_tool(tool, arguments)
    if answer.is_error:
        raise SystemExit(f"{tool}: {answer.content}")
    content = answer.structured_content
    return content["result"] if isinstance(content, dict) and set(content) == {"result"} else content


async def main(operator: str = "row_sum", target: str = "numba:cpu") -> None:
    async with Client(stdio_client(SERVER)) as client:
        print("tools:", ", ".join(sorted(tool.name for tool in (await client.list_tools()).tools)))
        task = await ask(client, "task", operator=operator, target=target, dtype="f32", values={"M": 32, "N": 300})
        kernel = task["starting_kernel"]
        for name, text in {"the starting kernel": kernel, "a broken one": kernel.replace("range(", "range(1 + ", 1)}.items():
            row = await ask(client, "evaluate", source=text, task_id=task["id"], level="quick")
            print(f"{name}: {'right' if row['correct'] else 'wrong'}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
