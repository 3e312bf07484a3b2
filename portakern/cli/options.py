"""Options that several commands share, and what they are read into."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from portakern import api
from portakern.errors import UsageError
from portakern.ir.schedule import Value, literal
from portakern.spec.operator import Operator
from portakern.study import asking
from portakern.study.asking import Selection, operators_of, pairs
from portakern.study.keeping import Keeper
from portakern.study.layout import fit
from portakern.study.row import Row, success
from portakern.study.store import ResultStore
from portakern.study.study import Study, write_text
from portakern.study.table import summary, text_table
from portakern.study.work import DEFAULT


def add_operator(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", metavar="OP", help="a library name, file.py:function, several with commas, or all")
    parser.add_argument("--grad", nargs="?", const="", metavar="x,w",
                        help="take the backward of OP: the gradients of these inputs, or of all arrays of floats")
    parser.add_argument("--save", default="", metavar="out,..", help="with --grad: outputs that the backward takes as inputs")


def add_targets(parser: argparse.ArgumentParser, required: bool = True) -> None:
    parser.add_argument("--targets", "--target", "-t", required=required, metavar="T,..", dest="targets",
                        help="language:device, patterns such as hip:* or *:gfx942, or all")


def add_size(parser: argparse.ArgumentParser, schedule: bool = True) -> None:
    """Shape, dtype, parameters and schedule."""
    parser.add_argument("--shape", action="append", default=[], metavar="M=4096,N=4096",
                        help="sizes of the dims; B=2x3 for leading dims, M=? leaves a dim open; M=256|512 and M=256:8192:*2 "
                             "are sweeps, a row for each point")  # fmt: skip
    parser.add_argument("--dtype", metavar="D,..", help="dtypes of the inputs; all: those that the operator declares")
    parser.add_argument("--param", action="append", default=[], metavar="k=v,..", help="parameters of the operator")
    parser.set_defaults(schedule=[])
    if not schedule:
        return
    parser.add_argument("--schedule", action="append", default=[], metavar="k=v,..",
                        help="tiles by axis or role, stages, warps, and options of the backend; or default, where a tuned "
                             "schedule would be taken")


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="rows as JSON, to FILE or standard output")


class _PrintSchema(argparse.Action):
    """Prints a command's JSON Schema and ends, whatever else is asked."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from portakern.study import command_schema

        print(command_schema.installed(str(self.const)), end="")
        parser.exit()


def add_schema(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--schema", action=_PrintSchema, nargs=0, const=command,
                        help="print the JSON Schema of what --json writes, and nothing else")


def add_html(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", help="also write the report: one self-contained page")


def html_of(args: argparse.Namespace) -> str | None:
    """The file of the report.  Raises :class:`UsageError` before the work where it cannot be written."""
    if args.html is None:
        return None
    path = Path(args.html)
    if path.is_dir() or not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"cannot write the report {args.html}", hint="name a file in a folder that can be written")
    return args.html


def write_html(study: Study, file: str | None) -> None:
    """The report, and on stderr what it lacks."""
    from portakern.study.report.plots import drawing

    if file is None:
        return
    study.to_html(file)
    if not drawing.available():
        print(f"portakern: {file} has no plots. {drawing.MISSING}", file=sys.stderr)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", "-j", type=positive, default=2, metavar="N", help="workers at once (default 2)")


def add_store(parser: argparse.ArgumentParser, samples: bool = True) -> None:
    parser.add_argument("--store", metavar="FILE",
                        help="where timed rows are kept (default PORTAKERN_RESULTS, else your data folder)")
    parser.add_argument("--no-store", action="store_true", help="keep nothing")
    if samples:
        parser.add_argument("--samples", action="store_true",
                            help="raw samples in the JSON too; the store has them in any case")


def keeper_of(args: argparse.Namespace) -> Keeper | None:
    """Where timed rows go; a store that fails is a warning, and the rows are shown all the same."""
    if args.no_store:
        return None
    return Keeper(ResultStore(args.store), lambda text: print(f"portakern: warning: {text}", file=sys.stderr))


def add_timing(parser: argparse.ArgumentParser, against: bool = True) -> None:
    """How to time, and against what."""
    if against:
        parser.add_argument("--against", default="", metavar="PEER,..",
                            help="numpy, torch.eager, torch.compile, xla or FILE.py:FUNCTION; timed in turns with the kernel")
    parser.add_argument("--budget", type=seconds, default=2.0, metavar="S",
                        help="seconds of timing per contender, after warming up (default 2s)")
    parser.add_argument("--cache", choices=["cold", "warm"], default="cold",
                        help="flush the caches before every sample (default), or leave them warm")
    parser.add_argument("--mode", choices=["auto", "single", "graph", "batch"], default="auto",
                        help="calls per sample: one, or several in a graph or a batch (auto: several below 10 us)")
    parser.add_argument("--margin", type=share, default=0.01, metavar="R", help="ratios within it are the SAME (default 0.01)")
    parser.add_argument("--width", type=share, default=0.01, metavar="R",
                        help="stop when the interval is narrower than this share of the median (default 0.01)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the inputs and of the order of samples")


