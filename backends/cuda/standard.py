"""C's and C++'s standard headers for NVRTC, which brings none: what device code takes of them comes from CCCL, the rest is
empty since the host's side is not compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OVER = {
    "cmath": "cmath", "math.h": "cmath", "limits": "limits", "type_traits": "type_traits", "utility": "utility",
    "tuple": "tuple",
    "array": "array", "functional": "functional", "algorithm": "algorithm", "numeric": "numeric", "bit": "bit",
    "complex": "complex", "optional": "optional", "cassert": "cassert", "assert.h": "cassert", "cfloat": "cfloat",
    "float.h": "cfloat", "climits": "climits", "limits.h": "climits", "cstddef": "cstddef", "stddef.h": "cstddef",
    "initializer_list": "initializer_list", "concepts": "concepts",
}  # fmt: skip
"""Standard headers over those of ``cuda/std``."""

_CUB = ("warp/warp_reduce", "warp/warp_scan", "block/block_reduce", "block/block_scan", "block/block_load", "block/block_store",
        "block/block_radix_sort", "block/block_exchange")  # fmt: skip

_INTEGERS = ("cstdint", "stdint.h", "inttypes.h", "cinttypes")
_EMPTY = (
    "iostream", "fstream", "sstream", "iomanip", "ostream", "istream", "string", "string.h", "cstring", "vector", "map",
    "set", "unordered_map", "unordered_set", "list", "deque", "queue", "stack", "memory", "random", "chrono", "thread",
    "mutex", "atomic", "exception", "stdexcept", "cstdio", "stdio.h", "cstdlib", "stdlib.h", "ctime", "time.h",
    "filesystem", "format", "ranges", "numbers", "iterator", "new", "errno.h", "cerrno", "unistd.h", "sys/time.h",
    "omp.h", "optional", "variant", "any", "regex", "future", "condition_variable", "typeinfo", "typeindex",
    "string_view", "span", "locale", "bitset", "valarray", "version",
)  # fmt: skip

_STD = "namespace cuda { namespace std {} }\nnamespace std { using namespace cuda::std; }\n"
_WIDTHS = "\n".join(f"using cuda::std::{u}int{n}_t;" for u in ("", "u") for n in (8, 16, 32, 64))
_CONSTANTS = """
#ifndef M_PI
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_1_PI 0.31830988618379067154
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#endif
"""

_OF_THE_TOOLKIT = ("stdlib.h", "stdint.h", "stddef.h", "string.h", "limits.h", "math.h")
"""What headers of the toolkit include that are read by device code too, such as ``cuda.h``."""

ALWAYS = "portakern_host_words.h"
"""What nvcc's texts have without asking, since it includes C's headers first; given to NVRTC as ``--pre-include``."""

_ALWAYS = f"""#pragma once
#include <cuda/std/cstdint>
{_STD}{_WIDTHS}
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#define DBL_EPSILON 2.2204460492503131e-016
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 0xffffffffu
#define LLONG_MAX 0x7fffffffffffffffll
{_CONSTANTS}"""

_INCLUDE = re.compile(r'^[^\S\n]*#[^\S\n]*include[^\S\n]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_HOST_LIBRARY = re.compile(r"(?:torch|ATen|c10|pybind11|thrust|cublas|cublasLt|cudnn|curand|nvToolsExt|nvtx3)\b.*")
"""Whose headers NVRTC cannot read; only host functions are expected to use them."""


def standard_headers(*texts: str) -> tuple[tuple[str, str], ...]:
    """(name, text) of those headers that the texts include and that are not the toolkit's, behind :data:`ALWAYS`."""
    named = dict.fromkeys([*_OF_THE_TOOLKIT, *(name for text in texts for name in _INCLUDE.findall(text))])
    return (ALWAYS, _ALWAYS), *tuple((name, text) for name in named for text in _text(name))


def _text(name: str) -> Iterator[str]:
    if name == "cub/cub.cuh":  # which asks for its device's parts one by one under NVRTC
        yield "#pragma once\n" + "\n".join(f"#include <cub/{part}.cuh>" for part in _CUB) + "\n"
    elif name in _OVER:
        yield f"#pragma once\n#include <cuda/std/{_OVER[name]}>\n"
    elif name in _INTEGERS or name in _EMPTY or (_HOST_LIBRARY.fullmatch(name) and not name.startswith("curand_kernel")):
        yield "#pragma once\n"
