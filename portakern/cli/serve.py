"""``portakern serve``: the judge over HTTP, for generators elsewhere; with KernelGYM's words, and MCP at ``/mcp``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from portakern.cli import options
from portakern.errors import ToolMissing
from portakern.jobs.tracing import Allowed
from portakern.referee.process import MODES

if TYPE_CHECKING:
    from portakern.serve.desk import Desk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1: this machine alone)")
    parser.add_argument("--port", type=int, default=8700, metavar="N", help="0 takes a free one (default 8700)")
    parser.add_argument("--token-file", metavar="FILE",
                        help="file with the token of requests (Authorization: Bearer); needed if others can reach the host")
    parser.add_argument("--fleet", nargs="?", const="", metavar="DIR",
                        help="give jobs to the fleet of this folder instead of judging here")
    parser.add_argument("--workers", type=options.positive, default=2, metavar="N", help="candidates at once (default 2)")
    parser.add_argument("--queue", type=options.positive, default=10_000, metavar="N", help="candidates that may wait")
    parser.add_argument("--batch", type=options.positive, default=1_000, metavar="N", help="candidates of one batch")
    parser.add_argument("--body", type=options.positive, default=16, metavar="MB", help="of one request (default 16)")
    parser.add_argument("--waiting", type=options.positive, default=256, metavar="N", help="requests at once (default 256)")
    parser.add_argument("--timeout", type=options.seconds, default=300.0, metavar="S",
                        help="limit for compiling and checking a candidate (default 300s)")
    parser.add_argument("--deadline", type=options.seconds, default=3600.0, metavar="S",
                        help="limit for waiting and judging together (default 3600s)")
    parser.add_argument("--jail", choices=MODES, default="auto",
                        help="require: refuse if a part of the jail is missing; off: no jail (default auto)")
    parser.add_argument("--kernelgym-target", metavar="T",
                        help="target of KernelGYM requests (default: by their backend)")
    parser.add_argument("--no-mcp", action="store_true", help="without the Model Context Protocol at /mcp")
    options.add_store(parser, samples=False)


def run(args: argparse.Namespace) -> int:
    try:
        import fastapi  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise ToolMissing(f"serving needs {error.name}", hint="pip install 'portakern[serve]'") from error
    from portakern.jobs.tokens import token_of
    from portakern.serve.app import application
    from portakern.serve.listening import listener

    token = token_of(args.token_file, args.host)
    if args.kernelgym_target:
        from portakern.registry import registry

        registry().target(args.kernelgym_target)
    mcp = not args.no_mcp and _has_mcp()
    with listener(args.host, args.port) as socket:
        desk = desk_of(args)
        host, port = socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        pages = f"OpenAPI at /docs{', MCP at /mcp' if mcp else ''}"
        print(f"portakern: http://{shown}:{port} ({pages})", file=sys.stderr, flush=True)
        config = uvicorn.Config(application(desk, token, args.kernelgym_target, mcp), log_level="warning", server_header=False,
                                timeout_graceful_shutdown=5)  # fmt: skip
        uvicorn.Server(config).run(sockets=[socket])
    return 0


def desk_of(args: argparse.Namespace) -> Desk:
    """The desk that a command line asks for.  Raises what keeps a fleet from being reached."""
    from portakern.serve.bench import LocalBench
    from portakern.serve.desk import Desk
    from portakern.serve.settings import Settings

    settings = Settings(args.workers, args.queue, args.batch, args.body << 20, waiting=args.waiting, limit_s=args.timeout,
                        deadline_s=args.deadline, allowed=Allowed(args.jail))  # fmt: skip
    if args.fleet is not None:
        from portakern.serve.fleet_bench import FleetBench

        return Desk(settings, FleetBench(args.fleet or None))
    return Desk(settings, LocalBench(args.workers, args.jail, options.keeper_of(args)))


def _has_mcp() -> bool:
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError:
        print("portakern: without MCP: pip install 'portakern[mcp]'", file=sys.stderr)
        return False
    return True
