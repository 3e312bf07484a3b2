"""Some programs of a launch, interpreted alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from portakern.backend import Source
from portakern.backends.triton import triton_language
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from portakern.study import steps
from portakern.study.work import Problem, works
from portakern.tools.workers import WorkerPool
from tests.triton import support

pytest.importorskip("triton")
pytest.importorskip("torch")


@pytest.fixture(scope="module")
def interpreter() -> Iterator[WorkerPool]:
    with WorkerPool(1, env=support.environment(triton_language), preload=("torch", "triton")) as pool:
        yield pool


def emitted(operator: str, dims: Mapping[str, Any], dtype: str = "f32", **schedule: Any) -> tuple[Source, Any]:
    problem = Problem(load_operator(operator), dims, {})
    (work,) = works(problem, [registry().target("triton:sm_90")], [dtype], schedule=schedule or "default")
    return steps.emission(work).source, work.program


def checked(interpreter: WorkerPool, source: Source, program: Any, sizes: Mapping[str, int] = {}, most: int = 2,
            seconds: float = 20.0) -> tuple[int, bool | None, float | None, str]:  # fmt: skip
    return interpreter.call("tests.triton.launch.some_jobs:checked", source, program, dict(sizes), most, seconds)


@pytest.mark.parametrize(("operator", "dims", "sizes", "schedule"), [
    ("softmax", {"M": 70, "N": 33}, {}, {}),
    ("matmul", {"M": 130, "N": 200, "K": 64}, {}, {"m": 32, "n": 64, "k": 16}),
    ("layer_norm", {"M": dynamic, "N": 130}, {"M": 61}, {}),
    ("matmul", {"M": 130, "N": 200, "K": 64}, {}, {"m": 32, "n": 32, "k": 16, "programs": 4}),
])  # fmt: skip
def test_some_programs_are_right_in_their_part(operator: str, dims: Mapping[str, Any], sizes: Mapping[str, int],
                                               schedule: Mapping[str, Any], interpreter: WorkerPool) -> None:  # fmt: skip
    count, correct, part, method = checked(interpreter, *emitted(operator, dims, **schedule), sizes)
    assert count > 2 and correct and part is not None and 0 < part < 0.8
    assert f"2 of {count} blocks ran" in method


def test_none_begins_when_the_time_is_over(interpreter: WorkerPool) -> None:
    count, correct, _, method = checked(interpreter, *emitted("softmax", {"M": 70, "N": 33}, m=1), most=64, seconds=0.0)
    assert correct and f"1 of {count} blocks ran" in method


@pytest.mark.parametrize(("right", "wrong"), [
    ("x_ptr + m[:, None] * N", "x_ptr + (m[:, None] % 31) * N"), ("tl.where((n < N)[None, :], exp_x, 0.0)", "exp_x + 0.01")])
def test_what_they_do_wrong_is_found(right: str, wrong: str, interpreter: WorkerPool) -> None:
    source, program = emitted("softmax", {"M": 70, "N": 33})
    spoiled = replace(source, text=source.text.replace(right, wrong))
    assert spoiled.text != source.text
    assert checked(interpreter, spoiled, program)[1] is False


def test_programs_that_need_others_are_not_taken_alone(interpreter: WorkerPool) -> None:
    """The second launch adds what programs of the first one left."""
    source, program = emitted("matmul", {"M": 64, "N": 64, "K": 512}, m=32, n=32, k=32, split_k=4)
    assert checked(interpreter, source, program)[:2] == (0, None)
