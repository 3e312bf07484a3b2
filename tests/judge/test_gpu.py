"""On a GPU: what passes nowhere passes there neither, what is right is right, and times are of the work.

The corpus has machine models for its targets; here its kernels run on the silicon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.study.row import Row
from tests.judge import decoys
from tests.judge.afresh import AFRESH
from tests.judge.attacks import ATTACKS, Attack
from tests.judge.cuda import SEEN
from tests.judge.gpu_attacks import ON_A_GPU
from tests.judge.hostile import HOSTILE
from tests.judge.judges import Judges
from tests.judge.test_corpus import by_task, harmless, seen_through
from tests.judge.test_corpus import judged as judged_by
from tests.judge.timed_attacks import TimedAttack
from tests.judge.unusual import UNUSUAL

pytestmark = pytest.mark.gpu

HERE = ("h200", "h100-sxm", "h100-pcie", "a100", "b200")


@cache
def gpu(language: str) -> str:
    """The target of the GPU that is here."""
    for device in HERE:
        try:
            target = registry().target(f"{language}:{device}")
        except PortakernError:
            continue
        runtime = registry().language(language).runtime
        if runtime is not None and runtime.available(target):
            return str(target)
    pytest.skip(f"needs a GPU that {language} runs on")


def corpus(language: str) -> Iterator[list[Attack]]:
    found = [a for a in (*ATTACKS, *HOSTILE, *UNUSUAL, *AFRESH) if a.target.partition(":")[0] == language]
    return by_task([replace(a, target=gpu(language)) for a in found])


def may_be_right(attack: Attack) -> bool:
    """It shows what an interpreter of threads sees, or is C++ of a processor: what a GPU makes of it may be right."""
    return attack.kind.startswith(SEEN) or "__CUDACC_RTC__" in attack.text or attack.name in IGNORED


IGNORED = ("cuda-incbin", "cuda-not-ptx")
"""NVRTC takes no assembly outside of functions, and PTX has nothing that reads a file: nothing comes of them."""


def unexpected(attack: Attack, row: Row) -> bool:
    """What an attack ends in is said by the driver, in words of its own."""
    if attack.correct:
        return not row.correct
    return bool(attack.kind) and row.correct is True and not may_be_right(attack)


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_what_is_wrong_is_wrong_and_does_no_harm(language: str, judges: Judges, whole_jail: None, tmp_path: Path):
    tmp_path.chmod(0o777)
    wrong = {}
    for group in corpus(language):
        rows = judged_by(group, judges, tmp_path / "witness", "full")
        wrong |= {n: f"{r.correct} {r.error}" for (n, r), a in zip(rows.items(), group, strict=True)
                  if unexpected(a, r)}  # fmt: skip
        harmless(rows)
    assert not (tmp_path / "witness").exists()
    assert wrong == {}


def test_host_code_that_does_the_work_is_seen_through(judges: Judges, whole_jail: None):
    seen_through(gpu("triton"), decoys.TRITON_DECOYS, decoys.TRITON_LEGAL, judges)


@pytest.mark.parametrize("attack", [pytest.param(a, id=a.name) for a in ON_A_GPU])
def test_nothing_is_gained_by_knowing_that_one_is_timed(attack: TimedAttack, judges: Judges, whole_jail: None):
    """From its text to its time, as a search has it."""
    row = judges(gpu(attack.target)).judge(attack.text, level="timed")
    if not attack.kind:
        assert row.time is not None and row.evidence == "timed", row.error
        return
    assert row.error is not None and row.time is None, row.time
    assert row.error["kind"] in attack.kind.split("|") and attack.says in row.error["message"], row.error
