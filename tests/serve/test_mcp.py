"""Agents ask by the SDK's own client: in one process, over standard input and output, over streamable HTTP."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters, stdio_client

from portakern.serve.bench import LocalBench
from portakern.serve.desk import Desk
from portakern.serve.mcp_server import server_of
from portakern.serve.settings import Settings
from tests.serve.support import TASK, Told, serving

TOOLS = ["compare", "evaluate", "inspect", "list_targets", "task"]


WRONG = (("task", {"target": "cpp:cpu", "operator": "sofmax"}, "no operator of the library"),
         ("evaluate", {"source": "x", "task_id": "0"}, "there is no task"),
         ("list_targets", {"pattern": "no:such"}, "target language 'no'"),
         ("inspect", {"source": "x", "target": "cpp:cpu"}, "looks at no kernels"))  # fmt: skip


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    content = found.structured_content
    return content["result"] if isinstance(content, dict) and set(content) == {"result"} else content


async def a_visit(client: Client) -> dict[str, Any]:
    """What an agent does: it looks, asks for a task, hands a kernel in."""
    assert sorted(t.name for t in (await client.list_tools()).tools) == TOOLS
    targets = await said(client, "list_targets", pattern="cpp:*")
    assert [t["target"] for t in targets] == ["cpp:cpu"]
    task = await said(client, "task", **TASK)
    return await said(client, "evaluate", source=task["starting_kernel"], task_id=task["id"], level="quick")


@pytest.mark.quick
def test_five_tools_in_one_process():
    desk = Desk(Settings(), Told())

    async def visit():
        async with Client(server_of(desk)) as client:
            assert (await a_visit(client))["correct"] is True
            tools = {t.name: t for t in (await client.list_tools()).tools}
            assert all(t.description for t in tools.values())
            assert set(tools["evaluate"].input_schema["required"]) == {"source"}
            for tool, arguments, words in WRONG:
                found = await client.call_tool(tool, arguments)
                assert found.is_error and words in found.content[0].text  # type: ignore[union-attr]

    anyio.run(visit)


def test_over_standard_input_and_output():
    server = StdioServerParameters(command=sys.executable, args=["-m", "portakern", "mcp", "--workers", "1", "--no-store"],
                                   env=dict(os.environ))  # fmt: skip

    async def visit():
        async with Client(stdio_client(server)) as client:
            row = await a_visit(client)
            assert row["correct"] is True and "jailed" in row["method"]

    anyio.run(visit)


def test_over_streamable_http():
    with serving(LocalBench(1)) as http:
        async def visit():
            async with Client(f"{http.base_url}/mcp") as client:
                assert (await a_visit(client))["correct"] is True
                compared = await said(client, "compare", targets=["cpp:cpu"], operator="softmax", dtype="f32",
                                      values={"M": 4, "N": 9})  # fmt: skip
                assert compared["rows"][0]["correct"] is True

        anyio.run(visit)
