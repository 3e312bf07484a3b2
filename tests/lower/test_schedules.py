"""Every language has schedules for every nest that lowering can ask about, or says why not; other nests are not made."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from portakern.errors import IRError, ScheduleError
from portakern.ir.schedule import ROLES, Nest, NestAxis
from portakern.ir.size import Size, Sym
from portakern.registry import registry

pytestmark = pytest.mark.quick

TARGETS = registry().default_targets()
EXTENTS: list[Size] = [0, 1, 2, 3, 7, 16, 64, 65, 128, 1000, 4096, 100003, 1 << 31, (1 << 40) + 1, Sym.named("N")]
EXTENTS += [2 * Sym.named("H") + 1]


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    family = draw(st.sampled_from(list(ROLES)))
    axes: list[NestAxis] = []
    for role, (least, most) in ROLES[family].items():
        for _ in range(draw(st.integers(least, most or 3))):
            axes.append(NestAxis(f"a{len(axes)}", role, draw(st.sampled_from(EXTENTS)), draw(st.booleans())))
    dtypes = st.sampled_from(["f32", "bf16", "f64", "f16", "i8", "i64", "bool", "f8e4m3"])
    dots = draw(dtypes) if family in ("contraction", "grouped", "attention", "chain") else ""
    wide = draw(st.sampled_from(["f32", "f64", "i32", "i64"]))
    live, passes = draw(st.integers(0, 9)), draw(st.integers(1, 4))
    return Nest(family, tuple(draw(st.permutations(axes))), draw(dtypes), wide, live, dots, passes)


def row_times_matrix_in_no_batch() -> Nest:
    axes = (NestAxis("b", "batch", 0, False), NestAxis("m", "m", 1, False), NestAxis("n", "n", 128, True),
            NestAxis("k", "k", 1000, True))  # fmt: skip
    return Nest("contraction", axes, "bf16", "f32", 0, "bf16", 1)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@settings(max_examples=60, deadline=None)
@given(nest=nests())
@example(nest=row_times_matrix_in_no_batch())  # no block at all, and a share of them was asked for
def test_schedules_of_any_nest(target, nest: Nest) -> None:
    """What comes back gives every axis a tile; a refusal is an error of portakern, or no schedule at all."""
    try:
        found = registry().language(target.language).schedules(nest, target.device)
    except ScheduleError:
        return
    assert len(set(found)) == len(found)
    for schedule in found:
        assert [a for a, _ in schedule.tiles] == [a.name for a in nest.axes]
        assert all(tile >= 1 for _, tile in schedule.tiles) and schedule.warps >= 1 and schedule.stages >= 1
    assert found or nest.family in ("attention", "chain", "held"), "nothing but these, which have other ways, has no schedule"


@pytest.mark.parametrize(("family", "roles", "words"), [
    ("transpose", ["parallel", "parallel"], "one axis with the role 'source'"),
    ("transpose", ["source", "source", "target"], "one axis with the role 'source'"),
    ("rows", ["parallel"], "axes with the role 'reduced'"),
    ("scan", ["scanned", "scanned"], "one axis with the role 'scanned'"),
    ("contraction", ["m", "n"], "one axis with the role 'k'"),
    ("attention", ["m", "n", "d"], "one axis with the role 'k'"),
    ("elementwise", [], "axes with the role 'parallel'"),
    ("elementwise", ["reduced"], "no axis with the role 'reduced'"),
    ("stencil", ["parallel"], "no family 'stencil'"),
])  # fmt: skip
def test_a_nest_without_the_roles_of_its_family_is_not_made(family: str, roles: list[str], words: str) -> None:
    with pytest.raises(IRError, match=words):
        Nest(family, tuple(NestAxis(f"a{n}", role, 8) for n, role in enumerate(roles)), "f32", "f32")


def test_two_axes_have_two_names() -> None:
    with pytest.raises(IRError, match="one name"):
        Nest("elementwise", (NestAxis("i", "parallel", 8), NestAxis("i", "parallel", 9)), "f32", "f32")
