"""Texts in two languages are tied by the tile operations that their lines do."""

from __future__ import annotations

import pytest

from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.spec.load import library
from portakern.study import steps
from portakern.study.operations import Operation, operations
from portakern.study.report.linking import linked
from portakern.study.work import like_typical, works

LOAD_X, STORE_Y, EXP = Operation("load", "x"), Operation("store", "y"), Operation("function", "exp")
WORDS = {"load": r"\bload\(.*\b{name}\b", "store": r"\bstore\(.*\b{name}\b"}


@pytest.mark.quick
@pytest.mark.parametrize(("line", "does"), [
    ("a = load(x + 3)", (0,)), ("store(exp(a), y)", (1, 2)), ("a = load(x2)", ()), ("b = a + 1  # load(x)", ()),
    ("expand(a)", (2,)), ("    def load(x):", ())])  # fmt: skip
def test_a_line_does_what_its_words_say(line: str, does: tuple[int, ...]):
    if line.startswith("expand"):  # a longer name that begins alike may be a variant of the function, such as exp2
        assert linked("exp2(a)", ".py", [LOAD_X, STORE_Y, EXP], WORDS) == [does]
        return
    assert linked(line, ".py", [LOAD_X, STORE_Y, EXP], WORDS) == [does]


@pytest.mark.quick
def test_a_statement_on_several_lines_is_marked_where_its_words_stand():
    text = "a = 1\nb = load(\n    x,\n    mask=exp(c),\n)\n"
    assert linked(text, ".py", [LOAD_X, STORE_Y, EXP], WORDS) == [(), (0,), (0,), (2,), ()]


@pytest.mark.quick
def test_comments_are_those_of_the_language():
    assert linked("a = load(9 // x)", ".py", [LOAD_X], WORDS) == [(0,)]
    assert linked("a = 9; // load(x)", ".cu", [LOAD_X], WORDS) == [()]


@pytest.mark.parametrize("target", [
    "numba:cpu", "cuda:sm_90a", "triton:sm_90", "hip:gfx942", "pallas:v6e", "sycl:cpu",
    pytest.param("cpp:cpu", marks=pytest.mark.slow),  # the words of cuda and hip
    pytest.param("opencl:cpu", marks=pytest.mark.slow)])  # those of sycl  # fmt: skip
def test_nearly_every_operation_of_the_library_is_found_in_every_language(target: str):
    """What is not found was fused away: such as a temporary that stays in a kernel."""
    (aim,) = registry().match(target)
    words = registry().language(aim.language).words
    lost, all_of_them = [], 0
    for op in library():
        dtype = "bf16" if "bf16" in op.dtypes else op.dtypes[0]
        for work in works(like_typical(op, {}, {}), [aim], [dtype]):
            try:
                found = steps.emission(work)
            except PortakernError:
                continue  # the language cannot say this operator
            wanted = operations(found.program)
            there = {n for numbers in linked(found.source.text, found.source.suffix, wanted, words) for n in numbers}
            all_of_them += len(wanted)
            lost += [(op.name, w.title) for n, w in enumerate(wanted) if n not in there]
    assert all_of_them > 100
    assert len(lost) <= 0.06 * all_of_them, lost
