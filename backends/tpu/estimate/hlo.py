"""The operations of a compiled program at its top level, with the bytes that each moves between HBM and the core.

Read off the text of the scheduled HLO.  An operand or result whose layout is in memory space 1 lies in VMEM already and moves
nothing; what is copied there ahead of its use (``copy-start`` and its like) is counted at the copy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_BITS = {"pred": 8}

_FREE = frozenset({
    "parameter", "constant", "bitcast", "tuple", "get-tuple-element", "after-all", "opt-barrier", "partition-id", "replica-id",
})  # fmt: skip

_NO_WORK = ("AllocateBuffer", "NopReturnToken")
"""Targets of custom calls that only name memory."""


@dataclass(frozen=True)
class Operation:
    """One operation that does work.

    Args:
        bytes: of its operands and results in HBM.
        target: of a custom call.
        times: how often it runs; ``None`` where the text does not say.
        begun: it runs beside those that follow, until something waits for it.
        resident: for each operand, whether it lies in VMEM.
    """

    name: str
    opcode: str
    bytes: int
    target: str = ""
    times: int | None = 1
    begun: bool = False
    resident: tuple[bool, ...] = ()


_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%([\w.\-]+) = (.*?[\])}]) ([a-z][\w\-]*)\((.*)$")
_SHAPE = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\](?:\{([^}]*)\})?")
_HEAD = re.compile(r"^(ENTRY )?%([\w.\-]+) \(.*\{\s*$")


def operations(text: str) -> list[Operation]:
    """Every operation that does work, in the order in which they run."""
    bodies = _computations(text)
    entry = next((name for name in bodies if name.startswith("ENTRY ")), None)
    return list(_walk(bodies, entry, 1)) if entry else []


def _computations(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    current = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = found.setdefault(f"{head[1] or ''}{head[2]}", [])
        elif line.startswith("}"):
            current = None
        elif current is not None:
            current.append(line)
    return found


def _walk(bodies: Mapping[str, list[str]], name: str, times: int | None) -> Iterator[Operation]:
    shapes: dict[str, str] = {}
    for line in bodies[name]:
        if not (found := _INSTRUCTION.match(line)):
            continue
        own, shape, opcode, rest = found.groups()
        shapes[own] = shape
        if opcode == "while":
            trips = _trips(bodies, rest)
            for inner in re.findall(r"(?:body|condition)=%([\w.\-]+)", rest):
                yield from _walk(bodies, inner, trips * times if trips is not None and times is not None else None)
        elif opcode in ("call", "conditional"):
            for inner in _called(rest):
                yield from _walk(bodies, inner, times)
        elif (operation := _operation(own, shape, opcode, rest, shapes, times)) is not None:
            yield operation


def _operation(name: str, shape: str, opcode: str, rest: str, shapes: Mapping[str, str], times: int | None) -> Operation | None:
    target = found[1] if (found := re.search(r'custom_call_target="([^"]+)"', rest)) else ""
    if opcode in _FREE or opcode.endswith(("-done", "-update")) or target in _NO_WORK:
        return None
    operands = [shapes.get(a, "") for a in _arguments(rest)]
    begun = opcode.endswith("-start")
    moved = _begun_bytes(opcode, shape) if begun else bytes_of(shape) + sum(map(bytes_of, operands))
    return Operation(name, opcode, moved, target, times, begun, tuple("S(1)" in s for s in operands))


def _called(rest: str) -> list[str]:
    single = re.findall(r"(?:to_apply|true_computation|false_computation)=%([\w.\-]+)", rest)
    several = re.findall(r"branch_computations=\{([^}]*)\}", rest)
    return single + [name.strip().removeprefix("%") for names in several for name in names.split(",")]


def _trips(bodies: Mapping[str, list[str]], rest: str) -> int | None:
    """How often a loop runs: as XLA noted, or where its condition compares a counter from 0 with a constant."""
    if noted := re.search(r'known_trip_count":\{"n":"(\d+)"', rest):
        return int(noted[1])
    condition = re.search(r"condition=%([\w.\-]+)", rest)
    lines = bodies.get(condition[1], []) if condition else []
    bounds = [int(m[1]) for line in lines if (m := re.search(r"constant\((\d+)\)", line))]
    less = any("compare(" in line and "direction=LT" in line for line in lines)
    return bounds[0] if len(bounds) == 1 and less else None


def _arguments(rest: str) -> list[str]:
    """Names of the operands: those before the parenthesis that closes the list."""
    depth = 1
    for i, c in enumerate(rest):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return re.findall(r"%([\w.\-]+)", rest[:i])
    return []


def _begun_bytes(opcode: str, shape: str) -> int:
    """What an asynchronous operation moves: a copy the smaller of its ends, anything else all that it has in HBM."""
    parts = [_size(m) for m in _SHAPE.finditer(shape) if m[2]]
    if "copy" in opcode or "slice" in opcode:
        return min(parts, default=0)
    return bytes_of(shape)


def bytes_of(shape: str) -> int:
    """Bytes of what a shape has in HBM."""
    return sum(_size(m) for m in _SHAPE.finditer(shape) if "S(" not in (m[3] or ""))


def _size(found: re.Match[str] | Sequence[str]) -> int:
    kind, dims = found[1], found[2]
    bits = _BITS.get(kind) or int(re.findall(r"\d+", kind)[0])
    return math.prod(int(n) for n in dims.split(",") if n) * bits // 8
