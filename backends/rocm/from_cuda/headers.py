"""CUDA's headers by their names, over the stand-ins for HIP's."""

from __future__ import annotations

import re
from pathlib import Path

from portakern.emit.clike import read_headers

from ..emitter import HEADERS

FIRST = "cuda_runtime.h"
_OVER = {
    "cuda.h": FIRST, "cuda_runtime_api.h": FIRST, "device_launch_parameters.h": FIRST, "device_functions.h": FIRST,
    "vector_types.h": FIRST, "vector_functions.h": FIRST, "device_atomic_functions.h": FIRST, "sm_30_intrinsics.h": FIRST,
    "crt/host_defines.h": FIRST, "math_functions.h": FIRST, "cuda_fp16.hpp": "cuda_fp16.h", "cuda_bf16.hpp": "cuda_bf16.h",
    "cooperative_groups.h": "hip/hip_cooperative_groups.h", "cooperative_groups/reduce.h": "hip/hip_cooperative_groups.h",
}  # fmt: skip
_HOST_LIBRARY = re.compile(r"(?:torch|ATen|c10|pybind11|cublas|cublasLt|cudnn|cusparse|nvToolsExt|nvtx3|helper_cuda)\b.*")
"""Only host functions are expected to use them, and those are not compiled."""
_INCLUDE = re.compile(r'^[^\S\n]*#[^\S\n]*include[^\S\n]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def cuda_headers(*texts: str) -> tuple[tuple[str, str], ...]:
    """(name, text) of all that CUDA's texts may include, and of empty ones for the host libraries that ``texts`` name."""
    root = HEADERS.parent
    own = tuple((f.name, f.read_text()) for f in sorted(Path(root / "cuda").glob("*.h")))
    over = tuple((name, f'#pragma once\n#include "{FIRST}"\n#include "{of}"\n') for name, of in _OVER.items())
    named = dict.fromkeys(n for text in texts for n in _INCLUDE.findall(text) if _HOST_LIBRARY.fullmatch(n))
    return (*read_headers(HEADERS), *read_headers(root / "hip", "hip"), *own, *over, *((n, "#pragma once\n") for n in named))
