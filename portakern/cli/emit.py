"""``portakern emit``: the kernel's source, its IR at each level, or what the compiler made of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from portakern.cli import options
from portakern.errors import PortakernError, UsageError
from portakern.study.emitting import FORMS, IRS, check_form, piece
from portakern.study.study import Runner, write_text
from portakern.study.table import shape_text

_COMMENT = {".py": "#", ".txt": "#", ".s": ";"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_operator(parser)
    options.add_targets(parser)
    options.add_size(parser)
    parser.add_argument("--ir", choices=IRS, help="print a level of the IR instead of source")
    parser.add_argument("--as", choices=FORMS, default="source", dest="form",
                        help="source text (default), assembly, or the binary (needs -o)")
    parser.add_argument("--standalone", action="store_true", help="inline the headers: a file that compiles by itself")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write to FILE; with several kernels, FILE is a folder")
    options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    check_form(args.ir, args.form, args.standalone)
    if args.form == "binary" and args.output is None:
        raise UsageError("a binary is not for the terminal", hint="name a file: -o FILE")
    works = options.asked(args).works
    sweep = len({str(w.row.shape) for w in works}) > len({w.row.operator for w in works})
    if args.json is not None:
        return options.finish(Runner("emitted").run(works), "emitted", args.json)
    pieces: list[tuple[str, str, str | bytes]] = []
    failed = 0
    for work in works:
        try:
            suffix, content = piece(work, args.ir, args.form, args.standalone)
            size = f"-{shape_text(work.row.shape).replace('=', '').replace(',', '-')}" if sweep else ""
            pieces.append((f"{work.row.operator}-{work.target.replace(':', '-')}{size}-{work.row.dtype}", suffix, content))
        except PortakernError as error:
            if len(works) == 1:
                raise
            failed = 1
            print(f"portakern: {work.row.operator} for {work.target}: {error}", file=sys.stderr)
    deliver(pieces, args.output)
    return failed


def deliver(pieces: list[tuple[str, str, str | bytes]], output: str | None) -> None:
    if output is None:
        for name, suffix, content in pieces:
            if len(pieces) > 1:
                print(f"{_COMMENT.get(suffix, '//')} ---- {name}{suffix}")
            print(content if isinstance(content, str) else content.decode("utf-8", "replace"), end="")
        return
    if len(pieces) == 1 and not Path(output).is_dir():
        _write(Path(output), pieces[0][2])
        return
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PortakernError("output", f"cannot make the folder {output}: {error.strerror}", hint="name another") from error
    for name, suffix, content in pieces:
        _write(Path(output) / f"{name}{suffix}", content)


def _write(file: Path, content: str | bytes) -> None:
    if isinstance(content, str):
        write_text(file, content)
        return
    try:
        file.write_bytes(content)
    except OSError as error:
        raise PortakernError("output", f"cannot write {file}: {error.strerror}", hint="name another file") from error
