"""The backward as an operator: what it takes and gives, what may be asked of it, and what is said of what makes no sense."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.errors import PortakernError, SpecError, UsageError
from portakern.ir.core import Yield, format_function
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import Contract, Fold, Recur, Scatter, tensor_type
from portakern.ir.text import parse_function
from portakern.registry import registry
from portakern.spec.load import operator_names
from portakern.study.work import Problem, works
from tests.gradients import made_up
from tests.gradients.support import agree, drawn

pytestmark = pytest.mark.quick


def types(operator: pk.Operator, **dims: Any) -> list[str]:
    program = operator.program(dims, {}, "bf16")
    return [f"{a.name}: {a.type}" for a in program.args] + [
        f"{n}: {r.type}" for n, r in zip(program.outputs, program.results, strict=True)]  # fmt: skip


def test_inputs_and_outputs_have_the_names_dtypes_and_shapes_of_the_forward() -> None:
    @pk.operator
    def several(x: pk.Tensor["*B", "N"], i: pk.Tensor["N", pk.i32], w: pk.Tensor[1, pk.f32], s: pk.Scalar[pk.f32], n: int = 2):
        return {"y": x * pk.cast(w, x.dtype), "count": i * n, "z": pk.sum(pk.cast(x, pk.f32) * s * w)}

    backward = pk.grad(several)
    assert backward.name == "several_grad" and backward.wrt == ("x", "w")
    assert types(backward, B=(2, 3), N=5) == [
        "x: tensor[2, 3, 5, bf16]", "i: tensor[5, i32]", "w: tensor[1, f32]", "d_y: tensor[2, 3, 5, bf16]", "d_z: tensor[f32]",
        "s: tensor[f32]", "d_x: tensor[2, 3, 5, bf16]", "d_w: tensor[1, f32]"]  # fmt: skip
    assert next(str(i.spec) for i in backward.inputs) == "Tensor[*B, N, dtype]"
    assert pk.grad(several, ("s", "w")).name == "several_grad_s_w"


def test_dims_params_and_cases_are_those_of_the_forward() -> None:
    forward = pk.load_operator("attention")
    backward = pk.grad(forward)
    assert backward.dims == forward.dims and backward.params == forward.params
    assert [(c.name, c.dims, c.params) for c in backward.cases] == [(c.name, c.dims, c.params) for c in forward.cases]


def test_a_softmax_has_the_gradient_that_is_written_by_hand() -> None:
    @pk.operator
    def by_hand(x: pk.Tensor["M", "N"], d_out: pk.Tensor["M", "N"]):
        y = pk.softmax(x)
        return {"d_x": y * (d_out - pk.sum(d_out * y, -1, keepdims=True))}

    @pk.operator
    def softmax(x: pk.Tensor["M", "N"]):
        return pk.softmax(x)

    texts = [format_function(o.trace(), locations=False) for o in (pk.grad(softmax), by_hand)]
    assert texts[0].replace("softmax_grad", "by_hand") == texts[1]


def test_with_its_output_saved_nothing_is_computed_twice() -> None:
    program = pk.grad(pk.load_operator("softmax"), save="out").program({"M": 3, "N": 5}, {}, "bf16")
    assert [op.fn for op in program.body.ops if isinstance(op, Fold)] == ["sum"]
    agree(pk.load_operator("softmax"), {"M": 3, "N": 5}, save=("out",))
    agree(made_up.shared, {"M": 3, "N": 5}, save=("y", "z"))


def test_the_backward_of_attention_sums_the_products_over_the_features() -> None:
    """rowsum(do * o) in place of rowsum(dp * p): five products, as FlashAttention has them, and those of the forward."""
    program = pk.grad(pk.load_operator("attention"), save="out").program(dict(B=1, H=1, G=2, SQ=8, SK=9, D=4), {}, "bf16")
    assert sum(isinstance(op, Contract) for op in program.body.ops) == 5
    sums = [op for op in program.body.ops if isinstance(op, Fold) and op.fn == "sum"]
    assert [str(op.x.type) for op in sums] == ["tensor[1, 1, 2, 8, 9, f32]", "tensor[1, 1, 2, 8, 4, f32]"]


def test_weights_of_a_loop_have_one_product_behind_it() -> None:
    program = pk.grad(pk.load_operator("lstm")).program(dict(T=4, B=2, I=3, H=5), {}, "f32")
    loops = [op for op in program.body.ops if isinstance(op, Recur)]
    assert len(loops) == 2 and not any(isinstance(op, Scatter) for op in program.body.ops)
    products = [op for op in program.body.ops if isinstance(op, Contract)]
    assert {len(op.lhs_axes) for op in products} == {2} and len(products) == 2  # over steps and batch


def test_slices_of_one_array_become_one_array() -> None:
    @pk.operator
    def gates(x: pk.Tensor["M", "4*H"]):
        a, b, c, d = pk.split(x, 4, 1)
        return pk.tanh(a) * b + c * d

    text = str(pk.grad(gates).trace())
    assert len(re.findall(r"= assemble\(", text)) == 1 and "None)" in text
    agree(gates, {"M": 3, "H": 2})


def test_twice() -> None:
    @pk.operator
    def energy(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"]):
        return pk.tanh(x @ w)

    agree(pk.grad(energy), {"M": 3, "N": 4, "K": 5})
    agree(pk.grad(pk.grad(made_up.walked, "x"), "a"), dict(S=3, B=2))


def test_it_can_be_called_in_an_operator_on_one_array_given_twice() -> None:
    backward = pk.grad(made_up.binary, ("x", "y"))

    @pk.operator
    def both(x: pk.Tensor["M", "N"]):
        made = backward(x, x, *[x * 2.0] * 13)
        return made["d_x"] + made["d_y"]

    @pk.operator
    def direct(x: pk.Tensor["M", "N"], g: pk.Tensor["M", "N"]):
        return made_up.binary(x, x)

    x = np.random.default_rng(0).standard_normal((2, 3))
    total = evaluate(both.program({"M": 2, "N": 3}, {}, "f64"), {"x": x})["out"]
    apart = pk.grad(made_up.binary).program({"M": 2, "N": 3}, {}, "f64")
    found = evaluate(apart, {"x": x, "y": x, **{f"d_out{i}": 2 * x for i in range(13)}})
    np.testing.assert_allclose(total, found["d_x"] + found["d_y"])


def test_everything_comes_from_lines_of_the_forward() -> None:
    """Also zeros, of what no output is computed of."""
    @pk.operator
    def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N"], unused: pk.Tensor["M"]):
        return pk.softmax(x - pk.roll(x, 2, 1), axis=1) * w, pk.argmax(x * unused[:, None], axis=1)

    made = [o for o in pk.grad(op).program({"M": 3, "N": 4}, {}, "f16").body.ops if not isinstance(o, Yield)]
    assert {o.loc and o.loc.file.rpartition("/")[2] for o in made} == {"test_operator.py"}


def test_it_is_written_where_the_forward_is() -> None:
    @pk.operator
    def op(x: pk.Tensor["M", pk.f64]):
        return pk.sin(x)

    assert pk.grad(op).loc == op.loc and op.loc.text.startswith("def op(x")
    with pytest.raises(PortakernError) as refused:
        pk.build(pk.grad(op), target="pallas:v6e", M=3)
    assert "test_operator.py" in str(refused.value)


def test_of_an_operator_that_needs_its_sizes() -> None:
    """A factor is written out for its size: with none there are no outputs to ask gradients for."""
    @pk.operator
    def factor(a: pk.Tensor["N", "N"]):
        return pk.cholesky(a @ a.T + pk.cast(pk.iota(a.shape, 0) == pk.iota(a.shape, 1), a.dtype))

    (work,) = works(Problem(pk.grad(factor), {"N": 3}, {}), [registry().target("cpp:cpu")], ["f32"])
    assert [str(a.type) for a in work.program.args] == ["tensor[3, 3, f32]"] * 2
    with pytest.raises(SpecError, match="open size N"):
        pk.grad(factor).arguments({}, "f32", {})


def test_it_pickles() -> None:
    backward = pk.grad(pk.load_operator("matmul"), "b", save="out")
    again = pickle.loads(pickle.dumps(backward))
    assert (again.name, again.wrt, again.save) == ("matmul_grad_b", ("b",), ("out",))


def test_finite_differences() -> None:
    """Not PyTorch's word alone."""
    forward = made_up.shared
    program, backward = (o.program({"M": 2, "N": 3}, {}, "f64") for o in (forward, pk.grad(forward)))
    given = drawn(backward, {})
    found = evaluate(backward, given)

    def total(arrays: dict[str, np.ndarray]) -> float:
        made = evaluate(program, arrays)
        return sum(float((made[n] * given[f"d_{n}"]).sum()) for n in program.outputs)

    for name in ("x", "w"):
        for place in np.ndindex(given[name].shape):
            moved = [{**given, name: given[name].copy()} for _ in range(2)]
            for arrays, step in zip(moved, (1e-5, -1e-5), strict=True):
                arrays[name][place] += step
            assert (total(moved[0]) - total(moved[1])) / 2e-5 == pytest.approx(found[f"d_{name}"][place], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", ["attention", "conv2d", "cross_entropy", "lstm", "max_pool", "scatter_add", "sort"])
def test_its_text_is_read_back(name: str) -> None:
    operator = pk.load_operator(name)
    program = pk.grad(operator).program(operator.case("tiny").dims, operator.case("tiny").params, "f32")
    assert format_function(parse_function(format_function(program))) == format_function(program)


TINY = [n for n in operator_names() if n != "dropout"]  # whose random bits PyTorch has no counterpart of


@pytest.mark.parametrize("name", TINY)
def test_library(name: str) -> None:
    operator = pk.load_operator(name)
    for case in operator.cases:
        if case.name in ("tiny", "one"):
            agree(operator, case.dims, case.params)


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_library_at_its_ragged_sizes(name: str) -> None:
    operator = pk.load_operator(name)
    for case in operator.cases:
        if case.name not in ("tiny", "one", "typical", "long"):
            agree(operator, case.dims, case.params)


# ---- what makes no sense ------------------------------------------------------------------------------------------------


@pk.operator
def mixed(x: pk.Tensor["M", "N"], i: pk.Tensor["M", pk.i32]):
    return {"y": x * pk.cast(i[:, None], x.dtype), "j": i + 1}


@pk.operator
def whole(i: pk.Tensor["M", pk.i32]):
    return i + 1


@pk.operator
def reread(x: pk.Tensor["M"]):
    return pk.bitcast(pk.cast(x, pk.f16), pk.bf16)


@pk.operator
def multiplied(x: pk.Tensor["P", "D"], o: pk.Tensor["S+1", pk.i32]):
    return pk.segment_prod(x, o)


@pytest.mark.parametrize(("operator", "wrt", "save", "says"), [
    (mixed, "z", (), "mixed has no input 'z' to differentiate for"),
    (mixed, ("x", "i"), (), "i of mixed is i32: only floats have gradients"),
    (mixed, (), (), "no input of mixed is named whose gradient is wanted"),
    (mixed, None, "out", "mixed has no output 'out' to save"),
    (whole, None, (), "whole has no output of floats"),
], ids=str)  # fmt: skip
def test_bad_questions(operator: pk.Operator, wrt: object, save: object, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as error:
        pk.grad(operator, wrt, save)  # type: ignore[arg-type]
    assert "test_operator.py" in error.value.where


@pytest.mark.parametrize(("operator", "says"), [
    (reread, "no gradient through bit_convert: the bits of a number have no derivative"),
    (multiplied, "no gradient through segment_fold: the prod of segments"),
])  # fmt: skip
def test_operations_without_a_derivative_are_named_with_their_line(operator: pk.Operator, says: str) -> None:
    with pytest.raises(SpecError, match=says) as error:
        pk.grad(operator).trace()
    assert "test_operator.py" in error.value.where and "pk." in error.value.message and error.value.hint


def test_the_updates_of_a_scatter_that_multiplies_are_refused_and_the_array_is_not() -> None:
    with pytest.raises(SpecError, match="the updates of a scatter that multiplies"):
        pk.grad(made_up.scatters).trace({"mode": "mul"})
    agree(made_up.scatters, {"M": 5, "N": 7}, {"mode": "mul"}, wrt="x")


def test_an_input_that_is_called_as_a_gradient_is_refused() -> None:
    @pk.operator
    def taken(x: pk.Tensor["M"], d_out: pk.Tensor["M"]):
        return x * d_out

    with pytest.raises(PortakernError, match="taken has an input d_out"):
        pk.grad(taken)


@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_an_input_of_a_dtype_of_its_own_decides_in_which_the_operator_can_be_asked(dtype: str):
    """Its carry would be f32 in bf16, which is no dtype that the step gives."""
    def op(x: pk.Tensor["T", "N"], z: Any):
        return pk.scan(lambda h, x_t: (h * 0.5 + pk.tanh(x_t) * z,) * 2, pk.zeros(x.shape[1:], x.dtype), x)[1]

    op.__annotations__["z"] = pk.Tensor["N", getattr(pk, dtype)]
    made = pk.grad(pk.operator(op)).program({"T": 3, "N": 5}, {}, dtype)
    assert made.outputs == ("d_x", "d_z") and {tensor_type(r).dtype for r in made.results} == {dtype}