def timing(args: argparse.Namespace) -> dict[str, Any]:
    """How to time, as the functions of Python's face take it."""
    return {"against": getattr(args, "against", ""), "budget": args.budget, "cache": args.cache, "mode": args.mode,
            "margin": args.margin, "width": args.width, "seed": args.seed}  # fmt: skip


def timing_of(args: argparse.Namespace) -> dict[str, Any]:
    """What :func:`portakern.study.timing.time` is given.  Raises :class:`UsageError` for an unknown peer."""
    return api.timing_of(**timing(args))


def share(text: str, below: float = 1.0) -> float:
    """``0.01`` or ``1%``."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 < value < below:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 0.01 or 1%")


def excess(text: str) -> float:
    """A share that may be more than the whole: ``3%``, ``150%``."""
    return share(text, 1000.0)


def positive(text: str) -> int:
    try:
        if (n := int(text)) >= 1:
            return n
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")


def seconds(text: str) -> float:
    """``60``, ``60s`` or ``2m``."""
    try:
        value = float(text.removesuffix("s")) if not text.endswith("m") else 60 * float(text[:-1])
        if 0 < value < 1e6:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 60s")


# ---- reading them ----------------------------------------------------------------------------------------------------


def operators(args: argparse.Namespace) -> tuple[Operator, ...]:
    """Raises :class:`UsageError` for an unknown one, with what may be meant."""
    return operators_of(args.operator, getattr(args, "grad", None), getattr(args, "save", ""))


def schedule_of(options: Sequence[str]) -> dict[str, Value] | str:
    if list(options) == [DEFAULT]:
        return DEFAULT
    return {k: literal(v) for k, v in pairs(options, "--schedule").items()}


def question(args: argparse.Namespace) -> dict[str, Any]:
    """What the functions of Python's face are given for the same question."""
    return {"op": args.operator, "targets": args.targets, "dtype": args.dtype, "schedule": schedule_of(args.schedule) or None,
            "shape": pairs(args.shape, "--shape"), "param": pairs(args.param, "--param"), "grad": getattr(args, "grad", None),
            "save": getattr(args, "save", "")}  # fmt: skip


def asked(args: argparse.Namespace, every_case: bool = False) -> Selection:
    """The works of a command line (:func:`portakern.study.asking.asked`)."""
    told = question(args)
    return asking.asked(told.pop("op"), **told, every_case=every_case)


# ---- what comes out ----------------------------------------------------------------------------------------------------


class ProgressLine:
    """One line on stderr that counts rows; silent where stderr is no terminal."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()

    def __call__(self, done: int, total: int, row: Row) -> None:
        if self._on:
            text = f"{done}/{total}  {row.operator} {row.target} {row.dtype}"
            sys.stderr.write(f"\r\x1b[K{text[:100]}")
            sys.stderr.flush()

    def close(self) -> None:
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def finish(study: Study, goal: str, json_file: str | None, samples: bool = False,
           shown: Callable[[Sequence[Row]], str] = text_table) -> int:  # fmt: skip
    """Prints the table, or writes the JSON; the exit status says whether every row reached ``goal``."""
    if json_file == "-":
        print(study.to_json(samples=samples))
    else:
        show(shown(study.rows))
        show(f"\n{summary(study.rows, goal)}")
        if json_file is not None:
            study.to_json(json_file, samples)
    return 0 if all(success(r, goal) for r in study.rows) else 1


def read_text(file: str, what: str) -> str:
    """The text of a file named on the command line.  Raises :class:`UsageError` where it cannot be read."""
    try:
        with open(file, encoding="utf-8") as stream:
            return stream.read()
    except OSError as error:
        raise UsageError(f"cannot read {what} {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {what} {file}: it is not text ({error.reason})") from error


def show(text: str, **how: Any) -> None:
    """Prints what people read; lines that are too long for the terminal are broken."""
    print(fit(text), **how)


def print_json(data: object, file: str) -> None:
    text = json.dumps(data, indent=1, default=str)
    if file == "-":
        print(text)
    else:
        write_text(file, text + "\n")


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """A plain kill ends what runs inside as Ctrl-C does: what was reached is kept and printed."""
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
