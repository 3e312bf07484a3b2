"""Shared memory that only a compiler counts in the end: too much of it is the schedule's fault, with the operator's line."""

from __future__ import annotations

from dataclasses import replace

import pytest

import portakern as pk
from portakern.errors import CompileError, ScheduleError
from portakern.registry import registry

pytestmark = pytest.mark.quick

ROOM = {"cuda:sm_80": 49152, "hip:gfx942": 65536}
"""Bytes that a kernel may declare: 48 KB (CUDA C++ Programming Guide, "Shared Memory"), 64 KB of LDS (CDNA3 ISA)."""


@pytest.mark.parametrize("target", ROOM)
def test_a_kernel_without_room_blames_its_schedule(target: str) -> None:
    found = registry().target(target)
    toolchain = registry().language(found.language).toolchain
    assert toolchain is not None
    if not (available := toolchain.available(found)):
        pytest.skip(available.detail)
    source = pk.build("row_sum", target=target, M=64, N=300)._source
    first, _, rest = source.text.rpartition(f"{source.launches[0].kernel}(")
    head, brace, body = rest.partition("{\n")
    more = f"  __shared__ volatile float much[{ROOM[target]}]; much[threadIdx.x] = 1; if (much[threadIdx.x ^ 5] < 0) return;\n"
    large = replace(source, text=f"{first}{source.launches[0].kernel}({head}{brace}{more}{body}")
    with pytest.raises(ScheduleError, match=rf"row_sum.py:\d+: row_sum takes \d+ bytes .* has {ROOM[target]}") as told:
        toolchain.compile(large)
    assert told.value.schedule == str(source.schedule[0])
    with pytest.raises(CompileError):  # a text from elsewhere has no schedule
        toolchain.compile(replace(large, schedule=()))
