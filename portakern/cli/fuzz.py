"""``portakern fuzz``: operators that nobody wrote, compared with the oracle on every target."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from portakern.cli import options
from portakern.errors import UsageError
from portakern.fuzz.batch import require_hypothesis
from portakern.registry import registry
from portakern.study.row import Row

if TYPE_CHECKING:
    from portakern.fuzz.workshop import Step

DEFAULT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_targets(parser)
    parser.add_argument("--seconds", type=options.seconds, metavar="S", help="how long (default 60s without --programs)")
    parser.add_argument("--programs", type=options.positive, metavar="N", help="how many programs, resumed ones included")
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="other seeds make other programs (default 0)")
    parser.add_argument("--out", "-o", metavar="DIR", help="where findings and the state are kept (default fuzz-K)")
    parser.add_argument("--resume", metavar="DIR", help="continue an earlier run")
    options.add_jobs(parser)
    parser.add_argument("--judge", action="store_true",
                        help="every program under a random legal schedule and no other variation: is the check right?")
    parser.add_argument("--emit", action="store_true",
                        help="lower and emit only: many programs on many targets in little time, whose values nobody checks")
    parser.add_argument("--compile", action="store_true",
                        help="lower, emit and compile programs at the sizes of real models, and run nothing")
    parser.add_argument("--coverage", action="store_true", help="also the features of programs and the functions never reached")
    parser.add_argument("--known", action="append", default=[], metavar="DIR",
                        help="findings of another run, which are counted and not reported")
    parser.add_argument("--first", action="store_true", help="end at the first finding")
    parser.add_argument("--shrink", type=float, metavar="S", help="seconds to make a finding smaller (default 60)")
    parser.add_argument("--batch", type=options.positive, metavar="N", help="programs that are made and tried at once")
    parser.add_argument("--again", nargs="+", metavar="FILE", help="try the files of findings once more, and make none")


def run(args: argparse.Namespace) -> int:
    if args.again:
        return _again(args.targets, args.jobs, [Path(f) for f in args.again], _until(args))
    require_hypothesis()
    if args.resume and args.out:
        raise UsageError("--resume and --out both name the directory of the run", hint="leave --out away")
    return _fuzz(args)


def _until(args: argparse.Namespace) -> Step:
    if args.emit and args.compile:
        raise UsageError("--emit compiles nothing and --compile does", hint="leave one of them away")
    return "emit" if args.emit else "compile" if args.compile else "run"


def _fuzz(args: argparse.Namespace) -> int:
    from portakern.fuzz.batch import SHRINK_S
    from portakern.fuzz.engine import Engine, FuzzSettings
    from portakern.fuzz.outcome import TargetOutcome
    from portakern.fuzz.program import FuzzProgram
    from portakern.fuzz.report import report
    from portakern.fuzz.state import RunFolder
    from portakern.fuzz.workshop import Workshop

    seconds = args.seconds or (None if args.programs else DEFAULT_S)
    shrink = SHRINK_S if args.shrink is None else args.shrink
    settings = FuzzSettings(seconds, args.programs, args.seed, args.judge, args.first, shrink, args.batch)
    line = options.ProgressLine()

    def progress(done: int, total: int, program: FuzzProgram, outcome: TargetOutcome) -> None:
        line(done, total, Row(program.digest, outcome.target, dtype=program.case.dtype))

    folder = Path(args.resume or args.out or f"fuzz-{args.seed}")
    registry().match(args.targets)  # a target that is misspelt leaves no directory behind
    state = RunFolder(folder, resume=args.resume is not None)
    with Workshop(args.targets, args.jobs, folder=(folder / "work").resolve(), until=_until(args)) as workshop:
        engine = Engine(workshop, state, settings, progress)
        for known in args.known:
            engine.know(Path(known))
        try:
            with options.terminated_like_interrupted():
                engine.run()
        except KeyboardInterrupt:
            line.close()
            print(f"interrupted; portakern fuzz --targets {args.targets} --resume {folder} goes on\n")
        finally:
            state.close()
            line.close()
        options.show(report(engine, args.coverage))
    return 1 if engine.findings.mine else 0


def _again(targets: str, jobs: int, files: list[Path], until: Step) -> int:
    from portakern.fuzz.engine import again
    from portakern.fuzz.outcome import FOUND
    from portakern.fuzz.report import tried
    from portakern.fuzz.workshop import Workshop

    wrong = False
    with Workshop(targets, jobs, until=until) as workshop:
        for file, results in again(workshop, files):
            options.show(tried(file, results, until), flush=True)
            wrong |= any(o.status == FOUND for _, each in results for o in each)
    return int(wrong)
