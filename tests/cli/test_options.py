"""What a command line asks for: sizes and parameters that are not named."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern import api
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study.asking import problems
from portakern.study.table import case_text
from portakern.study.work import works

pytestmark = pytest.mark.quick


def test_parameters_not_named_have_their_defaults_beside_a_shape() -> None:
    """The typical case's parameters belong to its sizes."""
    attention = load_operator("attention")
    assert attention.typical.params["causal"] is True
    (typical,) = problems(attention, {}, {}, every_case=False)
    (shaped,) = problems(attention, {"SQ": "64", "SK": "96"}, {}, every_case=False)
    (named,) = problems(attention, {"SQ": "64"}, {"causal": True}, every_case=False)
    assert typical.params["causal"] is True and named.params["causal"] is True
    assert "causal" not in shaped.params and shaped.dims["SK"] == 96 and shaped.dims["D"] == attention.typical.dims["D"]
    assert api.typical(attention, {"SQ": 64}).params == {} and api.typical(attention, {}).params == typical.params


@pytest.mark.parametrize(("shape", "text"), [({}, "causal=true"), ({"SQ": "64"}, "causal=false")])
def test_the_row_shows_the_parameters(shape: dict[str, str], text: str) -> None:
    (problem,) = problems(load_operator("attention"), shape, {}, every_case=False)
    (work,) = works(problem, registry().match("cpp:cpu"), ["f32"])
    assert text in case_text(work.row).split()


def test_made_up_cases_leave_out_sizes_that_the_operator_refuses() -> None:
    @pk.operator
    def inner(x: pk.Tensor["M", "N"]):
        return x[:, 1:-1] * 2.0

    @pk.operator
    def far(x: pk.Tensor["N"]):
        return x[200:]

    @pk.operator
    def never(x: pk.Tensor["N"], y: pk.Tensor["N"]):
        return pk.reshape(x, (3, 5)) + pk.reshape(y, (3, 5))

    names = [c.name for c in inner.cases]
    assert "one" not in names and {"typical", "ragged", "zero", "long"} <= set(names)
    for problem in problems(inner, {}, {}, every_case=True):
        assert works(problem, registry().match("cpp:cpu"), ["f32"])
    assert [c.name for c in far.cases] == ["long"] and far.typical.name == "long"
    assert never.cases, "an operator that takes none of them says so when it is asked for"
