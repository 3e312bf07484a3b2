"""``portakern doctor``: what is installed here, what is missing, and what each missing part would give."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true")


def run(arguments: argparse.Namespace) -> int:
    from portakern import native

    for name in native.driver_names():
        print(native.probe_driver(name))
    return 0
