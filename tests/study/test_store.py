"""The store: many writers, one that is killed, damage, filters, samples, other stores, older and newer forms."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from portakern.cli import main
from portakern.study import schema
from portakern.study.keeping import Keeper
from portakern.study.results import read_results, to_csv
from portakern.study.row import Row, without_samples
from portakern.study.store import ResultStore, StoreError, default_file, is_store, plain
from portakern.study.study import Study

from .storing import timed

WRITERS, ROWS = 8, 50


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "folder" / "results.sqlite")


def test_what_goes_in_comes_out(store: ResultStore):
    row = timed("softmax", 3)
    assert store.add([row]) == 1
    (found,) = store.select()
    assert plain(found.row.to_dict()) == plain(without_samples(row).to_dict())
    (whole,) = store.select(samples=True)
    assert plain(whole.row.to_dict())["time"]["samples_us"] == plain(row.to_dict())["time"]["samples_us"]
    assert whole.row.time is not None and whole.row.time["flags"][-1] == 3
    assert store.samples(found.id)["numpy"] == [20.0, 20.5]


def test_the_same_result_is_kept_once(store: ResultStore):
    assert store.add([timed("softmax", 1), timed("softmax", 1), timed("softmax", 2)]) == 2
    assert store.add([without_samples(timed("softmax", 2))]) == 0  # its samples stay
    assert len(store.samples(2)["portakern"]) == 20


@pytest.mark.parametrize(("filters", "numbers"), [
    ({}, [0, 1, 2, 3]), ({"operator": "a"}, [0, 1]), ({"target": "cuda:*"}, [0, 1, 2, 3]), ({"target": "hip:*"}, []),
    ({"device": "h200"}, [0, 1, 2, 3]), ({"device": "MI300"}, []), ({"dtype": "f32"}, []), ({"last": 1}, [3]),
    ({"since": "2026-11-20T12:00:02"}, [2, 3]), ({"operator": "b", "last": 5}, [2, 3])])  # fmt: skip
def test_filters(store: ResultStore, filters: dict, numbers: list[int]):
    store.add([timed("a", 1), timed("a", 0), timed("b", 2), timed("b", 3)])
    assert [s.row.shape["M"] for s in store.select(**filters)] == numbers  # type: ignore[index]


def test_columns_can_be_asked_in_sql(store: ResultStore):
    store.add([timed("softmax", 5)])
    db = sqlite3.connect(store.file)
    (line,) = db.execute("SELECT language, shape, verdicts, commit_id, machine, median_us FROM results").fetchall()
    assert line == ("cuda", '{"B":[2,3],"M":5}', '{"numpy":"FASTER"}', "0123456789abcdef", "abcdefabcdef", 15.0)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_many_writers_at_once_and_one_that_is_killed(store: ResultStore):
    store.add([])  # nothing is made for nothing
    assert not store.file.exists()
    script = Path(__file__).with_name("storing.py")
    processes = [subprocess.Popen([sys.executable, str(script), str(store.file), str(n), str(ROWS)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True) for n in range(WRITERS)]  # fmt: skip
    for p in processes:
        assert p.stdout is not None and p.stdout.readline() == "ready\n"
    for p in processes:
        assert p.stdin is not None
        p.stdin.write("go\n")
        p.stdin.flush()
    victim, *others = processes
    assert victim.stdout is not None
    seen = [int(victim.stdout.readline()) for _ in range(5)]
    victim.send_signal(signal.SIGKILL)
    for p in others:
        p.communicate(timeout=120)
        assert p.returncode == 0
    rest = victim.communicate(timeout=60)[0]
    assert victim.returncode == -signal.SIGKILL
    assert store.check() == "ok"
    counts = {f"op{n}": len(store.select(operator=f"op{n}")) for n in range(WRITERS)}
    assert all(counts[f"op{n}"] == ROWS for n in range(1, WRITERS))
    told = len(seen) + len(rest.split())
    assert counts["op0"] >= told - 1  # a row that was said to be written is there; the pipe may hold half a line
    assert all(len(store.samples(s.id)["portakern"]) == 20 for s in store.select(operator="op0"))


def test_a_damaged_store_says_what_to_do_and_loses_no_row(store: ResultStore):
    store.file.parent.mkdir()
    store.file.write_bytes(b"this is no database, and never was one" * 100)
    with pytest.raises(StoreError, match="damaged") as error:
        store.add([timed("softmax", 1)])
    assert "mv " in error.value.hint
    with pytest.raises(StoreError):
        store.select()
    said: list[str] = []
    keep = Keeper(store, said.append)
    keep(timed("softmax", 1))
    keep(timed("softmax", 2))
    assert len(said) == 1 and "not kept" in said[0] and keep.kept == 0 and keep.failed is not None


def test_a_store_with_a_page_overwritten_is_not_taken_for_whole(store: ResultStore):
    store.add([timed("softmax", n) for n in range(60)])
    sqlite3.connect(store.file).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(store.file.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    store.file.write_bytes(data)
    with pytest.raises(StoreError):
        store.select()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_store_can_be_read(store: ResultStore):
    store.add([timed("softmax", 1)])
    sqlite3.connect(store.file).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.file.chmod(0o400)
    store.file.parent.chmod(0o500)
    try:
        assert len(store.select()) == 1
        with pytest.raises(StoreError, match="cannot be written") as error:
            store.add([timed("softmax", 2)])
        assert "--store" in error.value.hint
    finally:
        store.file.parent.chmod(0o700)


def test_a_place_where_no_file_can_be(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be made") as error:
        ResultStore(tmp_path / "file" / "results.sqlite").add([timed("softmax", 1)])
    assert "PORTAKERN_RESULTS" in error.value.hint
    assert ResultStore(tmp_path / "nothing.sqlite").select() == () and not (tmp_path / "nothing.sqlite").exists()


def test_an_older_store_is_brought_up_to_date(store: ResultStore, monkeypatch: pytest.MonkeyPatch):
    store.add([timed("softmax", 1)])
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "ALTER TABLE results ADD COLUMN note TEXT;\n"
                                               "UPDATE results SET note = 'before';\n"))  # fmt: skip
    assert len(store.select()) == 1
    db = sqlite3.connect(store.file)
    assert schema.version(db) == len(schema.MIGRATIONS)
    assert db.execute("SELECT note FROM results").fetchone() == ("before",)


def test_a_migration_that_fails_leaves_the_store_as_it_was(store: ResultStore, monkeypatch: pytest.MonkeyPatch):
    store.add([timed("softmax", 1)])
    before = schema.MIGRATIONS
    monkeypatch.setattr(schema, "MIGRATIONS", (*before, "ALTER TABLE results ADD COLUMN note TEXT;\nnonsense;\n"))
    with pytest.raises(StoreError):
        store.add([timed("softmax", 2)])
    monkeypatch.setattr(schema, "MIGRATIONS", before)
    assert len(store.select()) == 1 and store.check() == "ok"


def test_a_newer_store_is_refused(store: ResultStore):
    store.add([timed("softmax", 1)])
    db = sqlite3.connect(store.file)
    db.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
    db.commit()
    with pytest.raises(StoreError, match="newer portakern"):
        store.select()


def test_pruning_takes_the_oldest_beyond_a_limit_and_spares_named_runs(store: ResultStore):
    store.add([timed("softmax", n) for n in range(6)] + [timed("row_sum", 7)])
    store.name("main", store.select(operator="softmax")[:1])
    softmax = store.select(operator="softmax")
    assert store.prune(softmax, count=3, dry=True) == (3, 3) and len(store.select()) == 7
    assert store.prune(softmax, count=3) == (3, 3)
    assert [s.row.time["median_us"] for s in store.select() if s.row.time] == [10.0, 14.0, 15.0, 17.0]
    assert store.prune(store.select(), before=store.select()[2].taken) == (1, 3), "the named one stays"
    assert store.prune(store.select(), size=1) == (2, 1) and [s.row.operator for s in store.run("main")] == ["softmax"]
    assert store.check() == "ok"
    db = sqlite3.connect(store.file)
    assert db.execute("SELECT count(*) FROM samples WHERE result NOT IN (SELECT id FROM results)").fetchone() == (0,)


def test_pruning_beside_a_reader(store: ResultStore):
    store.add([timed("softmax", n) for n in range(4)])
    reader = sqlite3.connect(store.file, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM results").fetchone() == (4,)
    assert store.prune(store.select(), count=1) == (3, 1)
    assert reader.execute("SELECT count(*) FROM results").fetchone() == (4,), "it sees what was there when it began"
    reader.execute("COMMIT")
    assert len(store.select()) == 1


def test_the_command_prunes_only_with_a_limit(store: ResultStore, capsys: pytest.CaptureFixture[str]):
    store.add([timed("softmax", n) for n in range(4)])
    assert main(["results", "--store", str(store.file), "--prune"]) == 2
    assert main(["results", "--store", str(store.file), "--prune", "--age", "1h", "--count", "2", "--dry-run"]) == 0
    assert "would be removed" in capsys.readouterr().out and len(store.select()) == 4
    assert main(["results", "--store", str(store.file), "--prune", "--count", "2"]) == 0
    assert len(store.select()) == 2


def test_json_and_stores_join(store: ResultStore, tmp_path: Path):
    store.add([timed("softmax", 1), timed("softmax", 2)])
    file = tmp_path / "rows.json"
    file.write_text(Study(tuple(s.row for s in store.select(samples=True))).to_json(samples=True))
    other = ResultStore(tmp_path / "other.sqlite")
    assert other.add(read_results(file), origin="rows.json") == 2
    assert other.add(read_results(store.file, samples=True), origin="results.sqlite") == 0
    assert [s.origin for s in other.select()] == ["rows.json"] * 2
    assert other.samples(1) == store.samples(1)
    assert is_store(other.file) and not is_store(file)


def test_csv_has_a_line_per_peer_and_one_for_a_row_without(store: ResultStore):
    checked = Row("softmax", "numba:cpu", evidence="executed", correct=True)
    store.add([timed("softmax", 1), checked])
    lines = list(csv.DictReader(io.StringIO(to_csv(store.select()))))
    assert [line["target"] for line in lines] == ["numba:cpu", "cuda:sm_90a"]  # without a time it is the oldest
    assert (lines[0]["verdict"], lines[1]["verdict"], lines[1]["driver"]) == ("", "FASTER", "1.2")
    assert json.loads(lines[1]["shape"]) == {"M": 1, "B": [2, 3]}


def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PORTAKERN_RESULTS", str(tmp_path / "mine.sqlite"))
    assert default_file() == tmp_path / "mine.sqlite"
    monkeypatch.delenv("PORTAKERN_RESULTS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_file() == tmp_path / "portakern" / "results.sqlite"
