"""Elements picked by computed coordinates: against the oracle by running tile programs, and what kernels they become."""

from __future__ import annotations

from typing import Any

import pytest

from portakern.errors import IRError
from portakern.ir.core import Arg
from portakern.ir.program import ArrayFacts, Program
from portakern.ir.tile import BufferType, Const, Coord, Dot, Index, Load, tile_type
from portakern.lower import lower
from portakern.spec.inputs import Indices, index_families
from portakern.spec.operator import Operator
from portakern.study.work import dim_names
from tests.lower import gather_operators
from tests.lower.test_lowering import chooser, compare, lowered

pytestmark = pytest.mark.quick

OPERATORS = {name: op for name, op in vars(gather_operators).items() if isinstance(op, Operator)}
CASES = [(name, case.name) for name, op in OPERATORS.items() for case in op.cases]


def dims_of(name: str, case: str = "ragged") -> dict[str, Any]:
    return dict(next(c for c in OPERATORS[name].cases if c.name == case).dims)


def program_of(name: str, dtype: str = "f32", **facts: ArrayFacts) -> Program:
    names = dim_names(OPERATORS[name].trace({}, dtype).args)
    return lower(OPERATORS[name].program(dims_of(name), dtype=dtype), chooser(), names, facts)


def families(op: Operator, dims: dict[str, Any], dtype: str) -> dict[str, Any]:
    return index_families(op.program(dims, dtype=dtype))


@pytest.mark.parametrize("row_tile", [4096, 8])
@pytest.mark.parametrize(("name", "case"), CASES)
def test_what_is_picked(name: str, case: str, row_tile: int) -> None:
    op, dims = OPERATORS[name], dims_of(name, case)
    for dtype in ("f32", "bf16"):
        compare(op, dims, {}, dtype, row_tile, families=families(op, dims, dtype))


@pytest.mark.parametrize("name", ["embedding_norm", "embedding", "several_of_a_line", "nearest", "through_views"])
def test_open_dims(name: str) -> None:
    op, dims = OPERATORS[name], dims_of(name)
    compare(op, dims, {}, "f32", keep_open=tuple(dims), families=families(op, dims, "f32"))


@pytest.mark.parametrize(("name", "kernels"), [
    ("embedding", ["elementwise"]), ("embedding_norm", ["rows"]), ("two_gathers", ["elementwise"]), ("bags", ["rows"]),
    ("nearest", ["elementwise"]), ("through_views", ["elementwise"]), ("running", ["scan"]),
    ("of_computed", ["rows", "elementwise"]),  # what is picked from exists as an array first
    ("into_a_product", ["elementwise", "contraction"]),  # and so does the operand of a product
])  # fmt: skip
def test_kernels(name: str, kernels: list[str]) -> None:
    assert [k.family for k in program_of(name).kernels] == kernels


def test_indices_made_of_floats_are_stored_where_loads_take_no_single_elements() -> None:
    op = OPERATORS["sampled"]
    for picks, size, kernels in ((True, 5000, 1), (False, 5000, 2), (False, 100, 1)):  # a short line is compared whole
        program = op.program({**dims_of("sampled"), "V": size}, dtype="f32")
        made = lower(program, chooser(), dim_names(op.trace({}, "f32").args), picks=picks)
        assert len(made.kernels) == kernels


def loads_of(program: Program) -> list[Load]:
    return [op for k in program.kernels for op in k.body.walk() if isinstance(op, Load) and op.gathers]


def test_a_row_is_picked_once() -> None:
    (load,) = loads_of(program_of("embedding_norm", "bf16"))
    assert [str(i) for i in load.indices] == ["gather0", "d"]
    assert load.dims[0] == tile_type(load.gathers[0]).dims[0]


def test_dims_of_indices_and_of_rows_merge_each_among_themselves() -> None:
    (load,) = loads_of(program_of("embedding"))
    assert [str(i) for i in load.indices] == ["gather0", "d"]
    assert tile_type(load.gathers[0]).axes == ("b_t",)
    (load,) = loads_of(program_of("rows_of_planes"))
    assert [str(i) for i in load.indices] == ["gather0", "a_b"]


def test_dims_beside_a_picked_one_do_not_merge() -> None:
    (load,) = loads_of(program_of("along_the_middle"))
    assert [str(i) for i in load.indices] == ["a", "gather0", "d"]


def test_no_gather_of_one_element_or_none() -> None:
    assert not loads_of(program_of("of_nothing"))
    one = OPERATORS["embedding"].program(dims_of("embedding", "one"), dtype="f32")
    assert not loads_of(lower(one, chooser()))


def test_strided_sources() -> None:
    (load,) = loads_of(program_of("embedding_i64", table=ArrayFacts(strides=(80, 1))))
    assert isinstance(load.buffer.type, BufferType)
    assert load.buffer.type.element_strides == (80, 1)


def test_gathers_read_back_as_text() -> None:
    from portakern.ir.program import parse_kernels

    program = program_of("two_gathers")
    text = "\n".join(map(str, program.kernels))
    assert "\n".join(map(str, parse_kernels(text))) == text


def test_a_gather_is_integers_over_dims_of_its_tile_that_an_index_names() -> None:
    x = Arg("x", BufferType((9, 8), "f32"))
    rows, named = Coord("i", (("i", 4),)), (Index((), 0, 0), Index.of("j"))
    dims = (("i", 4), ("j", 8))
    assert Load(x, named, dims, 0.0, (rows,)).type == tile_type(Load(x, named, dims, 0.0, (rows,)))
    for indices, wanted, gathers, said in [
        (named, (("j", 8),), (), "names a gather that is not there"),
        ((Index.of("i"), Index.of("j")), dims, (rows,), "of which indices name"),
        (named, (("j", 8),), (Const(1.0, "f32"),), "not integers"),
        (named, dims[::-1], (Coord("k", ()),), "appears in no index"),
    ]:
        with pytest.raises(IRError) as caught:
            Load(x, indices, wanted, 0.0, gathers)
        assert said in str(caught.value)


def test_indices_are_mostly_inside() -> None:
    import numpy as np

    drawn = Indices(10).draw(np.random.default_rng(0), (1000,), {})
    outside = (drawn < 0) | (drawn >= 10)
    assert 50 < outside.sum() < 80
    assert drawn.min() < 0 and drawn.max() >= 10


def test_products_take_no_gathers() -> None:
    program = program_of("into_a_product")
    (dot,) = [op for op in program.kernels[1].body.walk() if isinstance(op, Dot)]
    assert not any(isinstance(o, Load) and o.gathers for o in dot.operands)


def test_one_of_a_line_is_a_selection_still() -> None:
    from portakern.spec.load import load_operator

    _, program = lowered(load_operator("cross_entropy"), {"M": 9, "N": 33}, {}, "f32")
    assert not loads_of(program)
