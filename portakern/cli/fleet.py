"""``portakern fleet``: nodes that judge together, with Ray."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from portakern.cli import options
from portakern.errors import UsageError
from portakern.referee.process import MODES
from portakern.study.layout import table

ACTIONS = {
    "up": "start a head here, which is the first node",
    "join": "start a node here that belongs to the head at ADDRESS",
    "status": "nodes, what they have, and jobs",
    "down": "end what was started from here",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=list(ACTIONS), help="; ".join(f"{a}: {h}" for a, h in ACTIONS.items()))
    parser.add_argument("address", nargs="?", metavar="HOST:PORT", help="of the head, to join")
    parser.add_argument("--dir", metavar="DIR",
                        help="where the fleet is kept (default PORTAKERN_FLEET, else the user's data folder)")
    parser.add_argument("--name", default="", metavar="NAME", help="of the node: to join, or to end it alone")
    parser.add_argument("--host", default="127.0.0.1", help="up: where nodes find the head (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=None, metavar="N", help="up: 0 takes a free one (default 6400)")
    parser.add_argument("--token-file", metavar="FILE",
                        help="what nodes know each other by (default: DIR/token, which `up` makes; take it along to `join`)")
    parser.add_argument("--targets", default="all", metavar="T,..", help="offer these alone, of what this machine can judge")
    parser.add_argument("--cores", type=options.positive, metavar="N", help="in place of this machine's")
    parser.add_argument("--gpus", type=int, metavar="N", help="in place of the devices that drivers report")
    parser.add_argument("--jail", choices=MODES, default="auto", help="of kernels, as for evaluate (default auto)")
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    if (args.action == "join") != (args.address is not None):
        raise UsageError(f"fleet {args.action} {'needs' if args.action == 'join' else 'takes no'} address",
                         hint="portakern fleet join HOST:PORT")  # fmt: skip
    return {"up": _up, "join": _join, "status": _status, "down": _down}[args.action](args)


def _up(args: argparse.Namespace) -> int:
    from portakern.fleet import fleet
    from portakern.jobs.tokens import is_loopback

    fleet.need_ray()
    made = fleet.up(_node(args), args.dir, args.host, fleet.PORT if args.port is None else args.port, args.jail,
                    args.token_file, args.name or "head")  # fmt: skip
    here = is_loopback(args.host)
    print(f"a fleet is up; {'here' if here else 'elsewhere'}: portakern fleet join {made.address}"
          f"{' (for other machines, --host names an address of this one)' if here else ''}", file=sys.stderr)  # fmt: skip
    return _status(args)


def _join(args: argparse.Namespace) -> int:
    from portakern.fleet import fleet

    fleet.need_ray()
    made = fleet.join(args.address, _node(args), args.dir, args.jail, args.token_file, args.name)
    print(f"{made.name} belongs to {made.address}", file=sys.stderr)
    return 0


def _down(args: argparse.Namespace) -> int:
    from portakern.fleet.fleet import down

    ended = down(args.dir, args.name)
    for name, count in ended.items():
        print(f"{name}: {count} processes ended")
    if not ended:
        print("nothing was started from here")
    return 0


def _status(args: argparse.Namespace) -> int:
    from portakern.fleet.fleet import Fleet

    found = Fleet(args.dir).status()
    if args.json is not None:
        options.print_json(found, args.json)
    else:
        options.show(_text(found))
    return 0 if found["up"] else 1


def _text(found: dict[str, Any]) -> str:
    jobs = found["jobs"]
    lines = ["the fleet is up" if found["up"] else "no fleet is up",
             f"{jobs['jobs']} jobs: {jobs['rows']} judged, {jobs['open']} open, {found['under_way']} with nodes"]
    nodes = [[n["address"], f"{n['cores']:g} cores", f"{n['gpus']:g} GPUs", _targets(n["targets"])] for n in found["nodes"]]
    here = [[n["name"], n["role"], "runs" if n["alive"] else "DEAD", f"{n['processes']} processes", f"{n['starts']} starts"]
            for n in found["here"]]  # fmt: skip
    for title, rows in (("nodes", nodes), ("from here", here)):
        lines += ["", f"{title}:", table(rows, head=False)] if rows else []
    return "\n".join(lines)


def _targets(have: dict[str, float]) -> str:
    return " ".join(f"{name} {count:g}" for name, count in sorted(have.items())[:12]) + (" ..." if len(have) > 12 else "")


def _node(args: argparse.Namespace) -> Any:
    from portakern.fleet.resources import node

    return node(args.cores, args.gpus, args.targets)
