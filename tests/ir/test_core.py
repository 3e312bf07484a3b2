"""The core: checks as operations are built, scope, keys, rewriting."""

from __future__ import annotations

import pytest

from portakern.errors import IRError
from portakern.ir.core import Arg, Block, Loc, Op, Yield, at, key, verify
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tensor import Contract, Expand, Fold, Literal, Map, Reshape, Slice, TensorProgram, TensorType

pytestmark = pytest.mark.quick

X = Arg("x", TensorType((4, 8), "f32"))
Y = Arg("y", TensorType((4, 8), "f32"))


def program(*ops: Op, args: tuple[Arg, ...] = (X, Y)) -> TensorProgram:
    return TensorProgram("f", Block(args, (*ops, Yield((ops[-1],)))), ("out",))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Map("add", (X, Arg("z", TensorType((8, 4), "f32")))), "shapes differ"),
        (lambda: Map("add", (X, Arg("z", TensorType((4, 8), "bf16")))), "dtypes differ: f32 and bf16"),
        (lambda: Map("add", (X,)), "add takes 2 arrays, not 1"),
        (lambda: Map("frobnicate", (X,)), "not an elementwise function"),
        (lambda: Fold("sum", X, (2,)), "axis 2 is outside an array of 2 dims"),
        (lambda: Fold("sum", X, (0, 0)), "an axis appears twice"),
        (lambda: Fold("any", X, (0,)), "any of f32"),
        (lambda: Reshape(X, (5, 7)), "has 35"),
        (lambda: Slice(X, (0, 0), (4, 9), (1, 1)), "0:9 is outside a dim of 8"),
        (lambda: Expand(X, (4, 9), (0, 1)), "does not broadcast"),
        (lambda: Contract(X, Y, (), (), (1,), (0,), "f32"), "differ in paired dims: 8 and 4"),
        (lambda: Map("exp", ("x",)), "is 'x', not an operation"),  # type: ignore[arg-type]
    ],
)
def test_operations_check_themselves(build, message: str) -> None:
    with pytest.raises((IRError, AttributeError)):
        build()
    if message != "is 'x', not an operation":
        with pytest.raises(IRError, match=message):
            build()


def test_errors_name_the_line_of_the_operation() -> None:
    with at(Loc("op.py", 7)), pytest.raises(IRError) as error:
        Fold("sum", X, (9,))
    assert error.value.where == "op.py:7"


def test_use_before_definition_is_found() -> None:
    a = Map("exp", (X,))
    b = Map("neg", (a,))
    with pytest.raises(IRError, match=r"operation 0 \(map\): uses a map that is not defined before it"):
        verify(program(b, a))


def test_equal_operations_have_equal_keys_and_signed_zeros_do_not() -> None:
    assert key(Map("exp", (X,))) == key(Map("exp", (X,)))
    assert key(Map("exp", (X,))) != key(Map("exp", (Y,)))
    assert key(Literal(0.0, "f32")) != key(Literal(-0.0, "f32"))


def test_canonicalise_merges_equal_and_drops_unused_operations() -> None:
    a, b = Map("exp", (X,)), Map("exp", (X,))
    unused = Map("neg", (Y,))
    clean = canonicalise(program(a, unused, b, Map("add", (a, b))))
    assert [op.mnemonic() for op in clean.body.ops] == ["map", "map", "give"]
    assert clean.results[0].operands[0] is clean.results[0].operands[1]


def test_rules_apply_until_none_matches() -> None:
    rules = Rules()

    @rules.on(Map)
    def _(op: Map) -> Op | None:
        inner = op.args[0]
        return inner.args[0] if op.fn == "neg" and isinstance(inner, Map) and inner.fn == "neg" else None

    value: Op = X
    for _step in range(7):
        value = Map("neg", (value,))
    chain: list[Op] = []
    while value is not X:
        chain.append(value)
        value = value.operands[0]
    assert str(canonicalise(program(*reversed(chain)), rules)).count("neg") == 1


def test_what_a_rule_makes_may_be_deeper_than_the_stack() -> None:
    """As merges of many sorted runs are."""
    rules = Rules()

    @rules.on(Map)
    def _(op: Map) -> Op | None:
        if op.fn != "exp":
            return None
        made = op.args[0]
        for _ in range(5000):
            made = Map("neg", (made,))
        return made

    assert str(canonicalise(program(Map("exp", (X,))), rules)).count("neg") == 5000
