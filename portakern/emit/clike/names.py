"""Names of an emitted kernel: unique, and none of C++'s own."""

from __future__ import annotations

import re
from dataclasses import replace

from portakern.ir.functions import BINARY, UNARY
from portakern.ir.program import Program

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


LIBRARY = frozenset(
    """abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh div erf erfc exp exp2 expm1 fabs fdim
    floor fma fmod frexp hypot ilogb j0 j1 jn labs ldexp lgamma log log10 log1p log2 logb lrint lround modf nan
    nearbyint nextafter pow remainder remquo rint round scalbn sin sinh sqrt tan tanh tgamma trunc y0 y1 yn gamma drem
    significand sincos norm rnorm rsqrt abort atexit atoi bsearch calloc clock close dup exit fork free getenv index
    kill link malloc memchr memcmp memcpy memmove memset open pause pipe printf putchar puts qsort raise rand random
    read realloc remove rename select send signal sleep socket srand strcmp strcpy strlen strtol system time wait
    write""".split()  # noqa: SIM905
)
"""Functions of the C library, of CUDA's and of its like: a kernel that is called so would be another form of them, or be called
in their place."""


def means_something(name: str) -> bool:
    """Whether a function of the text cannot be called so."""
    return reserved(name) or name in LIBRARY


def with_own_names(program: Program) -> Program:
    """``program`` without kernels that are called as a keyword or a function is: an operator may be, ``exp`` or ``kernel``."""
    taken = {k.name for k in program.kernels}

    def own(name: str) -> str:
        if not means_something(name):
            return name
        return next(n for n in (f"{name}_kernel{i}" for i in ("", *range(2, len(taken) + 3))) if n not in taken)

    if all(own(k.name) == k.name for k in program.kernels):
        return program
    return replace(program, kernels=tuple(replace(k, name=own(k.name)) for k in program.kernels))


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
