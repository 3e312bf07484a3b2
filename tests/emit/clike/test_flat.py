"""Loops in one another that only walk to one product, as one loop whose operands travel ahead."""

from __future__ import annotations

import re

import pytest

import portakern as pk
from portakern.emit.clike import plan as p
from portakern.emit.clike.flat import flattened, nest_of, substituted
from portakern.emit.clike.terms import ZERO, Name, add, divide, multiply, whole

pytestmark = pytest.mark.quick


def _nest(*counts: int, begin: object = ZERO, between: tuple[p.Statement, ...] = ()) -> p.Loop:
    """Loops a (the outermost), b, c in one another; the innermost goes by 32 and has a pipeline."""
    at = add(multiply(Name("a"), whole(100)), Name("abc"[len(counts) - 1]))
    ahead = p.Pipeline(2, "stage", "slot", ())
    loop = p.Loop("abc"[len(counts) - 1], ZERO, whole(32 * counts[-1]), 32, (p.Scalar("x", "i64", at),), ahead)
    for n, count in reversed(list(enumerate(counts[:-1]))):
        loop = p.Loop("abc"[n], begin, whole(count), 1, (p.Sync("again"), *between, loop))  # type: ignore[arg-type]
    return loop


def test_one_loop_walks_all_steps_and_knows_where_it_is() -> None:
    (loop,) = flattened([_nest(3, 5, 2)])
    assert isinstance(loop, p.Loop) and loop.pipeline is not None
    assert (str(loop.end), loop.step, loop.note) == ("30", 1, "every step: 3 along a, 5 along b, 2 along c")
    (x,) = loop.body  # the barriers between the loops are gone
    assert isinstance(x, p.Scalar) and str(x.value) == "step / 10 * 100 + step % 2 * 32"


def test_a_loop_of_one_step_leaves_no_trace() -> None:
    (loop,) = flattened([_nest(3, 1)])
    assert isinstance(loop, p.Loop) and isinstance(loop.body[0], p.Scalar) and str(loop.body[0].value) == "step * 100"


@pytest.mark.parametrize("nest", [
    _nest(3, 8),  # its own pipeline is long enough
    _nest(3, 2, begin=whole(1)),
    _nest(3, 2, between=(p.Scalar("y", "i64", whole(1)),)),
    _nest(2),
])  # fmt: skip
def test_other_loops_stay_as_they_are(nest: p.Loop) -> None:
    assert flattened([nest]) == (nest,)


def test_nests_inside_other_loops_are_found() -> None:
    outer = p.Loop("t", ZERO, whole(4), 1, (p.Scalar("y", "i64", whole(1)), _nest(3, 2)))
    (made,) = flattened([outer])
    assert isinstance(made, p.Loop) and len(nest_of(made)) == 1
    assert isinstance(made.body[1], p.Loop) and str(made.body[1].end) == "6"


def test_terms_take_the_place_of_names_in_every_part() -> None:
    changed = substituted(_nest(2), {"a": divide(Name("s"), whole(3))})
    assert str(changed.body[0].value) == "s / 3 * 100 + s / 3"


@pytest.mark.parametrize("target", ["cuda:sm_80", "hip:gfx942", "triton:sm_90", "triton:gfx942"])
def test_a_convolution_of_few_channels_is_one_loop(target: str) -> None:
    text = pk.build("conv2d", target=target, dtype="bf16", N=2, H=28, W=28, C=32, O=64).source
    (last,) = re.findall(r"(?:^def conv2d\w*_kernel|__global__).*?(?=^def conv2d\(|\Z)", text, re.DOTALL | re.MULTILINE)[-1:]
    assert len(re.findall(r"^\s*for ", last, re.MULTILINE)) == 1 and "step" in last
