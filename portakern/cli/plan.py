"""``portakern plan``: where the time of a PyTorch model goes on each target, and what each kernel could gain."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from portakern.cli import options
from portakern.errors import PortakernError, SpecError, UsageError
from portakern.model_study import Model, ModelStudy, model
from portakern.registry import registry
from portakern.spec.load import python_object
from portakern.study.row import REFUSED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE.py:FACTORY",
                        help="a function without arguments that gives the module and its example inputs")
    options.add_targets(parser)
    parser.add_argument("--train", action="store_true", help="as in training: dropout, the batch's own statistics")
    parser.add_argument("--rows", type=options.positive, default=16, metavar="N",
                        help="kernels shown for each target (default 16); JSON and page have all")
    options.add_html(parser)
    options.add_output(parser)
    options.add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    html = options.html_of(args)
    registry().match(args.targets)  # what is misspelt is said before a model is made
    made = load(args.model, args.train)
    study = made.plan(args.targets, args.jobs, _progress if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if html is not None:
        study.to_html(html)
    if args.json == "-":
        print(study.to_json())
    else:
        options.show(study.table(args.rows))
        if args.json is not None:
            study.to_json(args.json)
    return 0 if succeeded(study) else 1


def succeeded(study: ModelStudy) -> bool:
    """Whether every kernel has what this machine can give, and nothing is wrong; a dtype refused by rule is an answer."""
    return all(p.error is None or p.error["kind"] == REFUSED for p in study.plans) and all(
        r.row.error is None for p in study.plans for r in p.rows)  # fmt: skip


def load(asked: str, train: bool = False) -> Model:
    """The model that a factory gives.

    Raises:
        UsageError: there is no such file or function, or it gives something else than a module with its inputs.
        SpecError: the factory raised.
    """
    factory = python_object(asked, "a model", "FILE.py:FACTORY")
    if not callable(factory):
        raise UsageError(f"{asked} is no function", hint="give a function that returns (module, example inputs)")
    try:
        given = factory()
    except PortakernError:
        raise
    except Exception as error:  # the user's own code
        raise SpecError(f"{type(error).__name__}: {error}", where=asked) from error
    module, inputs = _parts(given, asked)
    return model(module, inputs, train=train)


def _parts(given: Any, asked: str) -> tuple[Any, tuple[Any, ...]]:
    if not isinstance(given, tuple) or len(given) < 2 or not callable(given[0]):
        raise UsageError(f"{asked} gives {type(given).__name__}, not a module with its example inputs",
                         hint="return (module, (x,)): what the model is, and what it is called with")
    module, *inputs = given
    inside = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], tuple | list) else inputs
    return module, tuple(inside)


def _progress(done: int, total: int, target: str) -> None:
    sys.stderr.write(f"\r\x1b[K{done}/{total}  {target}")
    sys.stderr.flush()
