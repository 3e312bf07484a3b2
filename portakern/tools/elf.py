"""What compilers leave in ELF files: sections, symbols and notes as plain data, read by pyelftools."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

EXECUTABLE = 4
"""SHF_EXECINSTR, of :attr:`Section.flags`."""


class ElfError(ValueError):
    """The bytes are no 64-bit ELF file, or not all of one. Readers say in their own error what was expected instead."""


@dataclass(frozen=True)
class Section:
    """``data`` is empty where the file holds none (SHT_NOBITS); ``size`` is what it takes in memory."""

    name: str
    flags: int
    size: int
    data: bytes


@dataclass(frozen=True)
class Symbol:
    """``kind`` as the specification spells it, ``STT_FUNC``; its size in bytes; whether it is in this file, or wanted by it."""

    name: str
    kind: str
    size: int
    defined: bool


@dataclass(frozen=True)
class Note:
    """``kind`` is the number that its owner gave this kind of note, or the specification's name for it (``NT_...``)."""

    owner: str
    kind: int | str
    data: bytes


@dataclass(frozen=True)
class Elf:
    """One file: ``machine`` as the specification spells it, ``EM_X86_64``; symbols by the name of their table, in its order;
    the notes of its segments; the libraries that are loaded with it."""

    machine: str
    flags: int
    sections: tuple[Section, ...]
    symbols: dict[str, tuple[Symbol, ...]]
    notes: tuple[Note, ...]
    needed: tuple[str, ...]


def read(data: bytes) -> Elf:
    """Raises :class:`ElfError`."""
    from elftools.elf.elffile import ELFFile  # takes 0.1 s to import

    if data[:5] != b"\x7fELF\x02":
        raise ElfError("these bytes are not a 64-bit ELF file")
    try:
        return _read(ELFFile(io.BytesIO(data)), len(data))
    except ElfError:
        raise
    except Exception as error:  # of what is cut short or foreign, pyelftools raises whatever comes first
        raise ElfError("this ELF file is damaged") from error


def _read(file: Any, length: int) -> Elf:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.sections import SymbolTableSection
    from elftools.elf.segments import NoteSegment

    sections: list[Section] = []
    symbols: dict[str, tuple[Symbol, ...]] = {}
    needed: list[str] = []
    for s in file.iter_sections():
        # Drivers of OpenCL give theirs no type; the first one, which is none, has no place.
        held = s["sh_type"] != "SHT_NOBITS" and (s["sh_type"] != "SHT_NULL" or s["sh_offset"] > 0)
        if held and s["sh_offset"] + s["sh_size"] > length:
            raise ElfError("this ELF file is cut short")
        sections.append(Section(s.name, s["sh_flags"], s["sh_size"], s.data() if held else b""))
        if isinstance(s, SymbolTableSection):
            symbols[s.name] = tuple(Symbol(x.name, str(x["st_info"]["type"]), x["st_size"], x["st_shndx"] != "SHN_UNDEF")
                                    for x in s.iter_symbols())  # fmt: skip
        if isinstance(s, DynamicSection):
            needed += [str(getattr(t, "needed", "")) for t in s.iter_tags("DT_NEEDED")]
    segments = [s for s in file.iter_segments() if isinstance(s, NoteSegment)]
    notes = tuple(Note(n["n_name"], n["n_type"], n["n_descdata"]) for s in segments for n in s.iter_notes())
    return Elf(str(file["e_machine"]), file["e_flags"], tuple(sections), symbols, notes, tuple(needed))
