"""Program binaries with the device they are for: drivers take binaries of another CPU or version for theirs.

The driver (driver/opencl_kernel.cpp) reads the same form: two lines, then what clGetProgramInfo gave.
"""

from __future__ import annotations

import re

from portakern.tools import elf

HEADING = b"portakern opencl program\n"
FORMAT = "opencl-program"


def pack(device: str, data: bytes) -> bytes:
    """``data``, built for the device so described (see :func:`portakern.backends.sycl.opencl.platforms.describe`)."""
    return HEADING + device.encode() + b"\n" + data


def built_for(binary: bytes) -> str:
    """The description of the device; empty for bytes of another form."""
    if not binary.startswith(HEADING):
        return ""
    return binary[len(HEADING) :].partition(b"\n")[0].decode(errors="replace")


def content(binary: bytes) -> bytes:
    """What follows the two lines."""
    return binary[len(HEADING) :].partition(b"\n")[2]


_OF_THE_COMPILER = re.compile(r"__(ocl|opencl)_\w+|__l?prefetch|mem(cpy|set|move|cmp)|"
                              r"__(trunc|extend|fix|float)\w+|__u?(div|mod|divmod|mul)[sdt]i\d")  # fmt: skip
"""What the compiler's own code wants of the runtime: its mathematics, printf, conversions, division of long integers."""
_OBJECT = ".ocl.obj"


def helpers(binary: bytes) -> tuple[str, ...]:
    """What the kernels of a binary of Intel's driver want of the process that they are loaded into, beside what the compiler
    wants for them: the driver finds them any function there is, of libc and of whatever was imported."""
    data = content(binary)
    if not data or not data.startswith(b"\x7fELF"):
        return ()  # nothing to run, or of a driver whose binaries are not read
    try:
        held = next((s.data for s in elf.read(data).sections if s.name == _OBJECT), b"")
        tables = elf.read(held).symbols.values()
    except elf.ElfError:
        return ("what no reader of ELF files understands",)
    return tuple(dict.fromkeys(s.name for table in tables for s in table
                               if s.name and not s.defined and not _OF_THE_COMPILER.fullmatch(s.name)))  # fmt: skip
