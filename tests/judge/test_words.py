"""Text that is hard to read is an error of the text, and words of a kernel do nothing to who reads them."""

from __future__ import annotations

import pytest

from portakern.referee.messages import plain_values, printable
from portakern.referee.remote import _resource
from tests.judge.attacks import cpp
from tests.judge.judges import Judges
from tests.judge.launched import opencl
from tests.judge.test_corpus import UNPRINTABLE

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
def test_text_that_is_hard_to_read_is_an_error_of_the_text(target: str, judges: Judges):
    judge = judges(target)
    rows = list(judge.map(TEXTS[target], level="compile"))
    legal = judge.judge(LEGAL[target], level="compile") if target in LEGAL else None
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
