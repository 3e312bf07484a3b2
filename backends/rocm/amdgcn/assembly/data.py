"""Constant tables and variables: the data sections of an assembly file, laid out as one image.

A kernel finds them by its own address (``s_getpc_b64`` and ``symbol@rel32``) or through a table of addresses
(``symbol@gotpcrel32``).  Their addresses, and those of functions that data refers to, are known when the image is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from portakern.errors import SimulatorError

_BYTES = {"byte": 1, "short": 2, "hword": 2, "2byte": 2, "value": 2, "long": 4, "int": 4, "word": 4, "4byte": 4, "quad": 8,
          "8byte": 8}  # fmt: skip
_KEPT = re.compile(r"\.?(rodata|data|bss)\b")
_APART = 256
"""Bytes between objects, so that an access beyond one is not in the next; no object wants more than their alignment."""
_ESCAPES = {"n": 10, "t": 9, "b": 8, "f": 12, "r": 13}


@dataclass(frozen=True)
class DataSymbol:
    """An object: where it lies in the image, its size, and whether kernels may write it."""

    offset: int
    size: int
    writable: bool


@dataclass(frozen=True)
class Reference:
    """Eight bytes (or fewer) of the image that hold the address of ``symbol`` plus ``addend``."""

    at: int
    bytes: int
    symbol: str
    addend: int


@dataclass
class Data:
    """What the data sections hold.  Behind the objects lie slots (``@symbol``) with the addresses of symbols."""

    image: bytearray = field(default_factory=bytearray)
    symbols: dict[str, DataSymbol] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)
    _open: str = ""
    _kept: bool = False
    _writable: bool = False

    def section(self, name: str) -> None:
        """What follows belongs to section ``name``."""
        self._close()
        found = _KEPT.match(name.strip('"'))
        self._kept = found is not None
        self._writable = found is not None and found[1] != "rodata"

    def label(self, name: str) -> None:
        if self._kept:
            self._close()
            self.image += bytes(_APART + -len(self.image) % _APART)
            self._open = name
            self.symbols[name] = DataSymbol(len(self.image), 0, self._writable)

    def directive(self, name: str, rest: str) -> None:
        """Raises :class:`SimulatorError` for data that it cannot read."""
        if not self._kept:
            return
        if name in _BYTES:
            for word in rest.split(","):
                self._value(word.strip(), _BYTES[name])
        elif name in ("zero", "space", "skip"):
            count, _, fill = rest.partition(",")
            self.image += bytes([int(fill, 0) & 0xFF if fill.strip() else 0]) * int(count, 0)
        elif name in ("ascii", "asciz", "string"):
            self.image += _text(rest) + (b"" if name == "ascii" else b"\0")
        elif name in ("p2align", "balign", "align"):
            self._close()
            unit = 1 << int(rest.split(",")[0], 0) if name == "p2align" else int(rest.split(",")[0], 0)
            self.image += bytes(-len(self.image) % unit)
        elif name == "size":
            self._check(rest)
        elif name in ("fill", "octa", "float", "double", "comm", "lcomm", "incbin", "uleb128", "sleb128", "org", "rept"):
            raise SimulatorError(f"the machine cannot read the data directive `.{name} {rest}`")

    def finish(self) -> None:
        """The file ends."""
        self._close()

    def slot(self, symbol: str) -> int:
        """Where the address of ``symbol`` stands (a global offset table); made where there is none."""
        if f"@{symbol}" in self.symbols:
            return self.symbols[f"@{symbol}"].offset
        self.image += bytes(-len(self.image) % 8)
        at = len(self.image)
        self.image += bytes(8)
        self.symbols[f"@{symbol}"] = DataSymbol(at, 8, False)
        self.references.append(Reference(at, 8, symbol, 0))
        return at

    def referred(self, names: Iterable[str]) -> set[str]:
        """All symbols that those named hold the addresses of, and so on."""
        found, todo = set[str](), list(names)
        while todo:
            name = todo.pop()
            if name in found:
                continue
            found.add(name)
            s = self.symbols.get(name)
            if s is not None:
                todo += [r.symbol for r in self.references if s.offset <= r.at < s.offset + s.size]
        return found

    def linked(self, start: int, address: Callable[[str], int]) -> bytes:
        """The image as it lies at ``start``; ``address`` is asked for what is not in it."""
        image = bytearray(self.image)
        for r in self.references:
            s = self.symbols.get(r.symbol)
            value = (start + s.offset if s is not None else address(r.symbol)) + r.addend
            image[r.at : r.at + r.bytes] = (value & (1 << 8 * r.bytes) - 1).to_bytes(r.bytes, "little")
        return bytes(image)

    def _value(self, word: str, size: int) -> None:
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", word):
            self.image += (int(word, 0) & (1 << 8 * size) - 1).to_bytes(size, "little")
            return
        match = re.fullmatch(r"([A-Za-z_.$][\w.$]*)(?:@abs(?:32@lo|64))?\s*([+-]\s*\d+)?", word)
        if match is None:
            raise SimulatorError(f"the machine cannot read {word!r} in a data section")
        self.references.append(Reference(len(self.image), size, match[1], int((match[2] or "0").replace(" ", ""))))
        self.image += bytes(size)

    def _close(self) -> None:
        if self._open:
            s = self.symbols[self._open]
            self.symbols[self._open] = DataSymbol(s.offset, len(self.image) - s.offset, s.writable)
        self._open = ""

    def _check(self, rest: str) -> None:
        """``.size table, 64``: as many bytes must have been read, or a directive was missed."""
        name, _, size = rest.partition(",")
        s = self.symbols.get(name.strip())
        if s is None or not size.strip().isdigit():
            return
        if name.strip() == self._open:
            self._close()
        if self.symbols[name.strip()].size != int(size):
            raise SimulatorError(f"{name.strip()} has {int(size)} bytes, of which the machine could read "
                                 f"{self.symbols[name.strip()].size}")  # fmt: skip


def _text(quoted: str) -> bytes:
    """What a quoted string of the assembler stands for."""
    found, rest = bytearray(), quoted.strip()[1:-1]
    for match in re.finditer(r"\\([0-7]{1,3})|\\x([0-9a-fA-F]+)|\\(.)|([^\\])", rest):
        if match[1] is not None:
            found.append(int(match[1], 8) & 0xFF)
        elif match[2] is not None:
            found.append(int(match[2], 16) & 0xFF)
        elif match[3] is not None:
            found.append(_ESCAPES.get(match[3], ord(match[3])))
        else:
            found += match[4].encode()
    return bytes(found)
