"""Runs in workers of test_some.py, in which Triton interprets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portakern.backend import Source
from portakern.backends.triton import triton_language
from portakern.check import blocks
from portakern.check.blocks import check_blocks
from portakern.ir.tensor import TensorProgram


def checked(source: Source, program: TensorProgram, sizes: Mapping[str, int], most: int, seconds: float = 20.0) -> Any:
    """How many programs there are; whether some of them are right, which part of the outputs they write, and how."""
    assert triton_language.simulator is not None
    executable: Any = triton_language.simulator.load(source, None)
    blocks.BLOCKS, blocks.BLOCKS_S = most, seconds
    found = check_blocks(executable, program, sizes)
    count = executable.blocks(sizes)
    return (count, found.verdict.correct, found.part, found.method) if found is not None else (count, None, None, "")
