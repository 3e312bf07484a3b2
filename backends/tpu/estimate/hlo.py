"""The operations of a compiled program at its top level, with the bytes that each moves between HBM and the core.

Read off the text of the scheduled HLO.  An operand or result whose layout is in memory space 1 lies in VMEM already and moves
nothing; what is copied there ahead of its use (``copy-start``) is counted at the copy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

_BITS = {"pred": 8, "bf16": 16, "f8e4m3fn": 8, "f8e5m2": 8}
_FREE = frozenset({"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "copy-done", "slice-done", "after-all",
                   "async-done", "opt-barrier", "partition-id", "replica-id"})  # fmt: skip
_BEGUN = frozenset({"copy-start", "slice-start", "async-start"})


@dataclass(frozen=True)
class Operation:
    """``times`` is how often it runs; ``None`` where the text does not say.  ``begun``: it runs beside those that follow."""

    name: str
    opcode: str
    bytes: int
    target: str = ""
    times: int | None = 1
    begun: bool = False


_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_SHAPE = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\](?:\{([^}]*)\})?")


def operations(text: str) -> list[Operation]:
    """Every operation that does work, in the order in which they run."""
    bodies = _computations(text)
    entry = next((name for name in bodies if name.startswith("ENTRY ")), None)
    return list(_walk(bodies, entry, 1)) if entry else []


def _computations(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    current = None
    for line in text.splitlines():
        if head := re.match(r"^(ENTRY )?%([\w.\-]+) \(.*\{\s*$", line):
            current = found.setdefault(f"{head[1] or ''}{head[2]}", [])
        elif line.startswith("}"):
            current = None
        elif current is not None:
            current.append(line)
    return found


def _walk(bodies: dict[str, list[str]], name: str, times: int | None) -> Iterator[Operation]:
    shapes: dict[str, str] = {}
    for line in bodies[name]:
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        own, shape, opcode, rest = found.groups()
        shapes[own] = shape
        if opcode in _FREE:
            continue
        if opcode == "while":
            yield from _loop(bodies, rest, times)
            continue
        if opcode in ("call", "conditional"):
            for inner in re.findall(
                r"(?:to_apply|branch_computations=\{|true_computation|false_computation)=?%([\w.\-]+)", rest
            ):
                yield from _walk(bodies, inner, times)
            continue
        arguments = _arguments(rest)
        if opcode in _BEGUN:
            moved = _begun_bytes(shape)
        else:
            moved = bytes_of(shape) + sum(bytes_of(shapes.get(a, "")) for a in arguments)
        target = re.search(r'custom_call_target="([^"]+)"', rest)
        yield Operation(own, opcode, moved, target[1] if target else "", times, opcode in _BEGUN)


def _loop(bodies: dict[str, list[str]], rest: str, times: int | None) -> Iterator[Operation]:
    count = re.search(r'known_trip_count":\{"n":"(\d+)"', rest)
    trips = int(count[1]) * times if count and times is not None else None
    for inner in re.findall(r"(?:body|condition)=%([\w.\-]+)", rest):
        yield from _walk(bodies, inner, trips)


def _arguments(rest: str) -> list[str]:
    """Names of the operands: those before the parenthesis that closes the list."""
    depth = 1
    for i, c in enumerate(rest):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return re.findall(r"%([\w.\-]+)", rest[:i])
    return []


def _begun_bytes(shape: str) -> int:
    """An asynchronous copy moves its destination's bytes, whichever of its two ends lies in VMEM."""
    parts = [m for m in _SHAPE.finditer(shape) if m[2] or m[1] not in ("u32", "s32")]
    return min((_size(m) for m in parts[:2]), default=0)


def bytes_of(shape: str) -> int:
    """Bytes of what a shape has in HBM."""
    return sum(_size(m) for m in _SHAPE.finditer(shape) if "S(" not in (m[3] or ""))


def _size(found: re.Match[str]) -> int:
    kind, dims = found[1], found[2]
    bits = _BITS.get(kind) or int(re.sub(r"\D.*$", "", re.sub(r"^[a-z]+", "", kind)) or 8)
    return math.prod(int(n) for n in dims.split(",") if n) * bits // 8
