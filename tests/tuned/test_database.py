"""What tuned schedules are kept under, who may use them, and what becomes of those that no longer fit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import portakern as pk
from portakern.api import one
from portakern.cli import main
from portakern.errors import ScheduleError
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.ir.size import Size, Sym
from portakern.spec.load import load_operator
from portakern.study.row import Row
from portakern.study.study import Runner
from portakern.study.work import Problem, Work, works
from portakern.tuned import database as db
from portakern.tuned.chosen import ForNest, fitted, for_nest
from portakern.tuned.keys import Key, bucket, looked_up
from tests.tuning.bench import work_of

TUNED = Schedule((("m", 1), ("n", 1024)), warps=8)


@pk.operator
def scaled(x: pk.Tensor["M", "N"], eps: float = 1e-6):
    return pk.cast(pk.cast(x, pk.f32) * 2.0 + eps, x.dtype)


def key(work: Work) -> Key:
    assert work.key is not None
    return work.key


def entry(work: Work, *schedules: Schedule, version: int = 1, family: str = "elementwise") -> db.Entry:
    nests = tuple(ForNest(family, s) for s in schedules or (TUNED,))
    return db.Entry(key(work), "add_relu", nests, version, provenance={"us": 1.0})


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> db.Database:
    file = tmp_path / "data" / "tuned.sqlite"
    monkeypatch.setenv("PORTAKERN_TUNED", str(file))
    monkeypatch.setattr(db, "shipped_folder", lambda language: tmp_path / "shipped" / language)
    db._read_file.cache_clear()
    return db.Database(file)


# ---- keys


def test_buckets():
    dims = ("M", "N", "K", "L")
    assert bucket(dims, {"M": 8192, "N": 8000, "K": 1001, "L": 4}) == "K=1024/1,L=4,M=8192/64,N=8192/64"
    assert bucket(dims, {"M": 24, "N": 4097, "K": 48}) == "K=64/16,L=?,M=32/8,N=8192/1"
    assert bucket((), {}) == ""


def test_the_math_decides_and_constants_do_not():
    def of(dtype: str = "bf16", **params: float) -> Key:
        (work,) = works(Problem(scaled, {"M": 64, "N": 64}, params), [one("cuda:h200")], [dtype])
        return key(work)

    assert of() == of(eps=1e-5)
    assert of("f32").operator != of().operator
    assert key(work_of("rms_norm")).operator != key(work_of("layer_norm")).operator
    assert key(work_of(M=8192, N=8192)).operator == key(work_of(M=5, N=7)).operator
    dims = {"B": 1, "H": 1, "G": 1, "SQ": 64, "SK": 64, "D": 64}
    causal, full = (works(Problem(load_operator("attention"), dims, {"causal": c}), [one("cuda:h200")], ["bf16"])[0]
                    for c in (True, False))  # fmt: skip
    assert key(causal).operator != key(full).operator


def test_products_look_at_their_instruction_set_and_the_other_way_round():
    k = key(work_of())
    assert [x.device for x in looked_up(k, one("cuda:h200").device)] == ["h200", "sm_90a"]
    assert [x.device for x in looked_up(k, one("cuda:sm_90a").device)] == ["h200", "h200"]


def test_a_cpu_is_known_by_its_model():
    assert key(work_of(target="numba:cpu", M=8, N=8)).device.startswith("cpu/")


# ---- the file


def test_entries_are_found_replaced_and_forgotten(own: db.Database):
    work = work_of()
    assert own.find(key(work)) is None and own.entries() == ()
    own.put(entry(work))
    assert own.find(key(work)) == entry(work)
    own.put(entry(work, Schedule((("m", 1), ("n", 512)), warps=2)))
    found = own.find(key(work))
    assert found is not None and found.nests[0].schedule.tile("n") == 512
    assert own.find(key(work_of(M=8192, N=1000))) is None
    own.forget(key(work))
    assert own.entries() == ()


def test_a_damaged_file_is_told_and_does_not_keep_anything_from_being_built(own: db.Database):
    own.file.parent.mkdir(parents=True)
    own.file.write_bytes(b"this is no database, and long enough to be read as one" * 20)
    with pytest.raises(db.TuningError, match=r"tuned\.sqlite"):
        own.find(key(work_of()))
    with pytest.warns(UserWarning, match="tuned schedules are not used"):
        assert pk.build("add_relu", "cuda:h200", M=64, N=64).schedule_from == "default"


WRITER = """
import sys
from portakern.tuned.database import Database, Trial
db, name = Database(sys.argv[1]), sys.argv[2]
for i in range(60):
    db.add_trial("run", Trial(f"{name}{i}", "n=1", "timed", 1.0))
