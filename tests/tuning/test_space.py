"""Spaces, what is refused and ranked before compiling, and who proposes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from portakern.api import one
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.registry import registry
from portakern.tuning import proposers
from portakern.tuning.cost import cost
from portakern.tuning.limits import refused
from portakern.tuning.space import Space, nest_space, space_of, text
from portakern.tuning.tuner import nests_of
from tests.tuning.bench import work_of

pytestmark = pytest.mark.quick

H200 = one("cuda:h200").device
CPU = one("numba:cpu").device


def of(name: str = "add_relu", target: str = "cuda:h200", **dims: int) -> Space:
    work = work_of(name, target, "f32" if name == "cross_entropy" else "bf16", **dims)
    return space_of(nests_of(work), registry().language(work.target.partition(":")[0]), one(target).device)


def rows(m: int = 4096, n: int = 8192, passes: int = 2, live: int = 2) -> Nest:
    axes = (NestAxis("m", "parallel", m), NestAxis("n", "reduced", n, True))
    return Nest("rows", axes, "bf16", "f32", live=live, passes=passes)


def product(m: int = 4096, n: int = 4096, k: int = 4096) -> Nest:
    axes = tuple(NestAxis(a, a, e, a == "n") for a, e in (("m", m), ("n", n), ("k", k)))
    return Nest("contraction", axes, "bf16", "f32", dots="bf16")


def tiled(nest: Nest, *tiles: int, warps: int = 8, stages: int = 1) -> Schedule:
    return Schedule(tuple((a.name, t) for a, t in zip(nest.axes, tiles, strict=True)), stages, warps)


# ---- the space


def test_points_and_values_are_each_others_inverse():
    space = of("matmul", M=4096, N=4096, K=4096)
    rng = random.Random(0)
    for _ in range(50):
        point = space.random(rng)
        assert space.point(space.values(point)) == point
    assert space.point({}) in list(space.all())[:1]


def test_the_listed_schedules_are_in_the_space_default_first():
    space = of("softmax")
    listed = list(space.listed())
    assert listed[0] == space.default and set(listed) <= set(space.all())
    assert space.size == len(list(space.all())) > len(listed)


def test_declared_values_are_choices_of_their_parameter():
    nest = rows()
    listed = [tiled(nest, 1, 8192)]
    declared = {"parallel": (1, 2), "warps": (8, 16), "order": ("up", "down")}
    space = nest_space(nest, listed, declared, H200)
    assert space.choices["tile m"] == (1, 2) and space.choices["warps"] == (8, 16)
    assert space.choices["option order"] == ("unset", "up", "down")
    plain = space.schedule({"tile m": 2, "tile n": 8192, "warps": 8, "stages": 1, "option order": "unset"})
    assert plain == tiled(nest, 2, 8192)


def test_programs_of_several_kernels_are_one_space():
    space = of("cross_entropy", M=64, N=512)
    assert len(space.nests) == len(space.default) > 1
    assert {name.partition("/")[0] for name in space.parameters} >= {"0"}
    assert "; " in text(space.default)


# ---- limits and the cost model


def test_what_the_device_cannot_hold_is_refused():
    assert refused(rows(), tiled(rows(), 1, 8192, warps=64), H200) == "more threads than a block may have"
    assert refused(rows(), tiled(rows(), 16, 8192, warps=8), H200) == "tiles larger than the registers of a block"
    assert refused(product(), tiled(product(), 256, 256, 256, stages=5), H200) == "more shared memory than a block may have"
    assert refused(rows(), tiled(rows(), 1, 8192), H200) == ""
    assert refused(rows(), tiled(rows(), 64, 8192), CPU) == "", "words of GPUs say nothing about a CPU"


def test_long_work_on_many_elements_a_thread_is_refused():
    search = replace(rows(), work=250)
    assert refused(search, tiled(search, 1, 8192, warps=4), H200) == ""
    assert refused(search, tiled(search, 2, 8192, warps=4), H200) == "more operations in a step than compilers write out"


def test_products_that_a_compiler_would_write_out_for_minutes_are_refused():
    wide = replace(product(), io_dtype="f32", dots="f32")
    assert refused(wide, tiled(wide, 128, 128, 128), H200) == ""
    assert refused(wide, tiled(wide, 128, 128, 128, warps=4), H200) == "more multiply-adds in a step than compilers write out"
    assert refused(product(), tiled(product(), 128, 128, 128, warps=4), H200) == "", "matrix units take many at once"
    assert refused(product(), tiled(product(), 256, 16, 128, warps=1), H200) == "operands of twice the registers of a block"


def test_scores_of_attention_are_held_beside_its_result():
    axes = tuple(NestAxis(role, role, e) for role, e in (("m", 129), ("n", 129), ("k", 64), ("d", 64)))
    scores = Nest("attention", axes, "bf16", "f32", dots="bf16", scores="bf16")
    assert refused(scores, tiled(scores, 128, 64, 64, 64, warps=4), H200) == ""
    assert refused(scores, tiled(scores, 128, 256, 64, 64, warps=4), H200) == "tiles larger than the registers of a block"


def test_every_listed_schedule_passes_the_limits():
    for target in ("cuda:h200", "triton:h200", "hip:mi300x"):
        for name, dims in {"add_relu": {}, "softmax": {}, "transpose": {}, "matmul": dict(M=4096, N=4096, K=4096),
                           "attention": dict(B=4, H=8, G=1, SQ=4096, SK=4096, D=128)}.items():  # fmt: skip
            space = of(name, target, **dims)
            assert not any(space.refused(p) for p in space.listed()), (target, name)


@pytest.mark.parametrize(("better", "worse", "nest"), [
    (tiled(rows(), 1, 8192), tiled(rows(passes=3), 1, 512, warps=1), rows(passes=3)),  # one pass of two
    (tiled(product(), 128, 128, 64, stages=3), tiled(product(), 16, 16, 64, stages=3), product()),  # operands read again
    (tiled(rows(100), 1, 8192), tiled(rows(100), 64, 8192, warps=16), rows(100)),  # units left idle
])  # fmt: skip
def test_the_model_ranks(better: Schedule, worse: Schedule, nest: Nest):
    one_, other = cost(nest, better, H200), cost(nest, worse, H200)
    assert one_ is not None and other is not None and one_.us < other.us


def test_a_device_without_figures_has_no_model():
    assert cost(rows(), tiled(rows(), 1, 8192), CPU) is None
    assert cost(rows(), tiled(rows(), 1, 8192), one("cuda:sm_90a").device) is None


# ---- proposers


def test_small_spaces_are_tried_whole_and_nothing_twice():
    space = of("softmax")
    proposer = proposers.proposer_for(space).proposer
    assert proposer.name == "exhaustive"
    asked = []
    while (point := proposer.ask()) is not None:
        asked.append(point)
    assert len(asked) == len(set(asked)) == space.size and asked[0] == space.default


@pytest.mark.parametrize("name", ["random", "tpe"])
def test_large_spaces_are_sampled_without_repeats_and_seeded(name: str):
    if name == "tpe":
        pytest.importorskip("optuna")
    space = of("matmul", M=4096, N=4096, K=4096)

    def asked(seed: int) -> list[str]:
        proposer = proposers.proposer_for(space, seed, name).proposer
        found = []
        for i in range(60):
            point = proposer.ask()
            assert point is not None
            found.append(text(point))
            proposer.tell(point, None if i % 7 == 0 else 1 + i % 5)
        return found

    first = asked(1)
    assert len(set(first)) == 60 and first == asked(1) and first != asked(2)
    assert first[0] == text(space.default)


def test_the_optimiser_learns():
    """Where small n is better, it proposes more of it than chance would."""
    pytest.importorskip("optuna")
    space = of("matmul", M=4096, N=4096, K=4096)
    proposer = proposers.Tpe(space, seed=0)
    late = []
    for i in range(140):
        point = proposer.ask()
        assert point is not None
        proposer.tell(point, float(point[0].tile("n") + point[0].tile("m")))
        if i >= 90:
            late.append(point[0].tile("n") + point[0].tile("m"))
    chance = [space.random(random.Random(i))[0] for i in range(300)]
    assert sum(late) / len(late) < 0.5 * sum(s.tile("n") + s.tile("m") for s in chance) / 300


def test_without_an_optimiser_it_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(proposers.importlib.util, "find_spec", lambda name: None)
    choice = proposers.proposer_for(of("matmul", M=4096, N=4096, K=4096))
    assert choice.proposer.name == "random" and "portakern[tune]" in choice.why
