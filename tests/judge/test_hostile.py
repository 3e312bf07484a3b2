"""Whatever else a generator may try passes no check and does no harm; whatever else it may write and is right, is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from portakern.referee.messages import plain_values, printable
from portakern.referee.remote import _resource
from portakern.study.row import Row
from tests.judge.attacks import Attack, cpp
from tests.judge.hostile import HOSTILE
from tests.judge.launched import opencl
from tests.judge.test_map import judge_for
from tests.judge.unusual import UNUSUAL

NEEDS = {"triton:sm_90": ("triton", "torch"), "pallas:v6e": ("jax", "libtpu"), "opencl:cpu": ("pyopencl",),
         "sycl:cpu": ("pyopencl",)}  # fmt: skip

UNPRINTABLE = set(map(chr, (*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000))))


INTERPRETED = ("triton:sm_90", "pallas:v6e")
"""Their processes take seconds to begin; test_decoys and test_attacks hold them in the quick tests."""


def groups(slow: bool) -> list[object]:
    """By what they are judged as."""
    def key(a: Attack) -> tuple[str, str, str]:
        return a.target, a.operator, str(a.dims)

    found = []
    for (target, _, dims), attacks in itertools.groupby(sorted((*HOSTILE, *UNUSUAL), key=key), key):
        if some := [a for a in attacks if (a.slow or target in INTERPRETED) == slow]:
            found.append(pytest.param(some, id=f"{target}-{'open' if 'None' in dims else 'fixed'}"))
    return found


def judged(attacks: Sequence[Attack], witness: Path) -> dict[str, Row]:
    """In full where that is quick."""
    target = attacks[0].target
    for module in NEEDS.get(target, ()):
        pytest.importorskip(module)
    texts = [(a.text.replace("@WITNESS@", str(witness)), a.entry) for a in attacks]
    level = "quick" if target in INTERPRETED else "full"
    workers = 2 if attacks[0].slow else 1  # beginning takes longer than what is judged, but for what hangs
    with judge_for(target, attacks[0].operator, attacks[0].dims, timeout_s=15, level=level, workers=workers) as judge:
        rows = list(judge.map(texts))
    if any(r.error and r.error["kind"] == "tool-missing" for r in rows):
        pytest.skip(str(rows[0].error))
    return dict(zip([a.name for a in attacks], rows, strict=True))


def unexpected(attack: Attack, row: Row) -> bool:
    if attack.correct:
        return not row.correct
    kind = (row.error or {}).get("kind")
    return bool(attack.kind) and (row.correct is True or kind not in attack.kind.split("|"))


def words(row: Row) -> str:
    return f"{(row.error or {}).get('message')} {(row.error or {}).get('hint')} {row.method}"


def of_all(attacks: Sequence[Attack], folder: Path) -> None:
    folder.chmod(0o777)
    witness = folder / "witness"
    rows = judged(attacks, witness)
    assert not witness.exists()
    assert {n: r.error for (n, r), a in zip(rows.items(), attacks, strict=True) if unexpected(a, r)} == {}
    for name, row in rows.items():
        assert row.correct or row.error is not None, name
        assert "root:" not in words(row) and not UNPRINTABLE & set(words(row)), name


@pytest.mark.usefixtures("whole_jail")
@pytest.mark.parametrize("attacks", groups(slow=False))
def test_what_is_wrong_is_wrong_does_no_harm_and_what_is_odd_is_right(attacks: Sequence[Attack], tmp_path: Path):
    of_all(attacks, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("whole_jail")
@pytest.mark.parametrize("attacks", groups(slow=True))
def test_no_other_flood_passes_or_does_harm(attacks: Sequence[Attack], tmp_path: Path):
    of_all(attacks, tmp_path)


# ---- text that is hard to read -----------------------------------------------------------------------------------------------

LAUNCH = "// portakern launch: kernel=row_sum grid=({}, 1, 1) block=(1, 1, 1) shared=0 args=(x, out)\n"
PLAIN_CL = opencl("out[m] = s;")
TEXTS = {
    "numba:cpu": ("-" * 200_000 + "1", "a" + ".b" * 100_000, "(" * 100_000, "x = 1\0", "# \ud800", "# " + "x" * (1 << 20)),
    "cpp:cpu": ("// \ud800\n" + cpp("honest(x, out);"), "//" + "x" * (1 << 20)),
    "opencl:cpu": (
        *(LAUNCH.format(grid) + PLAIN_CL for grid in ("16//0", "-" * 100_000 + "1", "9**9**9**9", "9" * 100_000)),
        "// portakern launch: " + "a" * 500_000 + "\n" + PLAIN_CL,
        "// portakern launch: kernel=\x1b[2J grid=(1) block=(1) args=(x)\n"),
}  # fmt: skip

LEGAL = {"cpp:cpu": "\n" * 400_000 + cpp("honest(x, out);")}
"""Many empty lines, which are read at once by patterns that do not look at each of them again and again: a judge that did would
take minutes."""


@pytest.mark.parametrize("target", TEXTS)
def test_text_that_is_hard_to_read_is_an_error_of_the_text(target: str):
    with judge_for(target, workers=1, level="compile", timeout_s=15) as judge:
        rows = list(judge.map(TEXTS[target]))
        legal = judge.judge(LEGAL[target]) if target in LEGAL else None
    assert legal is None or legal.error is None
    kinds = [(r.error or {}).get("kind") for r in rows]
    assert kinds == ["bad-source"] * len(rows), [r.error for r in rows]
    assert not UNPRINTABLE & set("".join(str((r.error or {}).get("message")) for r in rows))


# ---- what is said ------------------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_words_of_a_kernel_do_nothing_to_who_reads_them():
    assert printable("a\nb\tc") == "a\nb\tc"
    text = printable("".join(map(chr, range(0x20000 - 0x10000))))
    text.encode()
    assert not UNPRINTABLE & set(text)
    found = plain_values({"a": [float("inf"), 10**40, "\x1b" * 1000, {"b": {"c": {"d": 1}}}],
             **{str(n): n for n in range(100)}})
    assert found["a"][:2] == [None, None] and len(found["a"][2]) <= 1300 and found["a"][3] == {"b": None} and len(found) == 40


@pytest.mark.quick
@pytest.mark.parametrize("forged", [{"registers": 10**30}, {"spills": -1}, {"registers": True}, {"occupancy": float("inf")},
                                    {"occupancy": "all"}, {"kernel": 1}, {"extra": "x"}])  # fmt: skip
def test_resources_are_figures(forged: dict[str, object]):
    honest = {"kernel": "k", "registers": 3, "occupancy": 0.5, "source": "s", "extra": [["a", "\x1b[2J"]]}
    assert _resource(honest).extra == (("a", "\\x1b[2J"),)
    with pytest.raises(Exception, match="no answer"):
        _resource({**honest, **forged})
