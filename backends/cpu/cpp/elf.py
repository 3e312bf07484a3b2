"""Reads function sizes from an ELF shared object: enough of the format for resource figures, nothing more.

Source of the layout: System V ABI, "Object Files": ELF-64 header, section headers and symbol table entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SYMTAB, _DYNSYM = 2, 11
_FUNCTION = 2


@dataclass(frozen=True)
class Symbol:
    """A function symbol: its name, address and size in bytes."""

    name: str
    address: int
    size: int


def functions(data: bytes) -> tuple[list[Symbol], str]:
    """The function symbols of a 64-bit little-endian ELF file, and the section they were read from.

    ``.symtab`` where it was not stripped, else ``.dynsym``; raises ``ValueError`` for any other kind of file.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    offset, entry, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry) for i in range(count)]
    for kind, name in ((_SYMTAB, ".symtab"), (_DYNSYM, ".dynsym")):
        for section in sections:
            if section[1] == kind:
                strings = sections[section[6]]
                return list(_symbols(data, section, strings[4])), name
    return [], "no symbol table"


def _symbols(data: bytes, section: tuple[int, ...], strings: int) -> Iterator[Symbol]:
    start, size, entry = section[4], section[5], section[9]
    for at in range(start, start + size, entry):
        name, info, _, _, address, length = struct.unpack_from("<IBBHQQ", data, at)
        if info & 0xF == _FUNCTION and length:
            end = data.index(b"\0", strings + name)
            yield Symbol(data[strings + name : end].decode(), address, length)
