"""What the loop of the fuzzer does with findings, on a workshop that runs nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from portakern.fuzz.engine import Engine, FuzzSettings
from portakern.fuzz.outcome import FOUND, TargetOutcome
from portakern.fuzz.state import RunFolder
from portakern.registry import registry

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("seconds", "tries"), [(240.0, False), (0.1, True)])
def test_a_hang_is_not_made_smaller(seconds: float, tries: bool, tmp_path: Path) -> None:
    """One try of it takes longer than all may, and all other workers would wait for it."""
    calls = []

    def run(programs: Any, targets: Any = None, progress: Any = None, skip: Any = ()) -> dict[str, list[TargetOutcome]]:
        calls.append(programs)
        hang = TargetOutcome("cpp:cpu", FOUND, "timeout", "compiling did not finish", seconds=seconds)
        return {p.digest: [hang] for p in programs}

    workshop = SimpleNamespace(run=run, targets=registry().match("cpp:cpu"), until="run", folder=tmp_path / "work")
    workshop.folder.mkdir()
    Engine(cast(Any, workshop), RunFolder(tmp_path / "run"), FuzzSettings(programs=1, batch=4, shrink_s=2.0)).run()
    assert (len(calls) > 1) == tries
    assert list((tmp_path / "run" / "found").glob("timeout*.py"))
