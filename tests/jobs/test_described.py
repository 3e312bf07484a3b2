"""An operator that another process describes is the one that it has; what is no description is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from portakern.errors import PortakernError, UsageError
from portakern.ir.tensor import tensor_type
from portakern.jobs import described, inside
from portakern.jobs.described import NotDescribed
from portakern.jobs.spec import TaskSpec
from portakern.jobs.tracing import Allowed, traced
from portakern.spec.inputs import make_inputs
from portakern.spec.load import load_operator, operator_names
from portakern.study.work import Work

TARGET = "hip:gfx942"


def said(name: str) -> tuple[dict, Work]:
    op = load_operator(name)
    work = inside.work_of(op, TARGET, None, {})
    return json.loads(json.dumps(inside.description(op, work))), work


@pytest.mark.quick
@pytest.mark.parametrize("name", operator_names())
def test_what_is_read_is_what_was_written(name):
    told, work = said(name)
    found = described.read(told, TARGET).work
    assert found.program.digest == work.program.digest
    assert (found.names, found.sizes, found.target) == (dict(work.names), dict(work.sizes), work.target)
    assert json.loads(json.dumps(found.row.to_dict())) == json.loads(json.dumps(work.row.to_dict()))
    if sum(np.prod([s for s in tensor_type(a).shape if isinstance(s, int)]) for a in work.program.args) < 1 << 24:
        ours, theirs = (make_inputs(w.program, w.families, 7, w.sizes) for w in (work, found))
        assert all(np.array_equal(ours[k], theirs[k], equal_nan=ours[k].dtype.kind == "f") for k in ours)


@pytest.mark.quick
def test_nothing_of_a_strangers_description_names_code():
    """The operator's counterpart in PyTorch is an expression that would be evaluated."""
    told, _ = said("softmax")
    assert described.read({**told, "torch": "__import__('os').system('true')"}, TARGET).work.torch == ""


HOSTILE = {
    "no program": {"program": None},
    "a program that is no text of ours": {"program": "import os"},
    "an operation over several lines": {"program": "# portakern ir 1\n@tensor_program(\noutputs=('out',))\ndef f():\n    pass"},
    "what is nested deeply": {"program": "(" * 100_000 + ")" * 100_000},
    "what is too long": {"program": "#" * (9 << 20)},
    "a name with a quote": {"name": 'x"; import os'},
    "a name that is a keyword": {"name": "class"},
    "names of other inputs": {"names": {}},
    "names of more dims": {"names": {"x": ["M", "N", "K"]}},
    "a dim's name with a line in it": {"names": {"x": ["M", "N\nimport os"]}},
    "sizes that are no numbers": {"sizes": {"M": "4"}},
    "a size below nothing": {"sizes": {"M": -4}},
    "no dtype": {"dtype": "f33"},
    "a family of a class of its own": {"families": {"x": {"kind": "Evil"}}},
    "a family with a list": {"families": {"x": {"kind": "Normal", "scale": [1]}}},
    "numbers that are not as many": {"families": {"x": {"kind": "Held", "dtype": "f32", "shape": [9], "base64": "AAAA"}}},
    "a parameter that is no value": {"params": {"eps": {"a": 1}}},
    "a shape in a shape": {"shape": {"M": [[1]]}},
    "a doc that is a number": {"doc": 4},
    "a list of names": {"names": ["x"]},
}


@pytest.mark.quick
@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_description_is_refused(change):
    told, _ = said("softmax")
    with pytest.raises(NotDescribed):
        described.read({**told, **change}, TARGET)


@pytest.mark.quick
@pytest.mark.parametrize("word", ["exp); system(", "exp\\nimport os", 'exp"', "exp'", "exp;", "exp " * 20])
def test_no_word_of_a_program_can_end_a_word_of_a_kernel(word):
    """Texts in attributes come to stand in kernels of ours, which run in no jail."""
    told, _ = said("softmax")
    assert "map('exp', " in told["program"]
    with pytest.raises(NotDescribed):
        described.read({**told, "program": told["program"].replace("map('exp', ", f"map({word!r}, ")}, TARGET)


@pytest.mark.quick
def test_a_place_in_a_description_is_that_of_its_text():
    told, _ = said("softmax")
    program = described.read({**told, "program": told["program"].replace("# at ", "# at /etc/")}, TARGET).work.program
    assert {op.loc for op in program.body.ops} == {None}


OWN = '''
import portakern as pk

@pk.operator
def scaled(x: pk.Tensor["M", "N"], factor: float = 2.0):
    """x times a number"""
    return x * factor
'''


def test_a_strangers_text_is_read_in_a_jail():
    spec = TaskSpec("cpp:cpu", "operator", "scaled", OWN, "f32", {"M": 4, "N": None, "factor": 3.0})
    found = traced(spec)
    assert (found.name, found.doc, found.work.row.params) == ("scaled", "x times a number", {"factor": 3.0})
    assert found.work.program.dims == ("N",)


def test_what_a_strangers_text_does_stays_in_the_jail(tmp_path):
    mark = tmp_path / "mark"
    text = OWN + f"\nimport os, pathlib\npathlib.Path({str(mark)!r}).write_text('here')\n"
    with pytest.raises(PortakernError):
        traced(TaskSpec("cpp:cpu", "operator", "scaled", text, "f32"))
    assert not mark.exists()


ENDS = {"a mistake": ("x * factr", "task.py:7: NameError", 60.0),
        "an exit": ("__import__('os')._exit(3)", "exit status 3", 60.0),
        "no end": ("[0 for _ in iter(int, 1)]", "did not finish within", 4.0)}  # fmt: skip


@pytest.mark.parametrize(("body", "words", "limit_s"), ENDS.values(), ids=ENDS)
def test_a_text_that_ends_otherwise_is_an_error(body, words, limit_s):
    text = OWN.replace("return x * factor", f"return {body}")
    with pytest.raises(PortakernError) as error:
        traced(TaskSpec("cpp:cpu", "operator", "scaled", text, "f32"), Allowed(limit_s=limit_s))
    assert words in str(error.value)


@pytest.mark.quick
def test_a_task_that_is_too_large_is_refused_before_anything_is_made():
    with pytest.raises(UsageError) as error:
        traced(TaskSpec("cpp:cpu", operator="softmax", dtype="f32", values={"M": 1 << 20, "N": 1 << 20}))
    assert error.value.kind == "too-large"


@pytest.mark.quick
@pytest.mark.parametrize("name", ["/etc/passwd.py:x", "task.py", "os.py:system", "", "sofmax"])
def test_no_file_of_this_machine_is_an_operator_of_the_library(name):
    with pytest.raises(UsageError):
        traced(TaskSpec("cpp:cpu", operator=name))


@pytest.mark.quick
def test_the_same_question_has_the_same_id():
    one = TaskSpec("cpp:cpu", operator="softmax", values={"M": 4, "N": 5})
    assert one.id == TaskSpec.from_dict(json.loads(json.dumps(one.to_dict()))).id
    assert len({one.id, TaskSpec("cpp:cpu", operator="softmax", values={"M": 5, "N": 4}).id,
                TaskSpec("hip:gfx942", operator="softmax", values={"M": 4, "N": 5}).id}) == 3  # fmt: skip
