"""Whatever a lazy or hostile generator may try passes no check and does no harm; whatever else it may write and is right, is.

One judge of a language has all that is quick of it, since beginning takes seconds: what is wrong is told by its name.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from zlib import crc32

import pytest

from portakern.study.row import Row
from portakern.tools.cache import Cache
from tests.judge import decoys
from tests.judge.afresh import AFRESH
from tests.judge.attacks import ATTACKS, DAEMON_S, Attack
from tests.judge.decoys import Host
from tests.judge.hostile import HOSTILE
from tests.judge.judges import SMALL, Judges, task_of
from tests.judge.unusual import UNUSUAL

NEEDS = {"triton:sm_90": ("triton", "torch"), "pallas:v6e": ("jax", "libtpu"), "opencl:cpu": ("pyopencl",),
         "sycl:cpu": ("pyopencl",)}  # fmt: skip

HOSTS = {"triton:sm_90": (decoys.TRITON_DECOYS, decoys.TRITON_LEGAL), "numba:cpu": (decoys.NUMBA_DECOYS, decoys.NUMBA_LEGAL),
         "cpp:cpu": (decoys.CPP_DECOYS, decoys.CPP_LEGAL),
         "pallas:v6e": (decoys.PALLAS_DECOYS, decoys.PALLAS_LEGAL)}  # fmt: skip

INTERPRETED = ("triton:sm_90", "pallas:v6e")
"""Of these the quick tests have those whose kernels do not do the work, of each of which the others are a part."""

LONG = ("sycl", "opencl", "cuda")

UNPRINTABLE = set(map(chr, (*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000))))

TARGETS = sorted({a.target for a in (*HOSTILE, *UNUSUAL, *AFRESH, *ATTACKS)})


def task(x: Attack | Host) -> tuple[str, str]:
    return x.operator, str(dict(x.dims))


def by_task(some: Iterable[Attack]) -> Iterator[list[Attack]]:
    return (list(g) for _, g in itertools.groupby(sorted(some, key=task), task))


EVERY = {"cpp:cpu": 20, "numba:cpu": 30, "hip:gfx942": 12}
"""Languages of many attacks: the default run takes one in so many of them, and the first of each kind."""

HOSTS_EVERY = 4
"""Of texts whose host code does the work, or lets kernels do it, the default run takes one in so many, and the first."""


def quickly(target: str) -> list[Attack]:
    """Those of :data:`ATTACKS` that are of other tasks are judged by fresh processes in the quick tests (test_attacks.py)."""
    found = [a for a in ATTACKS if a.target == target and dict(a.dims) == SMALL]
    return found + [a for a in (*HOSTILE, *UNUSUAL, *AFRESH)
                    if a.target == target and not a.slow and target not in INTERPRETED]  # fmt: skip


def in_turns(target: str) -> set[str]:
    found = quickly(target)
    first = {(a.kind, a.correct): a.name for a in reversed(found)}
    return {*first.values(), *(a.name for a in found if crc32(a.name.encode()) % EVERY.get(target, 1) == 0)}


def hosts_in_turn(hosts: Sequence[Host]) -> list[Host]:
    found = [h for h in hosts if not h.slow]
    return [h for i, h in enumerate(found) if i % HOSTS_EVERY == 0]


def attacks(target: str, slow: bool) -> Iterator[list[Attack]]:
    turn, every = in_turns(target), (*ATTACKS, *HOSTILE, *UNUSUAL, *AFRESH)
    return by_task(a for a in every if a.target == target and (a.name in turn) != slow)


def unexpected(attack: Attack, row: Row) -> bool:
    if attack.correct:
        return not row.correct
    kind = (row.error or {}).get("kind")
    return bool(attack.kind) and (row.correct is True or kind not in attack.kind.split("|"))


def judged(attacks: Sequence[Attack], judges: Judges, witness: Path, level: str = "") -> dict[str, Row]:
    """In full where that is quick, unless a level is named."""
    target = attacks[0].target
    texts = [(a.text.replace("@WITNESS@", str(witness)).replace("@CACHE@", str(judges.cache)), a.entry) for a in attacks]
    work = task_of(target, attacks[0].operator, attacks[0].dims).work
    rows = list(judges(target).map(texts, level=level or ("quick" if target in INTERPRETED else "full"), work=work))
    if any(r.error and r.error["kind"] == "tool-missing" for r in rows):
        pytest.skip(str(rows[0].error))
    if any("daemon" in a.name or "forks" in a.name for a in attacks):
        time.sleep(DAEMON_S + 0.5)
    return dict(zip([a.name for a in attacks], rows, strict=True))


def held_off(attacks: Sequence[Attack], judges: Judges, folder: Path) -> None:
    folder.chmod(0o777)
    witness, cache = folder / "witness", Cache(judges.cache)
    cache.put("ab" * 32, b"ours")
    rows = judged(attacks, judges, witness)
    assert len(rows) == len(attacks)
    assert not witness.exists() and cache.get("ab" * 32) == b"ours"
    assert {n: r.error for (n, r), a in zip(rows.items(), attacks, strict=True) if unexpected(a, r)} == {}
    harmless(rows)


def harmless(rows: Mapping[str, Row]) -> None:
    """What rows say has nothing in it that is not to be known, and nothing that a terminal would obey."""
    for name, row in rows.items():
        said = f"{(row.error or {}).get('message')} {(row.error or {}).get('hint')} {row.method}"
        assert row.correct or row.error is not None, name
        assert not any(word in str(row.to_dict()) for word in ("root:", "planted@")), name
        assert not UNPRINTABLE & set(said), name


def seen_through(target: str, bad: Sequence[Host], legal: Sequence[Host], judges: Judges) -> None:
    """Who launches kernels and lets host code do the work is called a decoy; who lets kernels do it is not.  ``quick`` is
    enough: every level looks at who does the work in the same way."""
    rows: dict[str, Row] = {}
    for _, group in itertools.groupby(sorted((*bad, *legal), key=task), task):
        same = list(group)
        work = task_of(target, same[0].operator, same[0].dims).work
        found = judges(target).map([h.text for h in same], level="quick", work=work)
        rows |= dict(zip([h.name for h in same], found, strict=True))
    assert len(rows) == len(bad) + len(legal)
    decoys_, rights = {h.name: rows[h.name] for h in bad}, {h.name: rows[h.name] for h in legal}
    assert {n: said(r) for n, r in decoys_.items() if r.correct or not r.error or r.error["kind"] not in named(n, target)} == {}
    assert all(r.error and r.error["hint"] for r in decoys_.values() if r.error and r.error["kind"] == "decoy")
    assert {n: said(r) for n, r in rights.items() if not r.correct} == {}
    assert target == "cpp:cpu" or all("its kernels alone give the outputs" in (r.method or "") for r in rights.values())
    for name in TOLD.keys() & decoys_.keys():
        assert all(words in said(decoys_[name]) for words in TOLD[name])


def named(decoy: str, target: str) -> tuple[str, ...]:
    """What it is called: of Triton on a GPU, host code that does its work in memory of its own is only wrong, and so is a text
    that has something else for the interpreter."""
    elsewhere = target.startswith("triton") and decoy in ONLY_INTERPRETED and a_gpu()
    return ("decoy", "incorrect", "runtime") if elsewhere else ("decoy",)


ONLY_INTERPRETED = ("triton-by-numpy", "triton-by-number", "triton-two-texts", "triton-two-numbers")


def a_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def said(row: Row) -> str:
    return row.error["message"] if row.error else ""


TOLD = {"numba-overwritten": ("output out", "1 kernel", "16 elements"), "cpp-python": ("PyRun_SimpleString",)}
"""What an error says of what was found."""


def all_of(target: str, slow: bool, judges: Judges, folder: Path) -> None:
    for module in NEEDS.get(target, ()):
        pytest.importorskip(module)
    for group in attacks(target, slow):
        held_off(group, judges, folder)
    bad, legal = ([h for h in hosts if (h not in hosts_in_turn(hosts)) == slow] for hosts in HOSTS.get(target, ((), ())))
    seen_through(target, bad, legal, judges)


@pytest.mark.quick
def test_every_attack_has_a_turn_and_every_kind_a_quick_one() -> None:
    for target in TARGETS:
        quick, slow = ([a for group in attacks(target, slow) for a in group] for slow in (False, True))
        every = [id(a) for a in (*ATTACKS, *HOSTILE, *UNUSUAL, *AFRESH) if a.target == target]
        assert sorted(map(id, (*quick, *slow))) == sorted(every)
        assert {(a.kind, a.correct) for a in quick} == {(a.kind, a.correct) for a in quickly(target)}


@pytest.mark.usefixtures("whole_jail")
@pytest.mark.parametrize("target", [pytest.param(x, marks=[pytest.mark.slow] * x.startswith(LONG)) for x in TARGETS])
def test_what_is_wrong_is_wrong_does_no_harm_and_what_is_odd_is_right(target: str, judges: Judges, tmp_path: Path):
    all_of(target, False, judges, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("whole_jail")
@pytest.mark.parametrize("target", TARGETS)
def test_so_it_is_with_all_of_them(target: str, judges: Judges, tmp_path: Path):
    all_of(target, True, judges, tmp_path)
