"""What `portakern fleet status` says on the head's machine, on a node's, and where there is no fleet."""

from __future__ import annotations

from typing import Any

import pytest

from portakern.cli.fleet import _elsewhere, _text

pytestmark = pytest.mark.quick


def status(up: bool, *roles: str, alive: bool = True) -> dict[str, Any]:
    here = [
        {"name": role, "role": role, "address": "10.0.0.7:6400", "alive": alive, "processes": 5, "starts": 1} for role in roles
    ]
    return {"up": up, "nodes": [], "jobs": {"jobs": 3, "rows": 2, "open": 1}, "under_way": 1, "here": here}


def test_the_head_knows_the_jobs() -> None:
    assert _text(status(True, "head")).splitlines()[:2] == ["the fleet is up", "3 jobs: 2 judged, 1 open, 1 with nodes"]


def test_a_node_names_its_head_and_counts_no_jobs() -> None:
    said = _text(status(False, "node"))
    assert "10.0.0.7:6400" in said.splitlines()[0] and "jobs:" not in said


def test_without_a_living_node_there_is_no_fleet() -> None:
    for found in (status(False), status(False, "head"), status(False, "node", alive=False)):
        assert _elsewhere(found) == "" and _text(found).startswith("no fleet is up")
