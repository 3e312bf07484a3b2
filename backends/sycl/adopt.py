"""Foreign kernels: a text whose comment lines say how it is launched becomes a source."""

from __future__ import annotations

import re

from portakern.backend import Launch, Source, Target
from portakern.errors import SpecError
from portakern.ir.program import Program
from portakern.ir.size import Size, parse_size

_LINE = re.compile(r"//\s*portakern launch:\s*(.*)")
_PART = re.compile(r"(\w+)=(\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+)")
FORM = "// portakern launch: kernel=NAME grid=(X, Y, Z) block=(X, Y, Z) shared=0 args=(x, y, M)"


def read_launches(text: str, where: str) -> tuple[Launch, ...]:
    """The launches that the comment lines of ``text`` describe; raises :class:`SpecError` for a line that is wrong."""
    return tuple(_launch(m[1], where) for m in _LINE.finditer(text))


def _launch(line: str, where: str) -> Launch:
    parts = dict(_PART.findall(line))
    missing = [name for name in ("kernel", "grid", "block", "args") if name not in parts]
    if missing:
        raise SpecError(f"a launch line lacks {', '.join(missing)}: {line}", hint=f"write {FORM}", where=where)
    try:
        x, y, z = _three([parse_size(p) for p in _list(parts["grid"])])
        block = _three([int(p) for p in _list(parts["block"])])
        return Launch(parts["kernel"], (x, y, z), (int(block[0]), int(block[1]), int(block[2])),
                      tuple(_list(parts["args"])), int(parts.get("shared", "0")))
    except ValueError as error:
        raise SpecError(f"a launch line cannot be read: {line} ({error})", hint=f"write {FORM}", where=where) from None


def _list(text: str) -> list[str]:
    return [p.strip() for p in text.strip("()").split(",") if p.strip()] if text.count("(") <= 1 else _split(text[1:-1])


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def _three(values: list[Size]) -> tuple[Size, Size, Size]:
    x, y, z = (*values, 1, 1, 1)[:3]
    return x, y, z


def adopt(text: str, entry: str | None, program: Program, target: Target, suffix: str) -> Source:
    """``text`` as a source for the arrays of ``program``.

    Raises :class:`SpecError` where it has no launch line, or one that names an array the operator does not have.
    """
    launches = read_launches(text, entry or program.name)
    if not launches:
        raise SpecError("the kernel does not say how it is launched", hint=f"put a line like this above it: {FORM}",
                        where=entry or program.name)
    if entry and entry not in (program.name, *(x.kernel for x in launches)):
        raise SpecError(f"no launch line names the kernel {entry}", hint=f"it names {', '.join(x.kernel for x in launches)}")
    known = {*(a.name for a in program.arrays if a.role != "temporary"), *program.sizes}
    for launch in launches:
        unknown = [a for a in launch.args if a not in known]
        if unknown:
            raise SpecError(f"{launch.kernel} is passed {', '.join(unknown)}, which {program.name} does not have",
                            hint=f"it has {', '.join(sorted(known))}")
        if launch.shared_bytes:
            raise SpecError(f"{launch.kernel} asks for {launch.shared_bytes} bytes of dynamic local memory",
                            hint="declare its local arrays inside the kernel")
    arrays = tuple(a for a in program.arrays if a.role != "temporary")
    return Source(target=target, operator=program.name, entry=launches[0].kernel, text=text, suffix=suffix, arrays=arrays,
                  sizes=program.sizes, launches=launches)
