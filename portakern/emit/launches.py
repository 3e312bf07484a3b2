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

Arrays that are not the operator's, which one kernel leaves for another, are announced by a line each; ``init`` is what such
an array, or an output that kernels add to, is filled with before the first launch::

    // portakern array: sums dtype=f32 shape=(M, 8) init=0
    // portakern array: out init=0
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from portakern.backend import Launch, Pixels, Source, Target, TensorMap
from portakern.dtypes import DTYPES
from portakern.errors import PortakernError, UsageError
from portakern.ir.program import Array, Program, Repeat
from portakern.ir.size import Size, names_of, parse_size
from portakern.ir.tile_types import BufferType

T = TypeVar("T")

FORM = "// portakern launch: kernel=NAME grid=(GX, GY, GZ) block=(X, Y, Z) shared=BYTES args=(x, w, y, M)"
MAP_FORM = "// portakern map: x_map=x shape=(M, 512) strides=(512, 1) box=(128, 64) swizzle=128"
ARRAY_FORM = "// portakern array: sums dtype=f32 shape=(M, 8) init=0"
REPEAT_FORM = "// portakern repeat: launches=2 count=T step=t swap=(h, h_next)"
_LINE = re.compile(r"^[^\S\n]*//[^\S\n]*portakern (launch|map):(.*)$", re.MULTILINE)
_ARRAY = re.compile(r"^[^\S\n]*//[^\S\n]*portakern array:[^\S\n]*(\w+)(.*)$", re.MULTILINE)
_REPEAT = re.compile(r"^[^\S\n]*//[^\S\n]*portakern (launch|repeat):(.*)$", re.MULTILINE)
_FIELD = re.compile(r"(?<!\w)(\w+)=(\((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*\)|\S+)")

_MOST = 1 << 31
"""What drivers take of blocks along a dimension, and of bytes, is less."""


_LONGEST, _LINES = 4096, 4096
"""Characters of a line, and lines of a kind."""


def _lines(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for number, match in enumerate(pattern.finditer(text)):
        if number >= _LINES or len(match[0]) > _LONGEST:
            raise UsageError(f"more than {_LINES} comments for launches, or one of more than {_LONGEST} characters")
        yield match


def parse_launches(text: str) -> tuple[Launch, ...]:
    """The launches that ``text`` announces, in order.  Raises :class:`UsageError` naming the line that is malformed."""
    found: list[Launch] = []
    for match in _lines(_LINE, text):
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
    for match in _lines(_REPEAT, text):
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


def array_comments(arrays: Sequence[Array]) -> list[str]:
    """The lines that say what arrays there are beside the operator's, and what arrays are filled with first."""
    return [_array_comment(a) for a in arrays if a.role == "temporary" or a.init is not None]


def _array_comment(a: Array) -> str:
    shape = f" dtype={a.dtype} shape=({', '.join(map(str, a.type.shape))})" if a.role == "temporary" else ""
    return f"// portakern array: {a.name}{shape}" + (f" init={a.init}" if a.init is not None else "")


def parse_arrays(text: str, known: Sequence[Array]) -> tuple[Array, ...]:
    """``known`` arrays, the operator's, filled first with what ``text`` says, and the temporaries that it announces.  Raises
    :class:`UsageError` naming a line that is wrong."""
    found = {a.name: replace(a, init=None) for a in known}
    announced: set[str] = set()
    for match in _lines(_ARRAY, text):
        try:
            name, fields = match[1], dict(_FIELD.findall(match[2]))
            if name in announced:
                raise ValueError(f"{name} is announced twice")
            announced.add(name)
            init = float(fields["init"]) if "init" in fields else None
            if name in found and found[name].role != "output":
                raise ValueError(f"{name} is an {found[name].role}")
            found[name] = replace(found[name], init=init) if name in found else _temporary(name, fields, init)
        except (KeyError, ValueError, SyntaxError, TypeError, PortakernError) as error:
            line = text.count("\n", 0, match.start(1)) + 1
            raise UsageError(f"line {line}: the array comment cannot be read ({error})",
                             hint=f"its form is {ARRAY_FORM}") from None
    return tuple(found.values())


def _temporary(name: str, fields: Mapping[str, str], init: float | None) -> Array:
    if fields["dtype"] not in DTYPES:
        raise ValueError(f"there is no dtype {fields['dtype']}")
    shape = tuple(parse_size(x) for x in _items(fields["shape"]))
    if math.prod(n for n in shape if isinstance(n, int)) >= 1 << 40:
        raise ValueError(f"an array of {fields['shape']}")
    return Array(name, BufferType(shape, fields["dtype"]), "temporary", init)


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
    if not (text.startswith("(") and text.endswith(")")):
        raise ValueError(f"{text} is no list in parentheses")
    inner = text[1:-1].strip()
    if not inner:
        return []
    tree = ast.parse(text if inner.endswith(",") else f"({inner},)", mode="eval").body
    if not isinstance(tree, ast.Tuple):
        raise ValueError(f"{text} is no list in parentheses")
    return [ast.unparse(x) for x in tree.elts]


def _nothing_to_do(program: Program) -> bool:
    """Whether no output has an element."""
    outputs = [a.type for a in program.arrays if a.role == "output"]
    return all(isinstance(t, BufferType) and 0 in t.shape for t in outputs)


def _sizes_of(arrays: Sequence[Array]) -> list[Size]:
    return [n for a in arrays if a.role == "temporary" and isinstance(a.type, BufferType) for n in a.type.shape]


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
    if not launches and not _nothing_to_do(program):
        raise UsageError(f"the text says nowhere how its kernel is launched on {target}", hint=convention)
    if entry is not None and launches and entry not in {x.kernel for x in launches}:
        raise UsageError(
            f"no launch comment names the kernel {entry!r}", hint=f"they name {', '.join(x.kernel for x in launches)}"
        )
    arrays = parse_arrays(text, [a for a in program.arrays if a.role != "temporary"])
    repeats = parse_repeats(text)
    known = {a.name for a in arrays} | set(program.sizes) | {r.step for r in repeats}
    defined = set(re.findall(r"\b(\w+)\s*\(", text))
    for launch in launches:
        if launch.kernel not in defined:
            raise UsageError(f"the text defines no kernel {launch.kernel!r}, which its launch comment names", hint=convention)
        maps = {m.name: m for m in launch.maps}
        unknown = [x for x in launch.args if x not in known and x not in maps]
        unknown += [m.array for m in maps.values() if m.array not in known]
        sizes = [*launch.grid, *(n for m in maps.values() for n in (*m.shape, *m.strides)), *_sizes_of(arrays)]
        unknown += sorted(set().union(*(names_of(n) for n in sizes)) - set(program.sizes))
        if unknown:
            raise UsageError(
                f"the launch of {launch.kernel} names {', '.join(unknown)}",
                hint=f"{program.name} has {', '.join([*(a.name for a in arrays), *program.sizes])}",
            )
    name = entry or (launches[0].kernel if launches else program.name)
    return Source(target, program.name, name, text, suffix, arrays, program.sizes, launches, headers, repeats=repeats)
