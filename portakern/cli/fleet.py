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
    "up": "start the head on this machine; it is the first node, too",
    "join": "make this machine a node of the head at HOST:PORT",
    "status": "show the nodes, their targets and the jobs",
    "down": "end the nodes that were started on this machine",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=list(ACTIONS), help="; ".join(f"{a}: {h}" for a, h in ACTIONS.items()))
    parser.add_argument("address", nargs="?", metavar="HOST:PORT", help="join: the address of the head, which `up` prints")
    parser.add_argument("--dir", metavar="DIR",
                        help="the folder of token, logs and store (default: PORTAKERN_FLEET, else the user's data folder)")
    parser.add_argument("--name", default="", metavar="NAME", help="join: the name of the node; down: end this node only")
    parser.add_argument("--host", default="127.0.0.1",
                        help="up: this machine's address for the nodes (default 127.0.0.1: nodes on this machine only)")
    parser.add_argument("--port", type=int, metavar="N", help="up: the port of the head (default 6400; 0 takes a free one)")
    parser.add_argument("--token-file", metavar="FILE",
                        help="the secret that nodes share (default: DIR/token; `up` makes it, machines that join need a copy)")
    parser.add_argument("--targets", default="all", metavar="T,..",
                        help="judge only these (default: all that this machine can judge)")
    parser.add_argument("--cores", type=options.positive, metavar="N", help="cores to offer (default: all of this machine)")
    parser.add_argument("--gpus", type=int, metavar="N", help="GPUs to offer (default: those that drivers report)")
    parser.add_argument("--jail", choices=MODES, default="auto", help="the jail of kernels, as for evaluate (default auto)")
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
        print("no node was started on this machine")
    return 0


def _status(args: argparse.Namespace) -> int:
    from portakern.fleet.fleet import Fleet

    found = Fleet(args.dir).status()
    if args.json is not None:
        options.print_json(found, args.json)
    else:
        options.show(_text(found))
    return 0 if found["up"] or _elsewhere(found) else 1


def _elsewhere(found: dict[str, Any]) -> str:
    """The address of the head, where only nodes of another machine's fleet run here."""
    running = [n for n in found["here"] if n["alive"]]
    return "" if found["up"] or any(n["role"] == "head" for n in running) else next((n["address"] for n in running), "")


def _text(found: dict[str, Any]) -> str:
    jobs = found["jobs"]
    if head := _elsewhere(found):
        lines = [f"this machine belongs to the fleet at {head}; its head knows the other nodes and the jobs"]
    else:
        lines = ["the fleet is up" if found["up"] else "no fleet is up: `portakern fleet up` starts one",
                 f"{jobs['jobs']} jobs: {jobs['rows']} judged, {jobs['open']} open, {found['under_way']} with nodes"]
    nodes = [[n["address"], f"{n['cores']:g} cores", f"{n['gpus']:g} GPUs", _targets(n["targets"])] for n in found["nodes"]]
    here = [[n["name"], n["role"], "runs" if n["alive"] else "DEAD", f"{n['processes']} processes", f"{n['starts']} starts"]
            for n in found["here"]]  # fmt: skip
    for title, rows in (("nodes", nodes), ("on this machine", here)):
        lines += ["", f"{title}:", table(rows, head=False)] if rows else []
    return "\n".join(lines)


def _targets(have: dict[str, float]) -> str:
    return " ".join(f"{name} {count:g}" for name, count in sorted(have.items())[:12]) + (" ..." if len(have) > 12 else "")


def _node(args: argparse.Namespace) -> Any:
    from portakern.fleet.resources import node

    return node(args.cores, args.gpus, args.targets)
