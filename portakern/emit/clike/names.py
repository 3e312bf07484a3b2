"""Names of an emitted kernel: unique, and none of C++'s own."""

from __future__ import annotations

import re

from portakern.ir.functions import BINARY, UNARY

KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept
    not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor xor_eq""".split()  # noqa: SIM905
)
"""Keywords of C++20, which those of C are among but for ``restrict``."""

RESERVED = KEYWORDS | UNARY.keys() | BINARY.keys() | frozenset(
    """restrict main pk half
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t INFINITY NAN
    tan fmax fmin y0 y1 yn j0 j1 jn
    item grid block threadIdx blockIdx blockDim gridDim std sycl kernel index rint exp10 step mix
    clamp degrees radians cross dot length distance normalize select any all isinf bitcast fill load store map put
    stage commit wait sync left fma mad global local constant NULL PK_INLINE
    Cluster blocks dynamic_shared lower outbox pipe query right rows tile tiles turns upper wave_col wave_row
    writer""".split()  # noqa: SIM905
)
"""Keywords, functions, names of the C library or of a platform that must keep their meaning, and what printers declare."""


def reserved(name: str) -> bool:
    """Whether a text in C++ cannot have a name of its own that is called so."""
    return name in RESERVED or name.startswith("__")


def size_name(size: str) -> str:
    """The parameter of an open dim: called as the dim is, unless C++ has taken that name."""
    return f"{size}_" if reserved(size) else size


class CNames:
    """Hands out names that were not taken yet."""

    def __init__(self, taken: set[str] | None = None) -> None:
        self.taken = set(taken or ())

    def fresh(self, *wishes: str) -> str:
        """The first of ``wishes`` that is free; else the last one with a number."""
        tidy = [identifier(w) for w in wishes]
        for wish in tidy:
            if wish not in self.taken and not reserved(wish):
                self.taken.add(wish)
                return wish
        n = 2
        while f"{tidy[-1]}{'_' if tidy[-1][-1].isdigit() else ''}{n}" in self.taken:
            n += 1
        name = f"{tidy[-1]}{'_' if tidy[-1][-1].isdigit() else ''}{n}"
        self.taken.add(name)
        return name


def identifier(text: str) -> str:
    """``text`` with everything that C does not allow in a name replaced."""
    clean = re.sub(r"\W", "_", text)
    return clean if clean and not clean[0].isdigit() else f"v{clean}"
