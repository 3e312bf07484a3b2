"""``portakern mcp``: the judge for agents, over the Model Context Protocol on standard input and output."""

from __future__ import annotations

import argparse

from portakern.cli import options
from portakern.errors import ToolMissing
from portakern.referee.process import MODES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=options.positive, default=2, metavar="N", help="candidates at once (default 2)")
    parser.add_argument("--timeout", type=options.seconds, default=300.0, metavar="S",
                        help="limit for compiling and checking a candidate (default 300s)")
    parser.add_argument("--jail", choices=MODES, default="auto",
                        help="require: refuse if a part of the jail is missing; off: no jail (default auto)")
    parser.add_argument("--http", type=int, metavar="PORT",
                        help="streamable HTTP at 127.0.0.1:PORT/mcp in place of standard input and output")
    options.add_store(parser, samples=False)


def run(args: argparse.Namespace) -> int:
    try:
        import anyio
        import mcp.server.mcpserver  # noqa: F401
        import pydantic  # noqa: F401
    except ImportError as error:
        raise ToolMissing(f"the Model Context Protocol needs {error.name}", hint="pip install 'portakern[mcp]'") from error
    if args.http is not None:
        from portakern.cli import main

        return main(["serve", "--port", str(args.http), "--workers", str(args.workers), "--timeout", str(args.timeout),
                     "--jail", args.jail, *(["--no-store"] if args.no_store else []),
                     *(["--store", args.store] if args.store else [])])  # fmt: skip
    from portakern.jobs.tracing import Allowed
    from portakern.serve.bench import LocalBench
    from portakern.serve.desk import Desk
    from portakern.serve.mcp_server import server_of
    from portakern.serve.settings import Settings

    settings = Settings(args.workers, limit_s=args.timeout, allowed=Allowed(args.jail))
    desk = Desk(settings, LocalBench(args.workers, args.jail, options.keeper_of(args)))
    try:
        anyio.run(server_of(desk).run_stdio_async)
    finally:
        desk.close()
    return 0
