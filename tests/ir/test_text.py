"""The text form: what is printed is read back to the same program."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portakern.errors import IRError
from portakern.ir.core import Arg, Block, Loc, Op, Yield
from portakern.ir.program import parse_kernels
from portakern.ir.size import Sym
from portakern.ir.tensor import AssociativeScan, Fold, Literal, Map, TensorProgram, TensorType, Transpose
from portakern.ir.text import format_function, parse_function
from portakern.spec.load import library, load_operator
from tests import samples

pytestmark = pytest.mark.quick

LIBRARY = library()
SAMPLES = samples.all_samples()


@pytest.mark.parametrize("operator", LIBRARY, ids=lambda o: o.name)
def test_library_operators_round_trip(operator) -> None:
    sizes = {n: size for n, size in operator.typical.dims.items() if isinstance(size, int)}  # where it needs to know them
    program = operator.trace({}, "bf16", dict.fromkeys(operator.stars, 2), sizes)
    text = format_function(program)
    again = parse_function(text)
    assert format_function(again) == text
    assert again.digest == program.digest


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_kernels_round_trip(name: str) -> None:
    program = SAMPLES[name]
    again = parse_kernels(str(program))
    assert [format_function(k) for k in again] == [format_function(k) for k in program.kernels]


@st.composite
def programs(draw) -> TensorProgram:
    """Straight-line programs of maps, folds and transposes on one square array and scalars."""
    n = draw(st.one_of(st.integers(0, 4), st.sampled_from([Sym.named("N"), Sym.named("N") * 2 + 1])))
    x = Arg("x", TensorType((n, n), "f32"))
    ops: list[Op] = []
    arrays: list[Op] = [x]
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["unary", "binary", "literal", "turn"]))
        loc = draw(st.one_of(st.none(), st.builds(Loc, st.just("a b.py"), st.integers(1, 99))))
        pick = st.sampled_from(arrays)
        if kind == "unary":
            op: Op = Map(draw(st.sampled_from(["exp", "neg", "abs"])), (draw(pick),), loc=loc)
        elif kind == "binary":
            op = Map(draw(st.sampled_from(["add", "mul", "max"])), (draw(pick), draw(pick)), loc=loc)
        elif kind == "turn":
            op = Transpose(draw(pick), (1, 0), loc=loc)
        else:
            ops.append(Literal(draw(st.floats(allow_nan=False)), "f32", loc=loc))
            op = Map("add", (draw(pick), ops[-1]), loc=loc)
        ops.append(op)
        arrays.append(op)
    ops.append(Fold("sum", arrays[-1], (0,)))
    ops.append(Yield((ops[-1], arrays[-1])))
    return TensorProgram("f", Block((x,), tuple(ops)), ("total", "last"))


@settings(max_examples=60, deadline=None)
@given(programs())
def test_any_program_round_trips_and_pickles(program: TensorProgram) -> None:
    text = format_function(program)
    assert format_function(parse_function(text)) == text
    assert format_function(pickle.loads(pickle.dumps(program))) == text


def test_blocks_of_the_same_operations_are_read_back_as_they_are_written() -> None:
    left, right = Arg("left", TensorType((), "f32")), Arg("right", TensorType((), "f32"))
    total = Map("add", (left, right))
    joins = [Block((left, right), (total, Yield((total,)))) for _ in range(2)]
    x = Arg("x", TensorType((5,), "f32"))
    scans = [AssociativeScan((x,), 0, join, 0, reverse) for join, reverse in zip(joins, (False, True), strict=True)]
    text = format_function(TensorProgram("f", Block((x,), (*scans, Yield(tuple(scans)))), ("up", "down")))
    assert format_function(parse_function(text)) == text


def test_locations_do_not_change_the_digest() -> None:
    program = load_operator("softmax").trace({}, "f32")
    bare = parse_function(format_function(program, locations=False))
    assert bare.digest == program.digest
    assert "softmax.py" not in str(bare)
    assert "softmax.py" in str(program)


def test_a_wrong_type_in_the_text_is_refused_at_its_line() -> None:
    text = str(load_operator("softmax").trace({}, "f32")).replace("tensor[M, f32] = fold", "tensor[N, f32] = fold", 1)
    with pytest.raises(IRError, match=r"line \d+: fold has type tensor\[M, f32\], the text says tensor\[N, f32\]"):
        parse_function(text)


def test_text_of_another_version_is_refused() -> None:
    with pytest.raises(IRError, match="of version 99"):
        parse_function("# portakern ir 99\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("v1 = nonsense(x)", "unknown operation 'nonsense'"),
        ("v1 = transpose(x)", "takes 2 arguments, not 1"),
        ("v1 = transpose(y, (0,))", "y is not defined"),
        ("import os", "not an operation"),
        ("v1 = transpose(x, __import__('os'))", "is not a plain value"),
    ],
)
def test_bad_text_is_refused_and_never_run(line: str, message: str) -> None:
    with pytest.raises(IRError, match=message.replace("(", r"\(")):
        parse_function(f"@tensor_program(outputs=('out',))\ndef f(x: tensor[4, f32]):\n    {line}\n")
