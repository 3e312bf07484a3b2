"""Program binaries with the device they are for: drivers take binaries of another CPU or version for theirs.

The driver (driver/opencl_kernel.cpp) reads the same form: two lines, then what clGetProgramInfo gave.
"""

from __future__ import annotations

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
