"""The ``portakern`` command; each subcommand is a module with ``add_arguments(parser)`` and ``run(args) -> int``."""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from portakern.errors import PortakernError, UsageError, defect
from portakern.tools.processors import processors
from portakern.version import __version__

# Subcommand -> one line of help. The module portakern.cli.<name> is loaded only when the command is called.
COMMANDS: dict[str, str] = {
    "ops": "the operators of the library",
    "targets": "the languages and devices that kernels can be made for",
    "doctor": "what is installed here, what is missing, and what it would give",
    "emit": "the source of a kernel, its IR, assembly or binary",
    "build": "machine code for every target, without the hardware",
    "check": "run what can be run here, and compare with the float64 oracle",
    "bench": "time kernels where their silicon is, interleaved with peers",
    "compare": "one table over targets and machines, each figure with its evidence",
    "plan": "where a PyTorch model's time goes on each target, and what each kernel could gain",
    "tune": "search the schedules of a kernel by timing them, and keep the best",
    "inspect": "what a kernel from elsewhere uses, what limits it, and what a simulator finds wrong",
    "evaluate": "judge a kernel from elsewhere against an operator",
    "dataset": "kernels that searches found correct: written to a file, and judged again from one",
    "fuzz": "operators that nobody wrote, compared with the oracle on every target",
    "suite": "public task suites of PyTorch modules, run against every target",
    "serve": "the judge over HTTP, for generators elsewhere",
    "mcp": "the judge for agents, over the Model Context Protocol",
    "fleet": "several machines that judge together, with Ray",
    "cache": "show how large the cache of binaries is, or make it smaller",
    "completion": "a script with which a shell completes commands and options",
    "results": "what was timed before: listed, filtered, imported, exported, and a gate for CI",
}


_BY_WORKERS = ("bench", "check", "compare", "build")
"""Commands whose worker imports what it needs while they do: each takes a second for that."""

_ENOUGH = 4
"""Processors for both to do so at once; on two, ``bench`` of two languages took a second longer."""

TRACEBACK = "PORTAKERN_TRACEBACK"
"""The variable with which a command shows the whole traceback of what nobody foresaw."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Parser(argparse.ArgumentParser):
    """Reports bad usage as the library does, with a hint."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(message, hint=f"see '{self.prog} --help'")


class _Help(argparse.HelpFormatter):
    """Wraps what is prose, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns 0 if all that was asked was reached, 1 if not, 2 for bad usage."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _dispatch(argv)
        sys.stdout.flush()
        return status
    except PortakernError as error:
        print(f"portakern: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        # The reader has gone (portakern ... | head); keep the interpreter from complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in _NO_ROOM:
            return _unforeseen(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"portakern: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("portakern: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        return _unforeseen(error)


def _unforeseen(error: Exception) -> int:
    """Says what went wrong, and where; a report of it wants the whole way there."""
    if os.environ.get(TRACEBACK):
        raise error
    print(f"portakern: {defect(error)}; {TRACEBACK}=1 shows the way there", file=sys.stderr)
    return 1


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_top_parser().format_help(), end="")
        return 0 if argv else 2
    if argv[0] == "--version":
        print(f"portakern {__version__}")
        return 0
    name = argv[0]
    if name not in COMMANDS:
        raise UsageError(f"no command is named {name!r}", hint=f"the commands are {', '.join(COMMANDS)}")
    if name in _BY_WORKERS and not {"-h", "--help"} & set(argv) and processors() >= _ENOUGH:
        asked = re.search(r"(?:^|,)(\w+):", ",".join(argv[1:]))
        import_module("portakern.tools.workers").expect_one("portakern.study.timing:get_ready", asked[1] if asked else "")
    module = command(name)
    parser = parser_of(name, module)
    args = parser.parse_args(argv[1:])
    outputs = import_module("portakern.cli.outputs")
    outputs.check_outputs(args)
    try:
        return int(module.run(args))
    except KeyboardInterrupt as stop:
        if not hasattr(stop, "study"):
            raise
        print("portakern: interrupted; what was finished:", file=sys.stderr)
        return int(outputs.interrupted(stop, args))


def command(name: str) -> ModuleType:
    """The module of a command."""
    return import_module(f"portakern.cli.{name}")


def parser_of(name: str, module: ModuleType) -> argparse.ArgumentParser:
    """What reads the words of a command; its help ends with examples."""
    from portakern.cli.examples import epilog

    parser = _Parser(prog=f"portakern {name}", description=COMMANDS[name], epilog=epilog(name), formatter_class=_Help)
    module.add_arguments(parser)
    return parser


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    parser = _Parser(
        prog="portakern",
        usage="portakern COMMAND ... | --version",
        description="One operator, written once, as native kernels for every accelerator.",
        epilog=f"commands:\n{listing}\n\n'portakern COMMAND --help' tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser
