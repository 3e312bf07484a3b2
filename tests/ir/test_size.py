"""Sizes: polynomials over open dims with floor division."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portakern.errors import IRError
from portakern.ir.size import (
    Size,
    Sym,
    at_most,
    ceildiv,
    divides,
    evaluate,
    names_of,
    never_negative,
    parse_size,
    quotient,
    substitute,
)  # fmt: skip

pytestmark = pytest.mark.quick

NAMES = ("M", "N", "K")
values = st.fixed_dictionaries({n: st.integers(0, 10**12) for n in NAMES})


def expressions() -> st.SearchStrategy[Size]:
    leaf = st.one_of(st.integers(-20, 20), st.sampled_from(NAMES).map(Sym.named))

    def grow(inner: st.SearchStrategy[Size]) -> st.SearchStrategy[Size]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: p[0] + p[1]),
            pair.map(lambda p: p[0] - p[1]),
            pair.map(lambda p: p[0] * p[1]),
            st.tuples(inner, st.integers(1, 9)).map(lambda p: p[0] // p[1]),
        )

    return st.recursive(leaf, grow, max_leaves=6)


@given(expressions(), values)
def test_text_reads_back_and_is_python(size: Size, at: dict[str, int]) -> None:
    assert parse_size(str(size)) == size
    assert eval(str(size), {}, at) == evaluate(size, at)


@given(expressions(), expressions(), values)
def test_arithmetic_is_that_of_integers(a: Size, b: Size, at: dict[str, int]) -> None:
    x, y = evaluate(a, at), evaluate(b, at)
    assert evaluate(a + b, at) == x + y
    assert evaluate(a * b, at) == x * y
    assert evaluate(a - b, at) == x - y
    assert evaluate(ceildiv(a, 7), at) == -(-x // 7)


@given(expressions(), expressions())
def test_equal_polynomials_are_equal(a: Size, b: Size) -> None:
    assert a + b == b + a
    assert (a + b) * 2 == a * 2 + b * 2
    assert a - a == 0


@given(expressions(), st.integers(2, 9), values)
def test_divisibility_is_never_claimed_wrongly(size: Size, divisor: int, at: dict[str, int]) -> None:
    if divides(divisor, size):
        assert evaluate(size, at) % divisor == 0


@given(expressions(), st.integers(1, 9), values)
def test_a_bound_from_above_is_one(size: Size, factor: int, at: dict[str, int]) -> None:
    assert evaluate(at_most(size * factor), at) >= evaluate(size * factor, at)


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_windows_end_inside(stride: int) -> None:
    outside, window = parse_size("2*N"), 3
    windows = (outside - window) // stride + 1
    end = (windows - 1) * stride + window
    bound = at_most(end - outside)
    assert isinstance(bound, int) and bound <= 0


def test_substitution_keeps_what_is_not_named() -> None:
    size = parse_size("(M + 3) // 4 * N + 1")
    assert substitute(size, {"M": 5}) == 2 * Sym.named("N") + 1
    assert names_of(size) == {"M", "N"}


def test_divisions_that_come_out_even_are_taken_out() -> None:
    """Strided slices of a multiple are equal sizes: x[:, ::2] and x[:, 1::2] of 2 D."""
    m, n = Sym.named("M"), Sym.named("N")
    for count in (2, 3, 5):
        parts = [ceildiv(count * n - k, count) for k in range(count)]
        assert parts == [n] * count
        assert [ceildiv(count * n + 1 - k, count) for k in range(count)] == [n + 1] + [n] * (count - 1)
    assert ceildiv(2 * n * m - 1, 2) == n * m and ceildiv(4 * n - 2, 4) == ceildiv(2 * n - 1, 2) == n
    assert (m // 2) // 3 == m // 6 and (m // 2 + 1) // 3 == (m + 2) // 6 and (3 * m) // 2 == m + m // 2
    assert (m - 1) // 2 == (m + 1) // 2 - 1


def test_a_missing_value_is_named() -> None:
    with pytest.raises(IRError, match="needs a value for N"):
        evaluate(parse_size("M + N"), {"M": 1})


def test_only_positive_integers_divide() -> None:
    with pytest.raises(IRError, match="positive integer"):
        Sym.named("M") // 0


@given(expressions(), expressions())
def test_products_divide_by_their_factors(a: Size, b: Size) -> None:
    assert quotient(a * b, b) == a or b == 0 or (isinstance(b, int) and b < 0)


def test_what_does_not_divide_has_no_quotient() -> None:
    m, n = Sym.named("M"), Sym.named("N")
    assert quotient(3 * m * n - 3 * n, 3 * m - 3) == n
    for total, part in ((m * n + m, n + 2), (6 * n, 4 * n), (m, n), (4 * n + 2, 4), (7, n), (7, 0)):
        assert quotient(total, part) is None


def test_what_is_no_size_says_itself_how_it_meets_one() -> None:
    class Array:
        def __rsub__(self, size: Size) -> str:
            return f"{size} less an array"

        __radd__ = __rmul__ = __rfloordiv__ = __rsub__

    n = Sym.named("N")
    assert {n - Array(), n + Array(), n * Array(), n // Array()} == {"N less an array"}  # type: ignore[operator]


def test_what_is_never_negative() -> None:
    k, n = Sym.named("K"), Sym.named("N")
    assert all(map(never_negative, (0, 3, k, k + 1, 2 * k * n, (k + n) // 2)))
    assert not any(map(never_negative, (-1, k - 1, n - k, 0 - k)))
