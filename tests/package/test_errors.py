"""Errors: what they say, what scripts can read, and that they survive the way from a worker."""

from __future__ import annotations

import inspect
import pickle

import pytest

from portakern import errors
from portakern.errors import CompileError, MissingRuleError, PortakernError, SpecError, UsageError

pytestmark = pytest.mark.quick

CLASSES = [
    value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors._Kinded) and not name.startswith("_")
]


def test_text_has_the_place_the_fault_and_the_next_step():
    error = SpecError("dim 'K' is not known", hint="name it in an argument", where="op.py:7")
    assert str(error) == "op.py:7: dim 'K' is not known\n  hint: name it in an argument"
    assert str(SpecError("only this")) == "only this"


def test_rows_carry_kind_message_and_hint():
    error = SpecError("dim 'K' is not known", hint="name it", where="op.py:7")
    assert error.to_dict() == {"kind": "spec", "message": "op.py:7: dim 'K' is not known", "hint": "name it"}
    assert CompileError("m", kind="compile-timeout").to_dict()["kind"] == "compile-timeout"
    assert PortakernError("odd", "m").to_dict() == {"kind": "odd", "message": "m", "hint": ""}


def test_missing_rules_are_listed_at_once():
    error = MissingRuleError("two ops have no rule", missing=("sort (op.py:3)", "scan (op.py:9)"))
    assert str(error) == "two ops have no rule\n  - sort (op.py:3)\n  - scan (op.py:9)"


def test_only_bad_usage_exits_with_two():
    assert {error_class.exit_status for error_class in CLASSES if error_class is not UsageError} == {1}
    assert UsageError.exit_status == 2


def test_each_class_has_its_own_kind():
    kinds = [error_class("m").kind for error_class in CLASSES]
    assert len(set(kinds)) == len(kinds) and "error" not in kinds


@pytest.mark.parametrize("error", [
    PortakernError("odd", "message", "hint", "place"),
    SpecError("message", where="op.py:7"),
    MissingRuleError("message", missing=("a", "b")),
    CompileError("message", log="the log", kind="compile-timeout"),
])  # fmt: skip
def test_pickling_keeps_everything(error: PortakernError):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and vars(copy) == vars(error) and str(copy) == str(error)
