"""Foreign HIP text as a source of portakern's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from portakern.backend import Source, Target
from portakern.emit.clike import read_headers
from portakern.emit.launches import ARRAY_FORM, FORM, adopt_launches
from portakern.emit.strangers import FOREIGN
from portakern.errors import UsageError
from portakern.ir.program import Program

from .emitter import HEADERS
from .toolchain import CALLED, TEXT

CONVENTION = f"""\
HIP C++ with one or more `__global__` kernels, each announced by a comment line with its launch, in launch order:
`{FORM}`
(NAME may be an instance of a template: gemm<float,32>.)
(grid in blocks: integers or Python expressions of open dims; args: the operator's arrays, then run-time scalars, then open
dims as int64_t, in the order of the kernel's parameters). Arrays that one kernel leaves for another are announced by
`{ARRAY_FORM}`, where init may be left out. It is compiled by clang without ROCm's headers: include
"pk/device.h" for __global__, __shared__, blockIdx, threadIdx, barriers and lane exchange, or "pk/pk.h" for the tile
vocabulary; <hip/hip_runtime.h>, <hip/hip_fp16.h>, <hip/hip_bf16.h> and
<hip/hip_cooperative_groups.h> are short stand-ins; C's and C++'s standard headers and the amdgcn builtins are there, and host
functions are read past."""


def adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    """Raises :class:`UsageError` where launch comments are missing, malformed or name what the operator does not have."""
    plain, instances = _without_arguments(text)
    made = adopt_launches(plain, entry, program, target, ".hip", CONVENTION, headers_of(text))
    options = ((FOREIGN, TEXT), *(((CALLED, tuple(instances.items())),) if instances else ()))
    return replace(made, text=with_instances(text, instances.values()), options=options)


def _without_arguments(text: str) -> tuple[str, dict[str, str]]:
    """Launch comments that name ``gemm<float,32>`` name ``gemm`` instead; and by that name what it stands for."""
    found: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        if found.setdefault(match[2], match[2] + match[3]) != match[2] + match[3]:
            raise UsageError(f"launch comments name two instances of the template {match[2]}",
                             hint="give each a kernel of its own that calls it")  # fmt: skip
        return match[1] + match[2]

    return re.sub(r"^([^\S\n]*//[^\S\n]*portakern launch:.*?kernel=)(\w+)(<\S*>)", plain, text, flags=re.MULTILINE), found


def with_instances(text: str, names: Iterable[str]) -> str:
    """The text, and uses of these instances of its templates, which perhaps none of its host functions launches."""
    uses = " ".join(f"(void)&{name};" for name in names)
    return f"{text}\nvoid portakern_uses_these() {{ {uses} }}\n" if uses else text


def headers_of(text: str) -> tuple[tuple[str, str], ...]:
    """Ours, and the stand-ins for ROCm's where the text includes any."""
    found = read_headers(HEADERS)
    return (*found, *read_headers(HEADERS.parent / "hip", "hip")) if re.search(r"#\s*include\s*[<\"]hip/", text) else found
