"""The page of a study: one file, with everything in it, whatever the rows hold."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import portakern as pk
from portakern.cli import main
from portakern.spec.load import load_operator
from portakern.study.report import sources
from portakern.study.report.commands import command
from portakern.study.report.plots import drawing
from portakern.study.row import Row
from portakern.study.study import Study
from tests.study.report.studies import study, timed

pytestmark = pytest.mark.quick

VOID = {"meta", "input", "br", "rect", "circle", "path", "line"}


class Reader(HTMLParser):
    """What a page's elements are, and whether each that was opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def read(made: Study) -> tuple[str, Reader]:
    text = made.to_html()
    reader = Reader(text)
    assert not reader.open
    return text, reader


def test_a_page_is_well_formed_and_asks_for_nothing_else():
    text, reader = read(study())
    assert not re.search(r"https?:", text)
    for tag, attributes in reader.found:
        assert not attributes.keys() & {"src", "srcset", "onclick", "onload"}, (tag, attributes)
        assert tag not in ("link", "img", "iframe", "object")
        assert (attributes.get("href") or "#").startswith("#")
    ids = [a["id"] for _, a in reader.found if "id" in a]
    assert len(ids) == len(set(ids))
    assert {str(a["href"])[1:] for tag, a in reader.found if tag == "a"} <= set(ids)


def test_every_row_is_there_with_its_evidence():
    text, reader = read(study())
    rows = [a for tag, a in reader.found if tag == "tbody"]
    assert [a["data-level-name"] for a in rows] == ["timed", "interpreted", "compiled", "simulated", "wrong"]
    assert rows[0]["data-time"] == "100.0" and "data-time" not in rows[1] and rows[3]["data-estimate"] == "12.5"
    assert "compiled, then check-died" in text and "limited by registers" in text


def test_text_of_strangers_stays_text():
    evil = "</script><script>alert(1)</script><img src=x>"
    row = Row(evil, evil, device=evil, shape={"M": 1}, dtype="f32", evidence="emitted", source_hash="s", binary_hash="b",
              method=evil, error={"kind": "k", "message": evil, "hint": evil}, environment={"processor": evil})  # fmt: skip
    _, reader = read(Study((row,), {"portakern": evil, "commit": evil}, {"s": evil}, {"b": evil}))
    assert [tag for tag, _ in reader.found].count("script") == 1 and "img" not in [tag for tag, _ in reader.found]


def test_empty_studies_and_rows_of_unknown_targets_have_a_page():
    read(Study(()))
    read(Study((Row("some", "else:where", time=timed(3.0), evidence="timed"),)))


def test_without_its_library_a_page_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drawing, "available", lambda: False)
    text, reader = read(study())
    assert "portakern[report]" in text and "plot" not in [a.get("class") for _, a in reader.found]


def test_ties_join_the_languages():
    text, reader = read(study())
    ties = [a for tag, a in reader.found if tag == "button" and "data-tie" in a]
    assert len(ties) == 5  # softmax: load x, max, exp, sum, store out
    listings = text.split('<article class="listing"')[1:]
    assert len(listings) == 5
    for listing in listings:
        done = {n for numbers in re.findall(r'data-o="([\d ]+)"', listing) for n in numbers.split()}
        assert done == {"0", "1", "2", "3", "4"}, listing[:80]


def test_a_page_holds_the_first_texts_and_says_how_many_it_does_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources, "MOST", 3)
    text, _ = read(study())
    assert text.count('class="listing"') == 3 and "2 more are not in this" in text


def test_instructions_stand_under_their_lines():
    text, _ = read(study())
    assert "1 instruction</summary><pre>cvt.f32.bf16 %f1, %rs1;</pre>" in text and "data-gz=" in text


@pytest.mark.parametrize(("row", "words"), [
    (Row("softmax", "cpp:cpu", shape={"M": 4, "N": None}, dtype="f32"),
     "compare softmax --targets cpp:cpu --shape 'M=4,N=?' --dtype f32"),
    (Row("attention", "cpp:cpu", shape={"B": [2, 3]}, dtype="bf16", params={"causal": True, "scale": None}, time=timed(1.0)),
     "bench attention --targets cpp:cpu --shape B=2x3 --dtype bf16 --param causal=true"),
    (Row("softmax", "cpp:cpu", shape={"M": 4}, schedule="m=4,warps=1", schedule_from="given",
         time=timed(1.0, {"numpy": 2.0, "torch.eager": 3.0})),
     "bench softmax --targets cpp:cpu --shape M=4 --schedule m=4,warps=1 --against numpy,torch.eager"),
    (Row("mine", "cpp:cpu", shape={"M": 4}), "compare 'a b.py:mine' --targets cpp:cpu --shape M=4"),
    (Row("unknown", "cpp:cpu"), None),
])  # fmt: skip
def test_the_command_that_makes_a_row_again(row: Row, words: str | None):
    assert command(row, {"mine": "a b.py"}) == (f"portakern {words}" if words else "")


def test_a_command_of_the_page_makes_its_row(capsys: pytest.CaptureFixture[str]):
    row = pk.compare("row_sum", "pallas:v5e", dtype="f16", M=4, N=8).rows[0]
    assert row.refused
    words = shlex.split(command(row, {}))
    assert main(words[1:]) == 0 and "refused" in capsys.readouterr().out


def test_a_study_shows_itself_in_a_line_and_in_notebooks():
    made = study()
    assert repr(made) == ("<Study of softmax: 5 rows on 5 targets, 1 timed, 1 interpreted, 1 compiled, 1 simulated, 1 wrong>")
    assert len(repr(replace(made, rows=made.rows * 100))) < 200
    k = pk.build("softmax", target="hip:gfx942", dtype="f32", M=4, N=8)
    for shown in (made, made.rows[2], k, load_operator("softmax")):
        text = shown._repr_html_()
        assert not Reader(text).open and "<script" not in text and "gone <b>" not in text
    assert "extern" in k._repr_html_() and "hip:gfx942" in k._repr_html_()
