"""``bench --resume`` takes up a sweep where it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from portakern.cli import main


def bench(capsys: pytest.CaptureFixture[str], store: Path, *more: str) -> list[dict[str, Any]]:
    assert main(["bench", "row_sum", "-t", "cpp:cpu", "--dtype", "f32", "--budget", "0.1s", "--store", str(store), "--json",
                 *more]) == 0  # fmt: skip
    return json.loads(capsys.readouterr().out)["rows"]


def taken(rows: list[dict[str, Any]]) -> list[str]:
    return [r["time"]["provenance"]["taken"] for r in rows]


def test_only_what_is_missing_is_timed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    store, page = tmp_path / "store.sqlite", tmp_path / "page.html"
    first = bench(capsys, store, "--shape", "M=16|64,N=32")
    more = bench(capsys, store, "--shape", "M=16:64:*2,N=32", "--resume", "--html", str(page))
    assert [r["shape"]["M"] for r in more] == [16, 32, 64]
    assert [taken(more)[0], taken(more)[2]] == taken(first) and taken(more)[1] not in taken(first)
    text = page.read_text()
    assert "row_sum N=32 f32: GB/s over M" in text and text.count('class="listing"') == 3
    warm = bench(capsys, store, "--shape", "M=16,N=32", "--resume", "--cache", "warm")
    against = bench(capsys, store, "--shape", "M=16,N=32", "--resume", "--against", "numpy")
    assert not {*taken(warm), *taken(against)} & {*taken(more)}  # another question


def test_resuming_needs_a_store(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "row_sum", "-t", "numba:cpu", "--resume", "--no-store"]) == 2
    assert "--resume" in capsys.readouterr().err
