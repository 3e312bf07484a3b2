"""The C and C++ standard headers for texts from elsewhere: their host code is read past, though nothing of it is
compiled.

The ziglang wheel carries libc++ and musl, so that a machine without a C library's headers reads the same text in the same way;
other compilers have headers of their own.
"""

from __future__ import annotations

from pathlib import Path

HOST = "x86_64-unknown-linux-musl"
"""What the host's side is read for, whatever machine this is."""

_FOLDERS = ("libcxx/include", "libcxxabi/include", "include", "libc/include/x86_64-linux-musl", "libc/include/generic-musl",
            "libc/include/x86-linux-any", "libc/include/any-linux-any")  # fmt: skip

_CONFIGURATION = ("ABI_VERSION=1", "ABI_NAMESPACE=__1", "HAS_THREADS=1", "HAS_MONOTONIC_CLOCK=1", "HAS_MUSL_LIBC=1",
                  "HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0", "HAS_FILESYSTEM=1", "HAS_RANDOM_DEVICE=1", "HAS_LOCALIZATION=1",
                  "HAS_UNICODE=1", "HAS_WIDE_CHARACTERS=1", "HAS_TERMINAL=1", "DISABLE_VISIBILITY_ANNOTATIONS=1",
                  "PSTL_BACKEND_SERIAL=1", "HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
                  "ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE")  # fmt: skip
"""What libc++ has in ``__config_site`` and zig passes as macros."""


def standard_headers(zig: Path) -> tuple[str, ...]:
    """Flags that name the wheel's headers; ``zig`` is its executable."""
    library = zig.parent / "lib"
    folders = [word for name in _FOLDERS for word in ("-isystem", str(library / name))]
    return (f"--target={HOST}", "-nostdinc", *(f"-D_LIBCPP_{x}" for x in _CONFIGURATION), *folders)
