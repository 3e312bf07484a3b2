"""Expressions and constants as C text."""

from __future__ import annotations

import math
import struct

import pytest

from portakern.emit.clike.expressions import BINARY, COMPARE, SELECT, UNARY, Text, apply, constant
from portakern.emit.clike.memory import add, multiply, size_text
from portakern.emit.clike.names import Names
from portakern.emit.clike.standalone import inline_headers
from portakern.errors import BackendError
from portakern.ir.size import Sym, ceildiv

A, B, C = Text("a"), Text("b"), Text("c")


@pytest.mark.parametrize(("text", "want"), [
    (apply(BINARY["mul"], apply(BINARY["add"], A, B), C), "(a + b) * c"),
    (apply(BINARY["add"], apply(BINARY["mul"], A, B), C), "a * b + c"),
    (apply(BINARY["sub"], A, apply(BINARY["sub"], B, C)), "a - (b - c)"),
    (apply(BINARY["sub"], apply(BINARY["sub"], A, B), C), "a - b - c"),
    (apply(BINARY["div"], A, apply(BINARY["mul"], B, C)), "a / (b * c)"),
    (apply(UNARY["neg"], apply(BINARY["add"], A, B)), "-(a + b)"),
    (apply(UNARY["exp"], apply(BINARY["sub"], A, B)), "pk::exp(a - b)"),
    (apply(SELECT, apply(COMPARE["lt"], A, B), A, apply(SELECT, A, B, C)), "a < b ? a : a ? b : c"),
    (apply(SELECT, A, apply(SELECT, A, B, C), C), "a ? (a ? b : c) : c"),
    (apply(BINARY["and"], apply(COMPARE["lt"], A, B), apply(COMPARE["lt"], B, C)), "(a < b) & (b < c)"),
])  # fmt: skip
def test_parentheses(text: str, want: str) -> None:
    assert text == want


def test_negative_of_a_negative() -> None:
    assert apply(UNARY["neg"], apply(UNARY["neg"], A)) == "-(-a)"
    assert apply(BINARY["sub"], A, constant(-1.0, "f32")) == "a - -1.0f"


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e-5, 0.044715, 0.7978845608028654, 1e30, 2**-149, 3.4028235e38, 1 / 3])
def test_f32_constants_read_back(value: float) -> None:
    text = constant(value, "f32")
    assert text.endswith("f") and ("." in text or "e" in text)
    exact = struct.unpack("f", struct.pack("f", value))[0]
    assert struct.unpack("f", struct.pack("f", float(text[:-1])))[0] == exact


def test_special_constants() -> None:
    assert constant(math.inf, "f32") == "INFINITY" and constant(-math.inf, "f32") == "-INFINITY"
    assert constant(math.nan, "f32") == "NAN"
    assert constant(0.1, "f64") == "0.1" and constant(3, "i32") == "3" and constant(True, "bool") == "true"
    assert constant(2**40, "i64") == f"int64_t({2**40})" and constant(-(2**63), "i64") == "int64_t(-9223372036854775807 - 1)"
    assert constant(-(2**31), "i32") == "(-2147483647 - 1)"
    assert constant(-0.0, "f32") == "-0.0f"


def test_addresses() -> None:
    m, n = Sym.named("M"), Sym.named("N")
    assert multiply(Text("m0"), size_text(m * n)) == "m0 * (M*N)"
    assert multiply(Text("m0"), size_text(m + n)) == "m0 * (N + M)"
    assert size_text(ceildiv(m, 64)) == "(M + 63) / 64"
    assert add(Text("x"), Text("0")) == "x" and add(Text("x"), size_text(-3)) == "x - 3"


def test_names() -> None:
    names = Names({"x"})
    assert [names.fresh("x"), names.fresh("x")] == ["x2", "x3"]
    assert [names.fresh("float", "float_"), names.fresh("a-b")] == ["float_", "a_b"]


def test_headers_are_inlined_once() -> None:
    headers = {"pk/a.hpp": '#pragma once\n#include "pk/b.hpp"\nA\n', "pk/b.hpp": "#pragma once\nB\n"}
    text = inline_headers('#include "pk/b.hpp"\n#include "pk/a.hpp"\n#include <math.h>\nmain\n', headers)
    assert text.count("B\n") == 1 and "#pragma" not in text and "#include <math.h>" in text and '"pk/' not in text
    with pytest.raises(BackendError, match="missing"):
        inline_headers('#include "pk/missing.hpp"\n', headers)
