"""Dtypes as people name them, wherever a dtype is taken."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import portakern as pk
from portakern.dtype_names import dtype_name
from portakern.dtypes import DTYPES, numpy_dtype
from portakern.errors import PortakernError, UsageError
from portakern.spec.annotations import scalar_spec, tensor_spec
from portakern.spec.load import load_operator
from portakern.study.work import Problem, works

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", list(DTYPES))
def test_every_dtype_by_the_names_of_libraries(name: str):
    long = DTYPES[name].long_name
    here = numpy_dtype(name)
    said = DTYPES[name], name, name.upper(), long, f"torch.{long}", f"np.{long}", here, here.type
    assert {dtype_name(x) for x in said} == {name}


@pytest.mark.parametrize("name", list(DTYPES))
def test_every_dtype_of_torch(name: str):
    torch = pytest.importorskip("torch")
    assert dtype_name(getattr(torch, DTYPES[name].long_name)) == name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "int8", "bool_"])
def test_dtypes_of_jax(name: str):
    jnp = pytest.importorskip("jax.numpy")
    assert dtype_name(getattr(jnp, name)) == dtype_name(getattr(jnp, name).dtype) == dtype_name(name)


@pytest.mark.parametrize(("word", "name"), [("half", "f16"), ("double", "f64"), (" BFloat16 ", "bf16"),
                                            ("fp16", "f16"), (float, "f64"), (bool, "bool"), (ml_dtypes.float8_e5m2, "f8e5m2")])
def test_words(word: object, name: str):
    assert dtype_name(word) == name


@pytest.mark.parametrize(("word", "meant"), [
    ("flaot32", "f32"), ("bf61", "bf16"), ("float8_e4m3fnu", "f8e4m3fnuz"), ("int", "i32"), ("float", "f32"),
])  # fmt: skip
def test_what_is_close_is_suggested(word: str, meant: str):
    with pytest.raises(UsageError) as error:
        dtype_name(word)
    assert "did you mean" in error.value.hint and meant in error.value.hint.partition("?")[0]


@pytest.mark.parametrize("what", [None, 7, [1], object(), np.ones(2), np.complex64, "complex64", "", "q"])
def test_what_is_no_dtype(what: object):
    with pytest.raises(UsageError, match="dtype"):
        dtype_name(what)


def test_operators_take_them():
    @pk.operator(dtypes=("float32", np.float16))
    def op(x: pk.Tensor["N"], y: pk.Tensor["N", np.int32]):
        return pk.cast(pk.cast(x, "double") + pk.cast(y, np.dtype("float64")), "half")

    assert op.dtypes == ("f32", "f16")
    program = op.trace({}, np.float32)  # type: ignore[arg-type]
    assert [a.type.dtype for a in program.args] == ["f32", "i32"] and program.results[0].type.dtype == "f16"  # type: ignore
    assert tensor_spec(("M", "half")).dtype is None, "a text is a dim"
    assert scalar_spec("float32").dtype == "f32"
    with pytest.raises(PortakernError, match="f61"):
        pk.operator(dtypes=("f61",))(lambda x: x)


def test_rows_have_our_name():
    problem = Problem(load_operator("softmax"), {"M": 2, "N": 4}, {})
    (work,) = works(problem, pk.targets("numba:cpu"), [np.float32])  # type: ignore[arg-type]
    assert work.row.dtype == "f32"
