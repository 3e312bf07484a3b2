"""Launch comments: how a foreign kernel of the C family says the way it is launched.

A line above each kernel, in launch order::

    // portakern launch: kernel=NAME grid=(EXPR, EXPR, EXPR) block=(X, Y, Z) shared=BYTES args=(x, w, y, M)

``grid`` holds sizes: integers, or Python integer expressions of open dims (+, -, *, // by a number).  ``args`` names arrays,
run-time scalars and open dims in the order of the kernel's parameters.  ``cluster=(X, Y, Z)`` may follow where blocks come in
clusters.  A parameter that describes an array to the copy engine (see :class:`~portakern.backend.TensorMap`) is announced
by a line below, and ``args`` has its name::

    // portakern map: x_map=x shape=(M, 512) strides=(512, 1) box=(128, 64) swizzle=128

and, where it walks the pixels of images (see :class:`~portakern.backend.Pixels`),
``lower=(-1, -1) upper=(-1, -1) steps=(1, 1)`` behind it.  ``offset=128`` says that it begins at that element of the array.

Launches that are repeated are announced by a line above the first of them: how many they are, how often they run, the open dim
that counts the turns from 0, and arrays that change places after every turn (see :class:`~portakern.ir.program.Repeat`)::

    // portakern repeat: launches=2 count=T step=t swap=(h, h_next)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from portakern.backend import Launch, Pixels, Source, Target, TensorMap
from portakern.errors import PortakernError, UsageError
from portakern.ir.program import Program, Repeat
from portakern.ir.size import Size, names_of, parse_size

T = TypeVar("T")

FORM = "// portakern launch: kernel=NAME grid=(GX, GY, GZ) block=(X, Y, Z) shared=BYTES args=(x, w, y, M)"
MAP_FORM = "// portakern map: x_map=x shape=(M, 512) strides=(512, 1) box=(128, 64) swizzle=128"
REPEAT_FORM = "// portakern repeat: launches=2 count=T step=t swap=(h, h_next)"
_LINE = re.compile(r"^[^\S\n]*//[^\S\n]*portakern (launch|map):(.*)$", re.MULTILINE)
_REPEAT = re.compile(r"^[^\S\n]*//[^\S\n]*portakern (launch|repeat):(.*)$", re.MULTILINE)
_FIELD = re.compile(r"(?<!\w)(\w+)=(\((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*\)|\S+)")

_MOST = 1 << 31
"""What drivers take of blocks along a dimension, and of bytes, is less."""


def parse_launches(text: str) -> tuple[Launch, ...]:
    """The launches that ``text`` announces, in order.  Raises :class:`UsageError` naming the line that is malformed."""
    found: list[Launch] = []
    for match in _LINE.finditer(text):
        line, kind = text.count("\n", 0, match.start(1)) + 1, match[1]
        try:
            if kind == "launch":
                found.append(_launch(match[2]))
            elif not found:
                raise ValueError("it stands above every launch")
            else:
                found[-1] = replace(found[-1], maps=(*found[-1].maps, _map(match[2])))
        except (KeyError, ValueError, SyntaxError, TypeError, PortakernError) as error:
            form = FORM if kind == "launch" else MAP_FORM
            raise UsageError(f"line {line}: the {kind} comment cannot be read ({error})", hint=f"its form is {form}") from None
    return tuple(found)


def parse_repeats(text: str) -> tuple[Repeat, ...]:
    """Which of the launches that ``text`` announces are repeated.  Raises :class:`UsageError` naming a line that is wrong."""
    found: list[Repeat] = []
    number = 0
    for match in _REPEAT.finditer(text):
        if match[1] == "launch":
            number += 1
            continue
        try:
            fields = dict(_FIELD.findall(match[2]))
            swap = _items(fields.get("swap", "()"))
            pairs = tuple(zip(swap[::2], swap[1::2], strict=True))
            found.append(Repeat(number, number + int(fields["launches"]), parse_size(fields["count"]), fields["step"], pairs))
        except (KeyError, ValueError, SyntaxError, PortakernError) as error:
            line = text.count("\n", 0, match.start(1)) + 1
            raise UsageError(f"line {line}: the repeat comment cannot be read ({error})",
                             hint=f"its form is {REPEAT_FORM}") from None
    if any(r.last > number for r in found):
        raise UsageError("a repeat comment stands above fewer launches than it counts", hint=f"its form is {REPEAT_FORM}")
    return tuple(found)


def repeat_comments(repeats: Sequence[Repeat], number: int) -> list[str]:
    """The lines above launch ``number`` that say what is repeated from there on, the outer loop first."""
    begun = sorted((r for r in repeats if r.first == number), key=lambda r: -r.last)
    return [f"// portakern repeat: launches={r.last - r.first} count={str(r.count).replace(' ', '')} step={r.step} "
            f"swap=({', '.join(n for pair in r.swaps for n in pair)})" for r in begun]  # fmt: skip


def _launch(text: str) -> Launch:
    fields = dict(_FIELD.findall(text))
    grid: tuple[Size, Size, Size] = _triple(tuple(parse_size(x) for x in _items(fields["grid"])), 1)
    block = _triple(tuple(int(x) for x in _items(fields["block"])), 1)
    if not 1 <= block[0] * block[1] * block[2] <= 1024:
        raise ValueError(f"a block of {block[0] * block[1] * block[2]} threads")
    if not all(_MOST > n >= 0 for n in grid if isinstance(n, int)):
        raise ValueError(f"a grid of {fields['grid']} blocks")
    cluster = _triple(tuple(int(x) for x in _items(fields.get("cluster", "(1, 1, 1)"))), 1)
    shared = int(fields.get("shared", "0"))
    if not _MOST > shared >= 0:
        raise ValueError(f"{shared} bytes of shared memory")
    return Launch(fields["kernel"], grid, block, tuple(_items(fields["args"])), shared, cluster)


def _map(text: str) -> TensorMap:
    (name, array), *rest = _FIELD.findall(text)
    fields = dict(rest)
    shape, strides = (tuple(parse_size(x) for x in _items(fields[key])) for key in ("shape", "strides"))
    box = tuple(int(x) for x in _items(fields["box"]))
    if not len(shape) == len(strides) == len(box):
        raise ValueError("shape, strides and box have as many entries as the array has dims")
    return TensorMap(name, array, shape, strides, box, int(fields.get("swizzle", "0")), _pixels(fields, len(shape)),
                     int(fields.get("offset", "0")))  # fmt: skip


def _pixels(fields: Mapping[str, str], rank: int) -> Pixels | None:
    if "lower" not in fields:
        return None
    lower, upper, steps = (tuple(int(x) for x in _items(fields[key])) for key in ("lower", "upper", "steps"))
    if not len(lower) == len(upper) == len(steps) == rank - 2:
        raise ValueError("lower, upper and steps have an entry for each dim between the first and the last")
    return Pixels(lower, upper, steps)


def _triple(values: tuple[T, ...], one: T) -> tuple[T, T, T]:
    if not 1 <= len(values) <= 3:
        raise ValueError(f"{len(values)} sizes where one to three are known")
    x, y, z = (*values, one, one)[:3]
    return x, y, z


def _items(text: str) -> list[str]:
    """The comma-separated expressions between the outer parentheses."""
    tree = ast.parse(text.strip() if text.strip().endswith(",)") else f"({text.strip()[1:-1]},)", mode="eval").body
    if not text.strip()[1:-1].strip():
        return []
    if not isinstance(tree, ast.Tuple):
        raise ValueError(f"{text} is no list in parentheses")
    return [ast.unparse(x) for x in tree.elts]


def adopt_launches(
    text: str,
    entry: str | None,
    program: Program,
    target: Target,
    suffix: str,
    convention: str,
    headers: tuple[tuple[str, str], ...] = (),
) -> Source:
    """A foreign text with launch comments as a source for the arrays of ``program``.

    Raises :class:`UsageError` where it announces no launch, launches what is not in it, or names unknown arguments.
    """
    launches = parse_launches(text)
    if not launches:
        raise UsageError(f"the text says nowhere how its kernel is launched on {target}", hint=convention)
    if entry is not None and entry not in {x.kernel for x in launches}:
        raise UsageError(
            f"no launch comment names the kernel {entry!r}", hint=f"they name {', '.join(x.kernel for x in launches)}"
        )
    arrays = tuple(a for a in program.arrays if a.role != "temporary")
    repeats = parse_repeats(text)
    known = {a.name for a in arrays} | set(program.sizes) | {r.step for r in repeats}
    for launch in launches:
        if not re.search(rf"\b{re.escape(launch.kernel)}\b\s*\(", text):
            raise UsageError(f"the text defines no kernel {launch.kernel!r}, which its launch comment names", hint=convention)
        maps = {m.name: m for m in launch.maps}
        unknown = [x for x in launch.args if x not in known and x not in maps]
        unknown += [m.array for m in maps.values() if m.array not in known]
        sizes = [*launch.grid, *(n for m in maps.values() for n in (*m.shape, *m.strides))]
        unknown += sorted(set().union(*(names_of(n) for n in sizes)) - set(program.sizes))
        if unknown:
            raise UsageError(
                f"the launch of {launch.kernel} names {', '.join(unknown)}",
                hint=f"{program.name} has {', '.join([*(a.name for a in arrays), *program.sizes])}",
            )
    return Source(target, program.name, entry or launches[0].kernel, text, suffix, arrays, program.sizes, launches, headers,
                  repeats=repeats)
