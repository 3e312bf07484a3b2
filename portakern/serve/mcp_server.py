"""The judge over the Model Context Protocol: five tools for agents that write kernels."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from portakern.errors import PortakernError
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.serve import tools
from portakern.serve.desk import Desk
from portakern.serve.models import CompareRequest, InspectRequest, Level, TaskRequest
from portakern.study.candidate import Candidate
from portakern.version import __version__

INSTRUCTIONS = """\
Write a kernel for an operator on an accelerator, and have it judged. `list_targets` says what can be aimed at; `task` gives \
the math, the calling convention, the device's limits and a correct kernel to start from; `evaluate` compiles a kernel, checks \
it against a float64 oracle and, at level "timed", times it where its silicon is here; `inspect` looks at a kernel that is of \
no operator; `compare` shows our own kernels on several targets. A row's `evidence` says how far a kernel came, `error` why \
no further."""

Values = dict[str, int | float | bool | str | list[int] | None]


def server_of(desk: Desk) -> MCPServer:
    server = MCPServer("portakern", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")

    async def apart(function: Any, *args: Any) -> Any:
        try:
            return await anyio.to_thread.run_sync(lambda: function(*args), abandon_on_cancel=True)
        except PortakernError as error:
            raise ToolError(f"{error.kind}: {error}") from error

    @server.tool()
    async def list_targets(pattern: str = "all") -> list[dict[str, Any]]:
        """Languages and devices that kernels can be written for, as `language:device`.

        Args:
            pattern: such as `hip:*`, `*:gfx942`, or `all`.
        """
        return [t.model_dump() for t in await apart(tools.targets, desk, pattern)]

    @server.tool()
    async def task(target: str, operator: str = "", text: str = "", dtype: str | None = None, values: Values | None = None
                   ) -> dict[str, Any]:  # fmt: skip
        """What a kernel must compute: math, arrays, calling convention, device, and a correct kernel to start from.

        Args:
            target: `language:device`.
            operator: the name of an operator of the library (`softmax`, `matmul`, ...), or which function of `text`.
            text: Python with functions under `@pk.operator`, in place of the library.
            dtype: such as `f32` or `bf16`.
            values: sizes of dims and parameters, such as `{"M": 32, "N": 300}`; null keeps a dim open.
        """
        asked = TaskRequest(target=target, operator=operator, form=None, text=text, dtype=dtype, values=values or {})
        return (await apart(lambda: tools.task(desk, asked.spec()))).model_dump()

    @server.tool()
    async def evaluate(source: str, target: str = "", operator: str = "", text: str = "", task_id: str = "",
                       entry: str | None = None, dtype: str | None = None, values: Values | None = None, level: Level = "full",
                       limit_s: float = 60.0) -> dict[str, Any]:  # fmt: skip
        """Judges a kernel and gives its row: `correct`, `evidence`, `error`, `resources`, `time`.

        Args:
            source: the kernel's text.
            target, operator, text, dtype, values: as for `task`; or
            task_id: the `id` that `task` gave.
            entry: the function to call in it, where the convention needs it.
            level: `compile`, `quick`, `full` or `timed`, each after the one before it.
            limit_s: seconds for compiling and being checked, and again for being timed.
        """

        def submit() -> Any:
            if task_id:
                spec: TaskSpec = desk.task(task_id)[0]
            else:
                asked = TaskRequest(target=target, operator=operator, form=None, text=text, dtype=dtype, values=values or {})
                spec = asked.spec()
            (job,) = desk.submit([Job(spec, Candidate(source, entry), level, limit_s)]).jobs
            return job

        job = await apart(submit)
        try:
            row = await apart(job.ticket.future.result)
        except BaseException:
            desk.cancel([job])
            raise
        return tools.row_answer(row).model_dump()

    @server.tool()
    async def inspect(source: str, target: str, entry: str = "", args: str = "", grid: list[int] | None = None,
                      block: list[int] | None = None, run: bool = True) -> dict[str, Any]:  # fmt: skip
        """What a kernel that belongs to no operator uses on a target, what limits it, and what a simulator finds wrong in it.

        Args:
            source: its text.
            entry: the kernel, where the text holds several.
            args: what it is called with, in order: `x=bf16[64,128],n=4096,s:f32=0.5`.
            grid, block: how it is launched, if the text does not say it.
            run: whether to execute it in a simulator, where there is one.
        """
        asked = InspectRequest(source=source, target=target, entry=entry, args=args, grid=grid, block=block, run=run)
        return (await apart(tools.inspect, desk, asked)).model_dump()

    @server.tool()
    async def compare(targets: list[str], operator: str = "", text: str = "", dtype: str | None = None,
                      values: Values | None = None) -> dict[str, Any]:  # fmt: skip
        """Our own kernels of an operator, built and checked on several targets: one table with rows.

        Args:
            targets: names or patterns, at most eight targets.
            operator, text, dtype, values: as for `task`.
        """
        asked = CompareRequest(targets=targets, operator=operator, text=text, dtype=dtype, values=values or {})
        return (await apart(tools.compare, desk, asked)).model_dump()

    return server
