"""Open dims read off the shapes of arrays, also where they are part of a size only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portakern.ir.reading import readings
from portakern.ir.size import Size, Sym, evaluate, names_of

pytestmark = pytest.mark.quick

M, N, K = (Sym.named(x) for x in "MNK")
linear = st.builds(lambda a, m, b, n, c: m * a + n * b + c, st.integers(0, 4), st.just(M), st.integers(0, 4), st.just(N),
                   st.integers(0, 9))  # fmt: skip


@given(st.lists(st.lists(linear, max_size=3), min_size=1, max_size=4), st.integers(0, 50), st.integers(0, 50))
def test_what_is_read_is_what_was_put_in(shapes: list[list[Size]], m: int, n: int) -> None:
    sizes = {"M": m, "N": n}
    arrays = {f"x{i}": tuple(shape) for i, shape in enumerate(shapes)}
    found: dict[str, int] = {}
    for name, reading in readings(arrays).items():
        extents = {a: tuple(evaluate(s, sizes) for s in shape) for a, shape in arrays.items()}
        found[name] = reading.value(extents[reading.array][reading.dim], found)
        given = {a: type("Array", (), {"shape": shape}) for a, shape in extents.items()}
        assert eval(str(reading), {}, {**given, **found}) == found[name] == sizes[name]
    named = {name for shape in shapes for s in shape for name in names_of(s)}
    single = {name for shape in shapes for s in shape for name in names_of(s) if len(names_of(s)) == 1}
    assert single <= set(found) <= named


def test_a_dim_of_its_own_is_read_before_parts_of_sizes() -> None:
    found = readings({"x": (2 * N, M), "y": (N, N + K - 1)})
    assert {n: str(r) for n, r in found.items()} == {"M": "x.shape[1]", "N": "y.shape[0]", "K": "y.shape[1] - (N - 1)"}
    assert list(found)[-1] == "K"


def test_products_and_divisions_of_open_dims_tell_none() -> None:
    assert readings({"x": (M * N, K // 2)}) == {}
    assert str(readings({"x": (8 - 2 * N,)})["N"]) == "(x.shape[0] - 8) // -2"
