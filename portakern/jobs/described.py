"""Reading what a jailed process says of an operator.  It may say anything: all of it is checked, and nothing is executed."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError
from portakern.ir.core import Block
from portakern.ir.tensor import TensorProgram, tensor_type, verify_tensor_program
from portakern.ir.text import parse_function
from portakern.jobs import families
from portakern.jobs.inside import FILE
from portakern.registry import registry
from portakern.study.row import Row
from portakern.study.work import Work, cost_of

PROGRAM_CHARACTERS = 8 << 20
WORDS = 100_000
"""The longest text of a doc or a source."""


@dataclass(frozen=True)
class Described:
    """An operator as others know it: what :func:`portakern.study.task.task_of` needs of one, and its work on one target.

    ``paths`` are those of a module's parameters by the input that takes them, ``numbers`` the places of its own inputs.
    """

    name: str
    doc: str
    source: str
    work: Work
    paths: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)


_PLACE = re.compile(r"  # at .*$", re.MULTILINE)
_OURS = re.compile(rf"  # at ([\w.]+ \()?{re.escape(FILE)}:\d+\)?")
_WORD = re.compile(r"[\w.+*/<>=!-]{0,64}", re.ASCII)


class NotDescribed(PortakernError):
    """What the process of a text said is no operator."""

    def __init__(self, what: str) -> None:
        super().__init__("bad-message", f"the text's process sent what is no operator: {what}",
                         hint="an operator's text must leave the process that reads it alone")


def read(said: Mapping[str, Any], target: str) -> Described:
    """Raises :class:`NotDescribed`, or :class:`UsageError` for an unknown target."""
    aim = registry().target(target)
    try:
        name, program = _name(said["name"]), _program(said["program"])
        sizes = {_name(k): _whole(v) for k, v in _mapping(said["sizes"])}
        names = {_name(k): tuple(_name(n) for n in v) for k, v in _mapping(said["names"])}
        dtype = said["dtype"]
        if dtype not in DTYPES:
            raise ValueError(f"unknown dtype {dtype!r}")
        shape = {_name(k): _size(v) for k, v in _mapping(said["shape"] or {})}
        params = {_name(k): _plain(v) for k, v in _mapping(said["params"] or {})}
        row = Row(name, str(aim), None, shape, dtype, params, cost=cost_of(program))
        work = Work(program, names, sizes, families.read(dict(_mapping(said["families"]))), str(aim), {}, row,
                    declared=families.read(dict(_mapping(said["declared"]))))  # fmt: skip
        for arg in program.args:
            if arg.name not in names:
                raise ValueError(f"no names of the dims of {arg.name}")
            if len(names[arg.name]) != len(tensor_type(arg).shape):
                raise ValueError(f"other dims of {arg.name}")
        paths = {_name(k): _text(v) for k, v in _mapping(said.get("paths") or {})}
        numbers = {_name(k): _whole(v) for k, v in _mapping(said.get("numbers") or {})}
        return Described(name, _text(said["doc"]), _text(said["source"]), work, paths, numbers)
    except PortakernError as error:
        raise NotDescribed(error.message[:300]) from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, MemoryError, OverflowError) as error:
        raise NotDescribed(f"{type(error).__name__}: {error}"[:300]) from error


def _program(text: Any) -> TensorProgram:
    if type(text) is not str or len(text) > PROGRAM_CHARACTERS:
        raise ValueError("the program is no text, or too long")
    if any(line.count(a) != line.count(b) for line in text.splitlines() for a, b in ("()", "[]", "{}")):
        raise ValueError("an operation over several lines")  # which takes long to read, and is none of ours
    found = parse_function(_PLACE.sub(lambda m: m[0] if _OURS.fullmatch(m[0]) else "", text))
    if not isinstance(found, TensorProgram):
        raise ValueError("no tensor program")
    verify_tensor_program(found)
    _name(found.name)
    for name in (*(a.name for a in found.args), *found.outputs, *found.dims):
        _name(name)
    _plain_words(found.body)
    return found


def _plain_words(block: Block) -> None:
    """Text in attributes may come to stand in kernels of ours, which run in no jail: it holds nothing that could end a word."""
    for op in block.walk():
        for name, role in op.roles.items():
            value = getattr(op, name)
            words = value if isinstance(value, tuple) else (value,)
            if role == "attribute" and any(isinstance(w, str) and not _WORD.fullmatch(w) for w in words):
                raise ValueError(f"{op.mnemonic()} speaks of {value!r}")


def _name(value: Any) -> str:
    """Names go into the text of kernels."""
    if type(value) is not str or not re.fullmatch(r"[A-Za-z_]\w{0,199}", value, re.ASCII) or keyword.iskeyword(value):
        raise ValueError(f"{str(value)[:60]!r} is no name")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("no text")
    return value[:WORDS]


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError(f"{str(value)[:60]} is no size")
    return value


def _size(value: Any) -> Any:
    """Of a dim in a row: a number, several for a starred dim, nothing for an open one."""
    return [_whole(v) for v in value] if isinstance(value, list) else None if value is None else _whole(value)


def _plain(value: Any) -> Any:
    if value is not None and type(value) not in (bool, int, float, str):
        raise ValueError("a parameter is no plain value")
    return value[:200] if isinstance(value, str) else value


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError("no mapping")
    return value.items()
