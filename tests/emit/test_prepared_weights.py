"""Both parts of a program whose weights are prepared apart, in every language: emitted, and run as one against the oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest

import portakern as pk
from portakern.backend import Source, Target
from portakern.check import check_executable
from portakern.launch.hoisted import HoistedExecutable, Part
from portakern.registry import registry
from portakern.study import steps
from portakern.study.work import Problem, Work, works

T = pk.Tensor

LANGUAGES = list({t.language: t for t in registry().match("*:*")}.values())
RUN = ["cpp:cpu", "opencl:cpu", "sycl:cpu", "hip:gfx942"]
"""Where that is quick and needs no process of its own; numba's turn is in tests/torch_import."""


@pk.operator
def normalised(x: T["M", "K"], w: T["K", "N"], s: T["N"], shift: pk.Scalar[pk.f32]):
    v = pk.cumsum(w, axis=0)
    return pk.matmul(x, v / (pk.sum(v * v, axis=0, keepdims=True) + 1.0)) * s + shift, pk.sum(x, axis=0)


def asked(target: Target) -> Work:
    (work,) = works(Problem(normalised, {"K": 16, "N": 24}, {}), [target], ["f32"])
    return replace(work, weights=("w", "s"), sizes={"M": 5})


@pytest.mark.quick
@pytest.mark.parametrize("target", LANGUAGES, ids=str)
def test_both_parts_are_emitted(target: Target):
    found = steps.emission(asked(target))
    assert found.preparation is not None
    source, program = found.preparation
    assert [a.name for a in source.by_role("input", "scalar")] == ["w"]
    handed = [a.name for a in program.by_role("output")]
    assert handed and [a.name for a in found.source.by_role("input", "scalar")] == ["x", "s", *handed, "shift"]
    assert found.program.name == "normalised" and source.operator == "normalised_weights"
    assert steps.emission(replace(asked(target), weights=())).preparation is None


@pytest.mark.parametrize("name", RUN)
def test_both_parts_are_right_as_one(name: str):
    work = asked(registry().target(name))
    target = registry().target(name)
    language = registry().language(target.language)
    runner, why = steps.runner_for(language, target)
    if not runner or (language.toolchain is not None and not language.toolchain.available(target)):
        pytest.skip(f"{name}: {why or 'nothing compiles for it'}")
    found = steps.emission(work)
    assert found.preparation is not None

    def part(source: Source) -> Part:
        key = steps.compile_cached(language, source)[0] if language.toolchain is not None else ""
        return Part(source, steps.load(source, key, runner))

    both = HoistedExecutable(part(found.preparation[0]), part(found.source), [a.name for a in work.program.args])
    verdict = check_executable(both, work.program, work.sizes, adversarial=("sparse",))
    assert verdict.correct, verdict.message
