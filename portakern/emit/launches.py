"""Launch comments: how a foreign kernel of the C family says the way it is launched.

A line above each kernel, in launch order::

    // portakern launch: kernel=NAME grid=(EXPR, EXPR, EXPR) block=(X, Y, Z) shared=BYTES args=(x, w, y, M)

``grid`` holds sizes: integers, or Python integer expressions of open dims (+, -, *, // by a number).  ``args`` names arrays,
run-time scalars and open dims in the order of the kernel's parameters.
"""

from __future__ import annotations

import ast
import re
from typing import TypeVar

from portakern.backend import Launch, Source, Target
from portakern.errors import PortakernError, UsageError
from portakern.ir.program import Program
from portakern.ir.size import Size, names_of, parse_size

T = TypeVar("T")

FORM = "// portakern launch: kernel=NAME grid=(GX, GY, GZ) block=(X, Y, Z) shared=BYTES args=(x, w, y, M)"
_LINE = re.compile(r"^\s*//\s*portakern launch:(.*)$", re.MULTILINE)
_FIELD = re.compile(r"(\w+)=(\((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*\)|\S+)")


def parse_launches(text: str) -> tuple[Launch, ...]:
    """The launches that ``text`` announces, in order.  Raises :class:`UsageError` naming the line that is malformed."""
    found: list[Launch] = []
    for match in _LINE.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        try:
            found.append(_launch(match[1]))
        except (KeyError, ValueError, SyntaxError, TypeError, PortakernError) as error:
            raise UsageError(f"line {line}: the launch comment cannot be read ({error})", hint=f"its form is {FORM}") from None
    return tuple(found)


def _launch(text: str) -> Launch:
    fields = dict(_FIELD.findall(text))
    grid: tuple[Size, Size, Size] = _triple(tuple(parse_size(x) for x in _items(fields["grid"])), 1)
    block = _triple(tuple(int(x) for x in _items(fields["block"])), 1)
    if not 1 <= block[0] * block[1] * block[2] <= 1024:
        raise ValueError(f"a block of {block[0] * block[1] * block[2]} threads")
    return Launch(fields["kernel"], grid, block, tuple(_items(fields["args"])), int(fields.get("shared", "0")))


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
    known = {a.name for a in arrays} | set(program.sizes)
    for launch in launches:
        if not re.search(rf"\b{re.escape(launch.kernel)}\b\s*\(", text):
            raise UsageError(f"the text defines no kernel {launch.kernel!r}, which its launch comment names", hint=convention)
        unknown = [x for x in launch.args if x not in known]
        unknown += sorted(set().union(*(names_of(g) for g in launch.grid)) - set(program.sizes))
        if unknown:
            raise UsageError(
                f"the launch of {launch.kernel} names {', '.join(unknown)}",
                hint=f"{program.name} has {', '.join([*(a.name for a in arrays), *program.sizes])}",
            )
    return Source(target, program.name, entry or launches[0].kernel, text, suffix, arrays, program.sizes, launches, headers)
