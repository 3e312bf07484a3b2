"""Mistakes in operators are reported at the user's line, with what to do instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import portakern as pk
from portakern.errors import SpecError
from tests.spec import mistakes

pytestmark = pytest.mark.quick

SOURCE = Path(str(mistakes.__file__)).read_text().splitlines()


def marked_line(name: str) -> int:
    start = next(i for i, line in enumerate(SOURCE) if line.startswith(f"def {name}("))
    return next(i for i in range(start, len(SOURCE)) if "# here" in SOURCE[i]) + 1


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            "shapes_differ",
            "shapes [M, N] and [M] do not go together: dim -1 is N in one and M in the other",
            "aligned at the right",
        ),
        ("python_if", "Python decides here", "pk.where"),
        ("python_and", "Python decides here", "(a > 0) & (b > 0)"),
        ("to_float", "float() of an array", "keyword parameter"),
        ("numpy_function", "np.exp was called", "use pk.exp"),
        ("numpy_sum", "np.sum was called", "use pk.sum"),
        ("iterates", "iterates here over an array whose first dim M", "whole-array math"),
        ("unused", "the input 'y' is not used", "take it out"),
        ("returns_nothing", "returns nothing", "return"),
        ("returns_number", "the output 'b' is 2.0", "return arrays"),
        ("inner_dims", "N columns meet M rows", "transpose"),
        ("no_such_axis", "axis 2 of an array of 2 dims", "-2 to 1"),
        ("not_a_dtype", "unknown dtype 'flaot32'", "did you mean f32"),
        ("size_math", "unsupported operand", "pk.size(x.shape[0], pk.f32)"),
        ("writes", "cannot be written to", "pk.where"),
        ("misspelt", "has no attribute 'exq'", "did you mean pk.exp?"),
        ("bad_einsum", "'n' is N in one array and K in the other", "one name"),
        ("odd_and_even", "(N + 1) // 2 in one and (N) // 2 in the other", '"2*H" in place of "N"'),
        ("unequal_halves", "(N) // 2 columns meet N - ((N) // 2) rows", '"2*H" in place of "N"'),
        ("neighbours", "M - 1 in one and M in the other", "they differ by 1 whatever the dim M is"),
        ("number_and_name", "4 in one and N in the other", "write 4 in place of the name"),
        ("channels_first", "the last dim of x is W", 'layout="NCHW" x [N, C, *spatial]'),
        ("weights_first", "conv with a window of [O]", "pk.permute(w, (2, 1, 0))"),
        ("no_spatial_dims", "they have 2 and 2 dims", "x [N, *spatial, C]"),
        ("not_divided", "M*N elements do not divide into 4*M", '"4*H"'),
        ("triangle_of_a_line", "a triangle of an array of 1 dims", "[..., rows, columns]"),
        ("named_size", "'N' is not a size", "x.shape"),
        ("indices_of_no_dim", "the family of 'index' speaks of 'V', which is no dim", "dims are M, N, K"),
        ("float_indices", "indices are f32", "pk.i32"),
        ("flat_indices", "indices of 1", "i[:, None]"),
        ("signed_and_unsigned", "i32 and u32 have no common dtype", "pk.cast"),
    ],
)
def test_mistake_is_reported_at_its_line(name: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        getattr(mistakes, name).trace()
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    line = marked_line(name)
    assert error.where.endswith(f"mistakes.py:{line}")
    assert SOURCE[line - 1].strip() in error.message, "the text of the line is shown"


def test_a_mistake_inside_a_helper_is_reported_there() -> None:
    with pytest.raises(SpecError, match="do not divide into 3") as caught:
        mistakes.in_a_helper.trace()
    line = next(i for i, text in enumerate(SOURCE) if "here too" in text) + 1
    assert caught.value.where.endswith(f":{line}")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: pk.operator(lambda x: x), "'x' has no annotation"),
        (lambda: pk.Tensor["*A", "*B"], "more than one starred dim"),
        (lambda: pk.Tensor["M N"], "is not a dim"),
        (lambda: pk.Tensor[-1], "is not a dim"),
        (lambda: pk.Tensor[3.5], "is not a dim"),
        (lambda: pk.Scalar["float"], "names no dtype"),
    ],
)
def test_declarations_are_checked(declare, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        declare()


def test_a_parameter_needs_a_default_and_a_plain_type() -> None:
    def no_default(x: pk.Tensor["M"], eps: float):
        return x + eps

    def a_list(x: pk.Tensor["M"], axes: list = []):  # noqa: B006
        return x

    with pytest.raises(SpecError, match="'eps' has no default"):
        pk.operator(no_default)
    with pytest.raises(SpecError, match="parameters are int, float, bool, str"):
        pk.operator(a_list)


def test_cases_must_name_every_dim_and_nothing_else() -> None:
    def f(x: pk.Tensor["M", "N"]):
        return x + 1

    with pytest.raises(SpecError, match="gives no size for N"):
        _ = pk.operator(cases={"a": {"M": 1}})(f).cases
    with pytest.raises(SpecError, match="names 'K', which is no dim"):
        _ = pk.operator(cases={"a": {"M": 1, "N": 2, "K": 3}})(f).cases


def test_functions_work_in_operators_only() -> None:
    with pytest.raises(SpecError, match="being traced"):
        pk.exp(1.0)
