"""Comments that announce arrays: read back as they were written, and refused with what is wrong."""

from __future__ import annotations

import time

import pytest

from portakern.emit.launches import adopt_launches, array_comments, parse_arrays
from portakern.errors import UsageError
from portakern.ir.program import Array, Program
from portakern.ir.tile_types import BufferType
from portakern.registry import registry
from portakern.study import steps
from tests.judge.judges import task_of

pytestmark = pytest.mark.quick

KNOWN = (Array("x", BufferType((4, 8), "f32"), "input"), Array("out", BufferType((4,), "f32"), "output", 3.0))


@pytest.mark.parametrize("target", ["opencl:cpu", "sycl:cpu", "cuda:sm_90a", "hip:gfx942"])
@pytest.mark.parametrize(("operator", "dims"), [("cross_entropy", {"M": 6, "N": 40}), ("row_sum", {"M": 0, "N": 40})])
def test_kernels_to_start_from_are_taken_back(target: str, operator: str, dims: dict[str, int]):
    """Of several kernels, and of none where nothing is asked for."""
    work = task_of(target, operator, dims).work
    made = steps.emission(work).source
    language = registry().language(made.target.language)
    program = steps.lowered(work, made.target)
    taken = steps.read_text(language, made.text, None, program, made.target)
    assert {a for a in taken.arrays if a.role == "temporary"} == {a for a in made.arrays if a.role == "temporary"}
    assert [a.init for a in taken.arrays if a.role == "output"] == [a.init for a in made.arrays if a.role == "output"]
    assert taken.launches == made.launches


def test_what_arrays_are_filled_with_is_what_the_text_says():
    assert [a.init for a in parse_arrays("", KNOWN)] == [None, None]
    told = (*KNOWN, Array("t", BufferType((), "i32"), "temporary", float("-inf")))
    assert parse_arrays("\n".join(array_comments(told)), KNOWN) == told


@pytest.mark.parametrize(("line", "says"), [
    ("x init=0", "x is an input"), ("t dtype=f32", "shape"), ("t dtype=f7 shape=(3)", "no dtype f7"),
    ("t dtype=f32 shape=(3,\n", "no list"), ("t dtype=f32 shape=(1000000, 10000000)", "an array of"),
    ("out init=none", "none"), ("out init=0\n// portakern array: out init=1", "twice"),
    (f"t dtype=f32 shape=({'9' * 5000})", "4096 characters")])  # fmt: skip
def test_what_is_wrong_is_said(line: str, says: str):
    with pytest.raises(UsageError, match=says):
        parse_arrays(f"// portakern array: {line}", KNOWN)


def test_a_text_of_thousands_of_launches_is_read_in_seconds():
    """Who judges reads it."""
    line = "// portakern launch: kernel=row_sum grid=(1,) block=(1,) shared=0 args=(x, out)\n"
    program, target = Program("row_sum", KNOWN, ()), registry().target("opencl:cpu")
    begun = time.process_time()
    adopt_launches(line * 3000 + "void row_sum(int a) { }", None, program, target, ".cl", "")
    assert time.process_time() - begun < 20  # it took 60
    with pytest.raises(UsageError, match="4096"):
        adopt_launches(line * 5000, None, program, target, ".cl", "")
