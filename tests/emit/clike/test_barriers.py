"""Barriers follow from who writes and reads shared operands, in which step of which loop."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.emit.clike import Dialect, build_plan
from portakern.emit.clike import plan as p
from portakern.emit.clike.barriers import synchronised
from portakern.emit.clike.layouts import Layout, Place
from portakern.emit.clike.terms import ZERO, Name, whole
from portakern.registry import registry
from portakern.study import steps
from portakern.study.work import Problem, works

pytestmark = pytest.mark.quick

ACC = Place(Layout("Acc", "accumulator", 16, 16, ("m", "n"), "f32"))
A, B = (p.Shared(name, "f32", 16, 16, 2, role, False, "") for name, role in (("a", "A"), ("b", "B")))
WHERE = p.Access(Name("x"), (whole(16), whole(1)))


def stage(s: p.Shared) -> list[p.Statement]:
    return [p.CopyToShared(s, "0", WHERE), p.Commit(), p.Wait(0)]


def dot(a: p.Shared | str = A, b: p.Shared | str = B) -> p.Dot:
    return p.Dot("acc", ACC, p.Operand(a), p.Operand(b), 16, "f32")


def loop(*body: p.Statement, ahead: tuple[p.Shared, ...] = ()) -> p.Loop:
    pipeline = p.Pipeline(2, "stage_k", "slot", tuple(p.CopyToShared(s, "slot", WHERE) for s in ahead)) if ahead else None
    return p.Loop("k0", ZERO, Name("K"), 16, body, pipeline)


def words(body: tuple[p.Statement, ...]) -> str:
    """The first word of each statement; loops in brackets."""
    return " ".join(f"[{words(s.body)}]" if isinstance(s, p.Loop) else str(s).split()[0] for s in body)


def test_an_operand_is_read_when_all_threads_have_written_it() -> None:
    assert words(synchronised([p.StoreToShared(A, Name("x")), p.StoreToShared(B, Name("y")), dot()])) == "put put sync dot"
    assert words(synchronised([*stage(A), p.StoreToShared(B, Name("y")), dot()])) == "stage commit wait put sync dot"


def test_a_barrier_before_a_copy_is_over_does_not_make_it_readable() -> None:
    again = [p.CopyToShared(A, "0", WHERE), p.StoreToShared(B, Name("y")), p.Commit(), p.Wait(0), dot()]
    body = synchronised([p.StoreToShared(B, Name("x")), dot("r", B), *again])
    assert words(body) == "put sync dot sync stage put commit wait sync dot"


def test_a_step_may_not_overwrite_what_the_step_before_reads() -> None:
    assert words(synchronised([loop(*stage(A), dot(A, "r"))])) == "[sync stage commit wait sync dot]"
    assert words(synchronised([loop(p.StoreToShared(A, Name("x")), dot(A, "r"))])) == "[sync put sync dot]"


def test_copies_ahead_of_a_loop_wait_for_the_last_product_of_the_loop_before() -> None:
    inner = loop(dot(), ahead=(A, B))
    assert words(synchronised([inner])) == "[dot]"  # the head of its step has a barrier of its own
    assert words(synchronised([loop(inner)])) == "[sync [dot]]"
    assert words(synchronised([loop(loop(inner))])) == "[[sync [dot]]]"
    assert words(synchronised([inner, inner])) == "[dot] sync [dot]"
    assert words(synchronised([loop(inner, inner)])) == "[sync [dot] sync [dot]]"
    assert words(synchronised([loop(inner, loop(dot("r", A)))])) == "[sync [dot] [dot]]"


def test_an_operand_from_registers_in_a_pipelined_loop_has_the_barrier_at_its_head() -> None:
    assert words(synchronised([loop(p.StoreToShared(A, Name("x")), dot(), ahead=(B,))])) == "[put sync dot]"
    assert words(synchronised([loop(loop(p.StoreToShared(A, Name("x")), dot(), ahead=(B,)))])) == "[sync [put sync dot]]"


def test_what_was_written_before_a_loop_is_complete_before_it_and_not_in_every_step() -> None:
    assert words(synchronised([p.StoreToShared(A, Name("x")), loop(dot(A, "r"))])) == "put sync [dot]"
    assert words(synchronised([p.StoreToShared(A, Name("x")), loop(dot(), ahead=(B,))])) == "put [dot]"
    # The loop may have had no step, and then no barrier either.
    assert words(synchronised([p.StoreToShared(A, Name("x")), loop(dot(), ahead=(B,)), dot(A, "r")])) == "put [dot] sync dot"


def test_a_barrier_at_an_earlier_place_forgets_nothing_that_is_read_behind_it() -> None:
    body = [p.StoreToShared(A, Name("x")), p.StoreToShared(B, Name("y")), dot(A, "r"), dot("r", B),
            p.StoreToShared(A, Name("z")), dot(A, "r")]
    assert words(synchronised(body)) == "put put sync dot dot sync put sync dot"


@pk.operator
def gram(x: pk.Tensor["M", "K"]):
    return pk.matmul(x, pk.transpose(x))


def test_an_array_multiplied_with_itself_has_two_operands() -> None:
    (work,) = works(Problem(gram, dict(M=64, K=64), {}), [registry().target("cuda:sm_80")], ["f32"])
    (kernel,) = build_plan(steps.emit(work)[1], Dialect("a GPU")).kernels
    (step,) = (s for s in kernel.body if isinstance(s, p.Loop))
    (product,) = (s for s in step.body if isinstance(s, p.Dot))
    assert product.a.shared is not None and product.b.shared is not None
    assert step.pipeline is not None
    assert [product.a.name, product.b.name] == [c.shared.name for c in step.pipeline.copies] == [s.name for s in kernel.shared]
    assert product.a.name != product.b.name
