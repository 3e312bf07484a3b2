"""A plan that reads what nothing has made, or is in a layout of nobody, never becomes text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from portakern.emit.clike import Dialect, build_plan
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Layout, Place
from portakern.emit.clike.terms import Name, add
from portakern.emit.clike.verify import verify
from portakern.errors import IRError
from tests import samples

pytestmark = pytest.mark.quick

GPU = Dialect("a GPU")


S = TypeVar("S", bound=p.Statement)


def first(k: p.KernelPlan, kind: type[S]) -> S:
    return next(s for s in k.body if isinstance(s, kind))


def changed(k: p.KernelPlan, kind: type[p.Statement], **fields: Any) -> p.KernelPlan:
    return replace(k, body=tuple(replace(s, **fields) if s is first(k, kind) else s for s in k.body))


def dropped(k: p.KernelPlan, kind: type[p.Statement]) -> p.KernelPlan:
    return replace(k, body=tuple(s for s in k.body if s is not first(k, kind)))


def late(k: p.KernelPlan) -> p.KernelPlan:
    return replace(k, body=(*k.body[1:], k.body[0]))


ELSEWHERE = Place(Layout("Elsewhere", "rows", 8, 1024, ("m", "n")))


@pytest.mark.parametrize(("break_it", "problem"), [
    (lambda k: dropped(k, p.LoadTile), r"`y_tile: .* = map.*` reads x_tile, which nothing before it makes"),
    (lambda k: dropped(k, p.Scalar), r"reads m0, which nothing before it makes"),
    (late, r"reads m0, which nothing before it makes"),
    (lambda k: changed(k, p.StoreTile, value=Name("nobody")), r"`store nobody .*` reads nobody"),
    (lambda k: changed(k, p.LoadTile, place=ELSEWHERE), r"is in the layout Elsewhere, which is not the kernel's"),
    (lambda k: changed(k, p.Map, captures=False, result=add(first(k, p.Map).result, Name("m0"))), "captures nothing and reads"),
])  # fmt: skip
def test_what_is_not_sound_is_named(break_it: Callable[[p.KernelPlan], p.KernelPlan], problem: str) -> None:
    (kernel,) = build_plan(samples.add_bias(), GPU).kernels
    verify(kernel)
    with pytest.raises(IRError, match=problem):
        verify(break_it(kernel))


def test_names_end_with_their_loop() -> None:
    (kernel,) = build_plan(samples.all_samples()["softmax_long_open"], GPU).kernels
    verify(kernel)
    loop = next(s for s in kernel.body if isinstance(s, p.Loop))
    inside = next(s for s in loop.body if isinstance(s, p.LoadTile))
    with pytest.raises(IRError, match=rf"reads .*{inside.name}, which nothing before it makes"):
        verify(replace(kernel, body=(*kernel.body, p.Assign("row_sum", Name(inside.name)))))


@pytest.mark.parametrize("name", sorted(samples.all_samples()))
def test_other_names_are_other_names_everywhere(name: str) -> None:
    """Every variable of a plan gets another name: it is as sound as before, and no old name is read."""
    for kernel in build_plan(samples.all_samples()[name], GPU).kernels:
        variables = {n for s in p.statements(kernel.body) for n in p.made(s) if not isinstance(s, p.Loop)}
        names = {n: f"{n}_renamed" for n in variables}
        moved = replace(kernel, body=tuple(p.renamed(s, names) for s in kernel.body))
        verify(moved)
        assert not p.reads(*p.statements(moved.body)) & variables


def test_a_map_reads_what_it_is_given_also_under_the_same_name() -> None:
    tile = Place(Layout("Tile", "rows", 4, 4, ("m", "n")))
    made = p.Map("y", "f32", tile, (("f32", "x"),), (Name("x"),), (("f32", "twice", add(Name("x"), Name("x"))),), Name("twice"),
                 captures=False)  # fmt: skip
    assert p.reads(made) == {"x"}
    assert p.reads(p.Block((made,))) == {"x"}
