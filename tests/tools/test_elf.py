"""Reading ELF files: what compilers leave in them, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from portakern import _native
from portakern.tools import elf

WHOLE = Path(_native.__file__).read_bytes()


def test_sections_symbols_and_notes_are_plain_data() -> None:
    file = elf.read(WHOLE)
    sections = {s.name: s for s in file.sections}
    assert file.machine.startswith("EM_")
    assert sections[".text"].flags & elf.EXECUTABLE and len(sections[".text"].data) == sections[".text"].size > 0
    assert sections[".bss"].size > 0 and not sections[".bss"].data
    assert "PyInit__native" in {s.name for s in file.symbols[".dynsym"] if s.kind == "STT_FUNC" and s.size}


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" + bytes(99), b"\x7fELF\x01" + bytes(99), b"\x7fELF\x02" + bytes(99)])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(elf.ElfError, match="ELF file"):
        elf.read(data)


@pytest.mark.parametrize("share", [0.00001, 0.0001, 0.001, 0.3, 0.9, 0.9999])
def test_a_file_that_is_cut_short_is_refused(share: float) -> None:
    with pytest.raises(elf.ElfError, match=r"damaged|cut short"):
        elf.read(WHOLE[: int(len(WHOLE) * share)])
