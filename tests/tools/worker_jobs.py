"""Functions that the worker tests run in workers."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from portakern.errors import MissingRuleError


def echo(value: Any) -> Any:
    return value


def variable(name: str) -> str | None:
    return os.environ.get(name)


def pid() -> int:
    return os.getpid()


def preloaded(module: str) -> bool:
    return module in sys.modules


def refuse() -> None:
    raise MissingRuleError("no rule", hint="write one", where="op.py:3", missing=("sort (op.py:3)",))


def stumble() -> None:
    raise ValueError("a reason of its own")


def refuse_with_baggage() -> None:
    error = MissingRuleError("no rule")
    vars(error)["baggage"] = lambda: None
    raise error


def return_what_cannot_travel() -> object:
    return lambda: None


def read_null() -> None:
    ctypes.string_at(0)


def say_then_abort() -> None:
    os.write(2, b"last words\n")
    os.abort()


def leave(status: int) -> None:
    os._exit(status)


def plain_exit() -> None:
    sys.exit(4)


def make_noise() -> str:
    print("from print")
    os.write(1, b"from fd 1\n")
    os.write(2, b"\x80\x04from fd 2\n")
    os.system("echo from a child")
    sys.stdout.close()
    return "quiet value"


def hang_with_child(marker: str) -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    Path(marker).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(60)


def allocate(size: int) -> int:
    return len(bytearray(size))
