"""Expressions and constants as trees, and the C text that they become."""

from __future__ import annotations

import math
import struct

import pytest

from portakern.emit.clike.expressions import BINARY, COMPARE, SELECT, UNARY, constant
from portakern.emit.clike.names import CNames
from portakern.emit.clike.standalone import inline_headers
from portakern.emit.clike.terms import (
    ZERO,
    LiteralTerm,
    Name,
    PlanTerm,
    Word,
    add,
    apply,
    divide,
    multiply,
    size_term,
    whole,
    without,
)
from portakern.errors import CompileError
from portakern.ir.size import Sym, ceildiv

pytestmark = pytest.mark.quick

A, B, C = Name("a"), Name("b"), Name("c")


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
def test_parentheses(text: PlanTerm, want: str) -> None:
    assert str(text) == want


def test_negative_of_a_negative() -> None:
    assert str(apply(UNARY["neg"], apply(UNARY["neg"], A))) == "-(-a)"
    assert str(apply(BINARY["sub"], A, constant(-1.0, "f32"))) == "a - -1.0f"


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e-5, 0.044715, 0.7978845608028654, 1e30, 2**-149, 3.4028235e38, 1 / 3])
def test_f32_constants_read_back(value: float) -> None:
    text = str(constant(value, "f32"))
    assert text.endswith("f") and ("." in text or "e" in text)
    exact = struct.unpack("f", struct.pack("f", value))[0]
    assert struct.unpack("f", struct.pack("f", float(text[:-1])))[0] == exact


@pytest.mark.parametrize(("value", "dtype", "want"), [
    (math.inf, "f32", "INFINITY"), (-math.inf, "f32", "-INFINITY"), (math.nan, "f32", "NAN"), (1e300, "f32", "INFINITY"),
    (-1e300, "bf16", "-INFINITY"), (math.nan, "f64", "double(NAN)"), (-math.inf, "f64", "double(-INFINITY)"),
    (1e300, "f64", "1e+300"), (0.1, "f64", "0.1"), (3, "i32", "3"), (True, "bool", "true"), (2**40, "i64", f"int64_t({2**40})"),
    (-(2**63), "i64", "int64_t(-9223372036854775807 - 1)"), (-(2**31), "i32", "(-2147483647 - 1)"), (-0.0, "f32", "-0.0f"),
])  # fmt: skip
def test_special_constants(value: float, dtype: str, want: str) -> None:
    assert str(constant(value, dtype)) == want


def test_addresses() -> None:
    m, n = Sym.named("M"), Sym.named("N")
    assert str(multiply(Name("m0"), size_term(m * n))) == "m0 * (M*N)"
    assert str(multiply(Name("m0"), size_term(m + n))) == "m0 * (N + M)"
    assert str(size_term(ceildiv(m, 64))) == "(M + 63) / 64"
    assert add(Name("x"), ZERO) == Name("x") and str(add(Name("x"), size_term(-3))) == "x - 3"
    assert str(add(Name("x"), add(Name("i"), whole(2)))) == "x + i + 2"


def test_what_a_term_reads() -> None:
    term = add(Name("whole.part"), multiply(divide(Word("blockIdx.x"), size_term(Sym.named("M"))), LiteralTerm("4")))
    assert term.reads == {"whole", "M"}
    assert str(term.renamed({"whole": "w", "M": "m"})) == "w.part + blockIdx.x / M * 4"  # a size is a parameter, and stays
    shifted = term.rewritten(lambda x: add(x, whole(-2)) if isinstance(x, Word) else x)
    assert str(shifted) == "whole.part + (blockIdx.x - 2) / M * 4"


def test_a_summand_is_taken_out() -> None:
    i, k = Name("i"), Name("k")
    assert without(add(add(Name("x"), multiply(k, whole(64))), i), "k") == add(Name("x"), i)
    assert without(add(Name("x"), k), "k") == Name("x") and without(Name("x"), "k") == Name("x")
    assert without(add(Name("x"), divide(k, whole(2))), "k") is None and without(k, "k") is None


def test_names() -> None:
    names = CNames({"x"})
    assert [names.fresh("x"), names.fresh("x")] == ["x2", "x3"]
    assert [names.fresh("float", "float_"), names.fresh("a-b")] == ["float_", "a_b"]


def test_headers_are_inlined_once() -> None:
    headers = {"pk/a.hpp": '#pragma once\n#include "pk/b.hpp"\nA\n', "pk/b.hpp": "#pragma once\nB\n"}
    text = inline_headers('#include "pk/b.hpp"\n#include "pk/a.hpp"\n#include <math.h>\nmain\n', headers)
    assert text.count("B\n") == 1 and "#pragma" not in text and "#include <math.h>" in text and '"pk/' not in text
    with pytest.raises(CompileError, match="missing"):
        inline_headers('#include "pk/missing.hpp"\n', headers)
