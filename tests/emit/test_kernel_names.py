"""Operators may be called as a keyword, a function of a language's library or a helper of an emitted text is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

import portakern as pk
from portakern.emit.clike.names import with_own_names
from portakern.ir.program import Program
from portakern.registry import registry
from portakern.study import steps
from portakern.study.work import Problem, works

TARGETS = ("cpp:cpu", "numba:cpu", "opencl:cpu", "sycl:cpu", "hip:gfx942", "cuda:sm_90a", "triton:sm_90", "pallas:v5e")
NAMES = ("expm1", "kernel", "free", "jnp", "np")


def called(name: str):
    def function(x: pk.Tensor["M", "N"]):  # type: ignore[valid-type]
        return pk.expm1(x), pk.prod(x, axis=1)

    function.__name__ = function.__qualname__ = name
    return pk.operator(function)


@pytest.mark.parametrize(("turn", "target"), [*enumerate(TARGETS)])
def test_what_an_operator_is_called_changes_nothing(turn: int, target: str) -> None:
    """One of the names in each language, in turns."""
    assert_nothing_changes(target, {NAMES[turn % len(NAMES)]})


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_no_name_changes_anything(target: str) -> None:
    assert_nothing_changes(target, NAMES)


def assert_nothing_changes(target: str, names: Iterable[str]) -> None:
    rows = [pk.check(called(name), [target], shape="M=5,N=7").rows[0] for name in sorted(names)]
    if any(r.error and r.error["kind"] == "tool-missing" for r in rows):
        pytest.skip(f"needs the compiler of {target}")
    assert {r.operator: r.error for r in rows if r.error} == {}
    assert all(r.correct for r in rows if r.evidence not in ("compiled", "emitted"))


@pytest.mark.quick
def test_kernels_get_another_name_only_where_theirs_is_taken() -> None:
    def lowered(name: str) -> Program:
        (work,) = works(Problem(called(name), {"M": 5, "N": 7}, {}), [registry().target("cuda:sm_90a")], ["f32"], "default")
        return steps.emit(work)[1]

    program = lowered("softly")
    assert with_own_names(program) is program
    alone = replace(program, kernels=tuple(replace(k, name="kernel") for k in program.kernels[:1]))
    assert [k.name for k in with_own_names(alone).kernels] == ["kernel_kernel"]
    both = replace(program, kernels=(alone.kernels[0], replace(alone.kernels[0], name="kernel_kernel")))
    assert [k.name for k in with_own_names(both).kernels] == ["kernel_kernel2", "kernel_kernel"]