"""


def test_two_processes_write_at_once(own: db.Database):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(own.file), name]) for name in "ab"]
    assert [w.wait(60) for w in writers] == [0, 0]
    assert len(own.trials("run")) == 120


# ---- who uses it


def test_build_uses_it_unless_told_otherwise(own: db.Database):
    work = work_of()
    own.put(entry(work))
    tuned = pk.build("add_relu", "cuda:h200", M=8192, N=8192)
    assert tuned.schedule_from == "tuned" and tuned.schedule == (TUNED,)
    assert pk.build("add_relu", "cuda:h200", M=8192, N=8192, schedule="default").schedule_from == "default"
    given = pk.build("add_relu", "cuda:h200", M=8192, N=8192, schedule={"warps": 4})
    assert given.schedule_from == "given" and given.schedule[0].warps == 4 and given.schedule[0].tile("n") != 1024
    assert pk.build("add_relu", "cuda:h200", M=8192, N=1000).schedule_from == "default", "another bucket"
    assert pk.build("add_relu", "cuda:h200", "f32", M=8192, N=8192).schedule_from == "default", "another dtype"


def test_rows_say_where_the_schedule_is_from(own: db.Database):
    work = work_of()
    own.put(entry(work))
    row = emitted_row()
    assert (row.schedule, row.schedule_from) == (str(TUNED), "tuned") and "tuned here" in (row.schedule_note or "")


def emitted_row() -> Row:
    """add_relu at 8192x8192 with whatever schedule there is for it."""
    asked = works(Problem(load_operator("add_relu"), {"M": 8192, "N": 8192}, {}), [one("cuda:h200")], ["bf16"])
    return Runner("emitted").run(asked).rows[0]


def test_the_command_line_can_switch_it_off(own: db.Database, capsys: pytest.CaptureFixture[str]):
    own.put(entry(work_of()))
    seen = {}
    for extra in ([], ["--schedule", "default"], ["--schedule", "warps=4"]):
        assert main(["emit", "add_relu", "-t", "cuda:h200", "--shape", "M=8192,N=8192", "--json", *extra]) == 0
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        seen[row["schedule_from"]] = row["schedule"]
    assert seen["tuned"] == str(TUNED) and set(seen) == {"tuned", "default", "given"}


def test_off_means_off(own: db.Database, monkeypatch: pytest.MonkeyPatch):
    own.put(entry(work_of()))
    monkeypatch.setenv("PORTAKERN_TUNED", "off")
    assert pk.build("add_relu", "cuda:h200", M=8192, N=8192).schedule_from == "default"


@pytest.mark.parametrize(("stale", "reason"), [
    ({"version": 99}, "version 99 of the emitter"),
    ({"family": "rows"}, "for a rows kernel"),
    ({"schedules": (Schedule((("q", 1), ("n", 1024))),)}, "for the axes q, n"),
    ({"schedules": (Schedule(TUNED.tiles, options=(("gone", 3),)),)}, "no longer declares"),
    ({"schedules": (Schedule(TUNED.tiles, warps=3),)}, ""),
])  # fmt: skip
def test_stale_entries_fall_back_with_a_note(own: db.Database, stale: dict, reason: str):
    schedules = stale.pop("schedules", ())
    own.put(entry(work_of(), *schedules, **stale))
    built = pk.build("add_relu", "cuda:h200", M=8192, N=8192)
    assert built.schedule_from == "default" and reason in built.schedule_note and "is not used" in built.schedule_note
    row = emitted_row()
    assert row.error is None and row.schedule_from == "default" and reason in (row.schedule_note or "")


def test_entries_for_more_kernels_than_there_are_do_no_harm(own: db.Database):
    own.put(entry(work_of(), TUNED, TUNED))
    assert pk.build("add_relu", "cuda:h200", M=8192, N=8192).schedule_from == "tuned"


# ---- what is shipped


def test_shipped_entries_are_used_and_the_users_own_win(own: db.Database):
    work = work_of()
    file = db.shipped_folder("cuda") / "h200.json"
    db.write_shipped(file, [entry(work)])
    db._read_file.cache_clear()
    assert pk.build("add_relu", "cuda:h200", M=8192, N=8192).schedule == (TUNED,)
    assert pk.build("add_relu", "cuda:sm_90a", M=8192, N=8192).schedule == (TUNED,), "the h200 stands for its instruction set"
    assert pk.build("add_relu", "cuda:h100-sxm", M=8192, N=8192).schedule_from == "default", "and for no other product"
    mine = Schedule((("m", 1), ("n", 512)), warps=2)
    own.put(entry(work, mine))
    assert pk.build("add_relu", "cuda:h200", M=8192, N=8192).schedule == (mine,)


def test_a_shipped_file_of_another_form_is_told(own: db.Database):
    file = db.shipped_folder("cuda") / "h200.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"form": 99, "languages": {}}')
    db._read_file.cache_clear()
    with pytest.warns(UserWarning, match="form 99"):
        assert pk.build("add_relu", "cuda:h200", M=64, N=64).schedule_from == "default"


def test_all_shipped_files_can_be_read_and_their_schedules_emitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Each entry is for an operator of the library as it is now, and still fits its kernel."""
    from portakern.registry import registry

    monkeypatch.setenv("PORTAKERN_TUNED", str(tmp_path / "none.sqlite"))
    for backend in registry().backends:
        for file in (backend.devices.parent / "tuned").glob("*.json"):
            for language in json.loads(file.read_text())["languages"]:
                for e in db.shipped(language, file.stem).values():
                    built = pk.build(e.name, f"{language}:{file.stem}", e.key.dtype, **e.provenance["shape"])
                    assert built.schedule_from == "tuned", f"{e.name} in {file.name}: {built.schedule_note}"
                    better = e.provenance["us"] < e.provenance["default_us"] if e.by == "estimate" else None
                    assert e.provenance["checked"] and (better or e.provenance["verdict"] == "FASTER")


# ---- other shapes of a bucket


def nest(extent: Size) -> Nest:
    return Nest("rows", (NestAxis("m", "parallel", 64), NestAxis("n", "reduced", extent, True)), "bf16", "f32")


def test_a_tile_over_the_whole_axis_stays_one():
    kept = for_nest(nest(1000), Schedule((("m", 2), ("n", 1024)), warps=8))
    assert kept.whole == {"n"}
    listed = [Schedule((("m", 1), ("n", n))) for n in (700, 4096)]
    assert fitted(kept, nest(700), listed, ()).tile("n") == 700
    assert fitted(kept, nest(701), listed, ()).tile("n") == 4096
    assert fitted(kept, nest(5000), listed, ()).tile("n") == 8192
    assert fitted(kept, nest(700), listed, ()).tile("m") == 2
    walked = for_nest(nest(1000), Schedule((("m", 1), ("n", 512))))
    assert fitted(walked, nest(700), listed, ()).tile("n") == 512


def test_an_open_axis_cannot_be_covered():
    kept = for_nest(nest(1000), Schedule((("m", 1), ("n", 1024))))
    with pytest.raises(ScheduleError, match="open"):
        fitted(kept, nest(Sym.named("N")), [], ())
