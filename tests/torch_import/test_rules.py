"""Every operation of core ATen has a rule, or a reason why it has none."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from portakern.torch_import import walk  # noqa: E402
from portakern.torch_import.aten import complexes  # noqa: E402
from portakern.torch_import.aten.without import WITHOUT, base_of, why_not  # noqa: E402
from portakern.torch_import.rules import RULES, rule_for  # noqa: E402


def core() -> set[str]:
    found = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            if torch.Tag.core in getattr(packet, overload).tags:
                found.add(f"aten.{name}.{overload}")
    return found


def test_core_aten_is_there() -> None:
    assert len(core()) > 180


def test_every_core_operation_has_a_rule_or_a_reason() -> None:
    assert {n for n in core() if rule_for(n) is None and base_of(n) not in (*WITHOUT, *complexes.RULES)} == set()


def test_what_has_a_reason_has_no_rule() -> None:
    assert [n for n in WITHOUT if rule_for(n) is not None] == []
    assert all(len(why_not(f"{n}.default")) > 20 for n in WITHOUT)


def test_rules_are_named_as_torch_names_operations() -> None:
    def exists(name: str) -> bool:
        space, packet, *overload = name.split(".")
        found = getattr(getattr(torch.ops, space), packet, None)
        return found is not None and (not overload or overload[0] in found.overloads())

    others = [n for n in RULES if n.partition(".")[0] not in ("aten", "prims")]
    assert [n for n in RULES if n not in others and not exists(n)] == []
    assert {n.partition(".")[0] for n in others} == {"transformers", "portakern"}
    assert walk.rules_known() == frozenset(RULES)
