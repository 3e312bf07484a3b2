"""Tracing: what functions on arrays become, dtypes, outputs, locations, dims and parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import portakern as pk
from portakern.errors import SpecError, UsageError
from portakern.ir.oracle import evaluate
from portakern.ir.size import Sym
from portakern.ir.tensor import tensor_type
from portakern.spec.bind import bind, solve_dims
from portakern.spec.inputs import make_inputs
from tests.spec import examples

pytestmark = pytest.mark.quick


def out_types(program) -> dict[str, str]:
    return {n: str(r.type) for n, r in zip(program.outputs, program.results, strict=True)}


def test_the_design_s_example_traces_as_expected() -> None:
    from portakern.ir.text import format_function

    text = format_function(pk.load_operator("rms_norm").trace({}, "bf16"), locations=False)
    assert text.splitlines()[1:] == [
        "@tensor_program(outputs=('out',))",
        "def rms_norm(x: tensor[M, N, bf16], w: tensor[N, bf16]):",
        "    v2: tensor[M, N, f32] = convert(x, 'f32')",
        "    v3: tensor[M, N, f32] = map('mul', (v2, v2,))",
        "    v4: tensor[M, f32] = fold('sum', v3, (1,))",
        "    v5: tensor[M, 1, f32] = expand(v4, ('M', '1',), (0,))",
        "    v6: tensor[f32] = dim_size('N', 'f32')",
        "    v7: tensor[M, 1, f32] = map('div', (v5, v6,))",
        "    v8: tensor[f32] = literal(1e-06, 'f32')",
        "    v9: tensor[M, 1, f32] = map('add', (v7, v8,))",
        "    v10: tensor[M, 1, f32] = map('rsqrt', (v9,))",
        "    v11: tensor[M, N, f32] = expand(v10, ('M', 'N',), (0, 1))",
        "    v12: tensor[M, N, f32] = map('mul', (v2, v11,))",
        "    v13: tensor[M, N, bf16] = convert(v12, 'bf16')",
        "    v14: tensor[M, N, bf16] = expand(w, ('M', 'N',), (1,))",
        "    v15: tensor[M, N, bf16] = map('mul', (v13, v14,))",
        "    give((v15,))",
    ]


def test_shapes_of_open_and_bound_programs() -> None:
    program = examples.everything.trace({}, "f32", {"B": 2})
    assert program.dims == ("B0", "B1", "M", "N")
    assert out_types(program) == {
        "z": "tensor[B0, B1, M, M, f32]",
        "a": "tensor[B0, B1, M - 1, 1, f32]",
        "m": "tensor[B1, M, f32]",
        "t": "tensor[B0, B1, (M + 1) // 2, N, f32]",
        "v": "tensor[B0, B1, M, f32]",
        "r": "tensor[B0*B1*M, N, f32]",
    }
    bound = examples.everything.program({"B": (2, 3), "M": 4, "N": 8})
    assert out_types(bound)["t"] == "tensor[2, 3, 2, 8, f32]"
    assert examples.everything.program({"B": 5, "M": 4, "N": pk.dynamic}).dims == ("N",)


def test_it_computes_what_numpy_does() -> None:
    program = examples.everything.program({"B": (2, 3), "M": 4, "N": 8})
    inputs = make_inputs(program)
    x, y = (inputs[n].astype(np.float64) for n in "xy")
    got = evaluate(program, inputs)
    np.testing.assert_allclose(got["z"], (x @ y) * float(inputs["alpha"]))
    np.testing.assert_array_equal(got["a"], x[..., 1:, None, 2])
    np.testing.assert_array_equal(got["m"], x.max((0, -1)))
    np.testing.assert_array_equal(got["t"], x[..., ::2, ::-1])
    np.testing.assert_allclose(got["v"], x.var(-1))
    np.testing.assert_array_equal(got["r"], x.reshape(-1, 8))


def test_dtypes_are_per_input() -> None:
    program = examples.typed.trace({}, "bf16")
    assert [tensor_type(a).dtype for a in program.args] == ["i64", "bf16", "f32"]
    assert tensor_type(program.results[0]).dtype == "f32"


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (pk.bf16, pk.f32, "f32"),
        (pk.bf16, pk.f16, "f32"),
        (pk.i32, pk.bf16, "bf16"),
        (pk.i32, pk.i64, "i64"),
        (pk.boolean, pk.f32, "f32"),
        (pk.f8e4m3, pk.f8e5m2, "f16"),
        (pk.f8e4m3fnuz, pk.f8e4m3, "f16"),
        (pk.f8e5m2fnuz, pk.bf16, "bf16"),
        (pk.f32, pk.f64, "f64"),
    ],
)
def test_promotion(left, right, result: str) -> None:
    @pk.operator
    def both(x: pk.Tensor["M", left], y: pk.Tensor["M", right]):
        return x + y

    assert tensor_type(both.trace().results[0]).dtype == result


def test_python_numbers_adapt_to_arrays() -> None:
    @pk.operator
    def f(x: pk.Tensor["M"], i: pk.Tensor["M", pk.i32]):
        return x * 2.5, i * 2, i * 2.5, i / 2, i // 2, 1 - x, np.float32(2) * x

    types = [tensor_type(r).dtype for r in f.trace({}, "bf16").results]
    assert types == ["bf16", "i32", "f32", "f32", "i32", "bf16", "bf16"]


def test_outputs_are_named() -> None:
    assert examples.several.trace().outputs == ("out0", "out1")
    assert examples.named.trace().outputs == ("mean", "var")
    assert pk.load_operator("softmax").trace().outputs == ("out",)


def test_an_operator_inside_another_is_inlined() -> None:
    program = examples.calls_another.program({"M": 2, "N": 3})
    inputs = make_inputs(program)
    x = inputs["x"].astype(np.float64)
    np.testing.assert_allclose(evaluate(program, inputs)["out"], 2 * x + x.sum(-1, keepdims=True))


def test_an_operator_is_not_called_on_arrays() -> None:
    with pytest.raises(UsageError, match="only says what is to be computed"):
        examples.several(np.ones((2, 2)))


def test_dims_may_be_expressions() -> None:
    assert out_types(examples.halves.trace()) == {"out": "tensor[M, H, f32]"}
    assert solve_dims(examples.halves.program({"H": 5}), {"x": (3, 10)}) == {"M": 3}


def test_locations_name_the_operator_s_line() -> None:
    source = Path(str(examples.__file__)).read_text().splitlines()
    program = examples.several.trace()
    where = {source[op.loc.line - 1].strip() for op in program.body.ops[:-1] if op.loc}
    assert where == {"return x.sum(-1), x * 2"}


# ---- dims, parameters, binding


def test_bind_replaces_dims_everywhere_and_keeps_the_rest_open() -> None:
    program = pk.load_operator("rms_norm").trace({}, "bf16")
    half = bind(program, {"N": 8})
    assert half.dims == ("M",)
    assert "N" not in str(half).replace("NaN", "")
    assert str(bind(half, {"M": 4})) == str(bind(program, {"M": 4, "N": 8}))


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"Q": 4}, "softmax has no dim 'Q'"),
        ({"M": -1}, "is not negative"),
        ({"M": 2.5}, "is an integer"),
        ({"M": True}, "is an integer"),
        ({"M": 2**63}, "below 2\\*\\*63"),
    ],
)
def test_bad_dims_are_usage_errors(dims, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pk.load_operator("softmax").program(dims)


def test_a_size_that_follows_is_not_negative_either() -> None:
    @pk.operator
    def shorter(x: pk.Tensor["M", "K - 3"]):
        return x * 2.0

    with pytest.raises(UsageError, match="K - 3 elements along a dim, which is -2 for K=1"):
        shorter.program({"M": 4, "K": 1})
    assert shorter.program({"M": 4, "K": 3}).dims == ()


def test_what_is_made_has_no_negative_size() -> None:
    @pk.operator
    def pooled(x: pk.Tensor["M", "K", 4]):
        return pk.max_pool(x, (3,), stride=1)

    with pytest.raises(UsageError, match=r"K - 2 elements along a dim, which is -1 for K=1"):
        bind(pooled.program({"M": 4}), {"K": 1})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epps": 1.0}, "has no parameter 'epps'"),
        ({"eps": "x"}, "cannot take eps='x'"),
        ({"mode": "c"}, "cannot take mode='c'"),
        ({"n": 2.5}, "cannot take n=2.5"),
        ({"n": True}, "cannot take n=True"),
    ],
)
def test_bad_parameters_are_usage_errors(params, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        examples.with_params.trace(params)


def test_parameters_and_dims_read_from_text() -> None:
    op = examples.with_params
    assert op.read_param("eps", "1e-3") == 1e-3
    assert op.read_param("scale", "none") is None
    assert pk.load_operator("attention").read_param("causal", "true") is True
    with pytest.raises(UsageError, match="eps is a float"):
        op.read_param("eps", "much")
    assert pk.load_operator("matmul").read_dim("B", "2x3") == (2, 3)
    assert pk.load_operator("matmul").read_dim("M", "?") is pk.dynamic
    with pytest.raises(UsageError, match="not a size"):
        op.read_dim("M", "big")


def test_unknown_dtype_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown dtype 'float'"):
        examples.several.trace({}, "float")


def test_sizes_beyond_32_bits_bind() -> None:
    program = pk.load_operator("add_relu").program({"M": 2**40, "N": 3})
    assert tensor_type(program.results[0]).shape == (2**40, 3)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2, 3), "w": (4,)}, r"w has 4 elements in dim 0, where rms_norm wants N \(N is 3 in x\)"),
        ({"x": (2,), "w": (4,)}, r"x has 1 dims, rms_norm takes \[M, N\]"),
    ],
)
def test_arrays_that_do_not_fit_are_named(shapes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        solve_dims(pk.load_operator("rms_norm").trace(), shapes)


def test_solving_checks_bound_dims() -> None:
    with pytest.raises(UsageError, match="wants 8"):
        solve_dims(pk.load_operator("rms_norm").program({"N": 8}), {"x": (2, 7), "w": (7,)})


def test_shape_is_symbolic_inside() -> None:
    seen = []

    @pk.operator
    def f(x: pk.Tensor["M", 4]):  # pyright: ignore
        seen.append(x.shape)
        return x

    f.trace()
    assert seen == [(Sym.named("M"), 4)]


def test_every_default_case_of_an_undeclared_operator_binds() -> None:
    assert {"typical", "ragged", "tiny", "one", "zero", "long", "unaligned"} == {c.name for c in examples.several.cases}
    for case in examples.several.cases:
        examples.several.program(case.dims)


def test_an_operator_without_dims_has_one_default_case() -> None:
    @pk.operator
    def negated(x: pk.Tensor[()]):
        return -x

    assert [(c.name, c.dims) for c in negated.cases] == [("typical", {})]


def test_bounds_below_0_count_from_the_end_also_where_they_are_sizes() -> None:
    @pk.operator
    def ends(x: pk.Tensor["M", "2*D"], y: pk.Tensor["M", "D"], z: pk.Tensor["M", "K"]):
        d, k = x.shape[1] // 2, z.shape[1]
        return x[:, -d:] - x[:, :-d] * y, z[:, -(k // 2) :], x[:, -d]

    shapes = [tensor_type(r).shape for r in ends.trace().results]
    assert list(map(str, shapes)) == ["(M, D)", "(M, (K) // 2)", "(M,)"]
    x, y, z = (np.arange(3.0 * n, dtype=np.float32).reshape(3, n) for n in (8, 4, 5))
    program = ends.program({"M": 3, "D": 4, "K": 5})
    found = evaluate(program, dict(zip("xyz", (x, y, z), strict=True))).values()
    for have, wanted in zip(found, (x[:, 4:] - x[:, :4] * y, z[:, -2:], x[:, 4]), strict=True):
        np.testing.assert_array_equal(have, wanted)


def test_strided_slices_of_a_multiple_are_equal() -> None:
    """Every n-th element of n D is D of them wherever one begins, and halves are halves."""

    @pk.operator
    def parts(x: pk.Tensor["M", "2*D"], y: pk.Tensor["3*D", "M"], z: pk.Tensor["M", "2*D + 1"]):
        d = x.shape[1] // 2
        even, odd = x[:, ::2], x[:, 1::2]
        turned = even * x[:, :d] - odd * x[:, d:] + y[::3].T + y[1::3].T + y[2::3].T + x[:, ::-1][:, ::2]
        return turned + z[:, 1::2], z[:, ::2]

    first, second = parts.trace().results
    assert str(tensor_type(first)) == "tensor[M, D, f32]" and str(tensor_type(second)) == "tensor[M, D + 1, f32]"
    for dims in ({"M": 3, "D": 4}, {"M": 3, "D": 0}, {"M": 1, "D": 1}):
        m, d = dims.values()
        assert [tensor_type(r).shape for r in parts.program(dims).results] == [(m, d), (m, d + 1)]


def test_a_number_of_the_largest_may_be_a_size() -> None:
    """Which is known when the operator is built."""
    @pk.operator
    def op(x: pk.Tensor["B", "W", "V"]):
        best, at = pk.topk(x.reshape(x.shape[0], -1), x.shape[1], axis=1)
        return best, at // x.shape[2]

    with pytest.raises(SpecError, match="topk of the open size W"):
        op.trace({}, "f32")
    assert out_types(op.program({"B": 2, "W": 3, "V": 5}, {}, "f32"))["out0"] == "tensor[2, 3, f32]"


def test_places_of_the_largest_keep_their_axis_and_are_found_of_booleans() -> None:
    @pk.operator
    def op(x: pk.Tensor["M", "N"]):
        return pk.argmax(x > 0.5, axis=1), x.argmin(0, keepdims=True)

    given = np.random.default_rng(0).standard_normal((4, 7))
    found = evaluate(op.program({"M": 4, "N": 7}, {}, "f32"), {"x": given})
    np.testing.assert_array_equal(found["out0"], np.argmax(given > 0.5, axis=1))
    np.testing.assert_array_equal(found["out1"], np.argmin(given, axis=0, keepdims=True))
