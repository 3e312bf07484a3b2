"""What waits for products that are under way is put in by one pass: nothing reads a result too early, and slots go back."""

from __future__ import annotations

import pytest

from portakern.backends.cuda.under_way import AsyncProduct, Complete, Fed, Feed, Give, StartProducts, Take, ordered
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Layout, Place
from portakern.emit.clike.terms import ZERO, Name, whole
from portakern.errors import IRError

pytestmark = pytest.mark.quick

KEYS, VALUES, QUERIES, PIPE = Feed("keys"), Feed("values"), Feed("queries"), Feed("pipe", counts=True)
TILE = Place(Layout("Acc", "accumulator", 64, 64, ("m", "n"), "bf16"))
SCORES = AsyncProduct("scores", p.Operand("query"), Fed(KEYS, True), (KEYS,), anew=True)
SUM = AsyncProduct("acc", p.Operand("weights"), Fed(VALUES), (VALUES,), ("weights",))


def reading(name: str, made: str = "y") -> p.Map:
    """A map whose parameter is called as what it is given, as emitters do it."""
    return p.Map(made, "f32", TILE, (("f32", name),), (Name(name),), (), Name(name), captures=False)


def shown(body) -> list[str]:
    return [line for s in body for line in str(s).split("\n")]


def test_a_result_is_complete_before_it_is_read_and_newer_products_go_on():
    body = [StartProducts((SCORES, SUM)), reading("other"), reading("scores"), reading("acc")]
    assert ordered(body) == (
        body[0], body[1],
        Complete(1, ("scores",)), Give(KEYS), body[2],
        Complete(0, ("acc", "weights")), Give(VALUES), body[3],
    )  # fmt: skip


@pytest.mark.parametrize("touching", [
    p.Assign("weights", Name("x")),
    reading("x", made="weights"),
    p.Scan("s", "f32", "sum", Name("x"), TILE, carry="acc"),
    p.Loop("i", ZERO, whole(4), 1, (reading("acc"),)),
    p.Block((reading("acc"),)),
], ids=["assigned", "made", "carried", "in a loop", "in a block"])  # fmt: skip
def test_whatever_touches_what_a_product_has_comes_after_it(touching: p.Statement):
    made = ordered([StartProducts((SUM,)), touching])
    assert made[1:] == (Complete(0, ("acc", "weights")), Give(VALUES), touching)


def test_nothing_is_left_under_way():
    assert ordered([StartProducts((SUM,))])[1:] == (Complete(0, ("acc", "weights")), Give(VALUES))


def test_slots_of_older_products_go_back_once_newer_ones_are_started():
    again = StartProducts((AsyncProduct("more", p.Operand("weights"), Fed(VALUES), (VALUES,)),))
    assert ordered([StartProducts((SUM,)), again])[1:4] == (again, Complete(1, ("acc", "weights")), Give(VALUES))


def test_what_is_taken_is_held_until_its_last_product_is_complete():
    step = p.Loop("j", ZERO, Name("n"), 1, (StartProducts((SCORES,)), reading("scores")))
    made = ordered([Take("query", QUERIES), StartProducts((SCORES,)), reading("scores"), step, reading("x")])
    assert isinstance(made[-3], p.Loop)
    assert made[-2:] == (Give(QUERIES), reading("x"))
    assert not any(isinstance(s, Give) and s.feed == QUERIES for s in p.statements(made[:-2]))


def test_a_loop_whose_first_step_would_wait_for_less_than_the_next_is_refused():
    with pytest.raises(IRError, match="first step"):
        ordered([p.Loop("k", ZERO, Name("n"), 1, (reading("x"), StartProducts((SUM,))))])


def test_a_feed_that_counts_is_told_of_every_step():
    product = StartProducts((AsyncProduct("acc", p.Operand("a", "slot"), p.Operand("b", "slot"), (PIPE,)),))
    step = (Take("slot", PIPE), product)
    loop = p.Loop("k", ZERO, Name("n"), 64, step)
    made = ordered([loop, p.Block(step), reading("acc")])
    assert made[:2] == (p.Loop("k", ZERO, Name("n"), 64, (*step, Give(PIPE, previous=True))),
                        p.Block((*step, Give(PIPE, previous=True))))  # fmt: skip
    assert shown(made[2:]) == ["give pipe its slot back", str(reading("acc"))]
