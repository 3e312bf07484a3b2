"""The parts of the fuzzer that need no target: programs and files, signatures, coverage, steering, the state on disk."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from portakern.check.buffers import POISON, damage
from portakern.errors import UsageError
from portakern.fuzz.case import FuzzCase
from portakern.fuzz.coverage import COUNTED, Coverage, part_of
from portakern.fuzz.files import programs_of, read, text_of
from portakern.fuzz.findings import DULL, Findings, FuzzFinding, suspicion
from portakern.fuzz.layout import laid_out
from portakern.fuzz.outcome import FOUND, OK, REFUSED, UNUSED, TargetOutcome, normal, status_of
from portakern.fuzz.program import FuzzProgram
from portakern.fuzz.reached import functions_of, reaching
from portakern.fuzz.state import RunFolder
from portakern.fuzz.steering import MOST, UNSEEN, Steering
from portakern.fuzz.variants import Variation, layouts
from portakern.ir.program import ArrayFacts
from portakern.lower import simplify
from portakern.registry import registry

pytestmark = pytest.mark.quick

TEXT = """import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
    return x - y
"""
PROGRAM = FuzzProgram(FuzzCase(TEXT, {"M": 3, "N": 5}, "f32", frozenset({"M"})), Variation(("steep",), schedule=4, layout=9))


# ---- programs and files


def test_a_file_gives_back_the_program_that_was_written(tmp_path: Path):
    file = tmp_path / "found.py"
    file.write_text(text_of(PROGRAM, 'a "title"', ["note \\ one", 'quotes """']))
    compile(file.read_text(), str(file), "exec")
    (again,) = programs_of(file)
    assert again.variation == PROGRAM.variation and again.case.dims == PROGRAM.case.dims
    assert again.open_dims() == {"M"} and again.operator(tmp_path).name == "op"


def test_a_case_without_stages_goes_through_all(tmp_path: Path):
    file = tmp_path / "one.py"
    file.write_text(f'# case: {{"dims": {{"M": 3, "N": 5}}}}\n{TEXT}')
    (program,) = programs_of(file)
    assert set(program.variation.stages) > {"integers", "nonfinite"} and program.case.dtype == "f32"


@pytest.mark.parametrize("line", ["", "# case: {}", '# case: {"dims": 3', '# case: {"dims": {}, "speed": 3}'])
def test_a_file_that_says_nothing_sensible_is_bad_usage(line: str, tmp_path: Path):
    file = tmp_path / "bad.py"
    file.write_text(f"{line}\n{TEXT}")
    with pytest.raises(UsageError, match=r"bad\.py"):
        programs_of(file)


def test_a_header_reads_back():
    again = read(TEXT, PROGRAM.header(), ["sub"])
    assert again.digest == PROGRAM.digest and again.case.features == {"sub"}


def test_a_twin_has_the_other_dims_open(tmp_path: Path):
    twin = FuzzProgram(PROGRAM.case, Variation(twin=True))
    (work,) = twin.works(twin.operator(tmp_path), registry().match("numba:cpu"))
    assert set(work.program.dims) == {"N"} and work.sizes == {"N": 5}


# ---- layouts


def test_layouts_are_of_distinct_elements_and_aligned_to_them(tmp_path: Path):
    program = PROGRAM.operator(tmp_path).program({"M": 3, "N": 5})
    found = [facts for seed in range(12) for facts in layouts(program, seed).values()]
    assert any(facts.strides for facts in found)
    for facts in found:
        places = [i * a for i, a in zip(np.indices((3, 5)), facts.strides or (5, 1), strict=True)]
        assert len(np.unique(sum(places))) == 15 and facts.align % 4 == 0


@pytest.mark.parametrize("facts", [ArrayFacts((1, 7), 16), ArrayFacts((12, 2), 4), ArrayFacts(None, 4)])
def test_a_laid_out_array_lies_as_its_facts_say_between_guards(facts: ArrayFacts):
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    buffer = laid_out("x", x, facts, POISON[0])
    assert (buffer.array == x).all() and not damage(buffer, POISON[0])
    address = buffer.array.ctypes.data
    assert address % facts.align == 0 and (facts.align == 16 or address % 16)
    assert [s // 4 for s in buffer.array.strides] == list(facts.strides or (5, 1))
    buffer.storage[buffer.offset + buffer.reach] = 0
    assert "after x" in damage(buffer, POISON[0])


# ---- outcomes


@pytest.mark.parametrize(("a", "b"), [
    ("/tmp/fuzz_0123456789ab.py:7: no lowering of 'gather' yet", "/x/fuzz_ba9876543210.py:12: no lowering of 'sort' yet"),
    ("IndexError: tuple index 3 (raised at lower/x.py:14)", "IndexError: tuple index 11 (raised at lower/x.py:14)"),
    ("tile t14 has 3 dims", "tile t2 has 4 dims"),
])  # fmt: skip
def test_messages_of_one_cause_are_alike(a: str, b: str):
    assert normal(a) == normal(b)


@pytest.mark.parametrize(("a", "b"), [
    ("no f8e4m3 here", "no f8e5m2 here"),
    ("IndexError: 3 (raised at lower/x.py:14)", "IndexError: 3 (raised at lower/x.py:15)"),
    ("cannot emit\n  - the function erf", "cannot emit\n  - the function log"),
])  # fmt: skip
def test_messages_of_two_causes_differ(a: str, b: str):
    assert normal(a) != normal(b)


def test_what_an_error_means():
    def plain(kind: str) -> str:
        return status_of(kind, "", drawn=False)

    assert plain("missing-rule") == REFUSED and plain("tool-missing") == UNUSED
    assert plain("schedule") == FOUND and status_of("schedule", "", drawn=True) == UNUSED
    assert status_of("missing-rule", "", drawn=True) == UNUSED and status_of("unsupported-dtype", "", drawn=True) == REFUSED
    assert status_of("lowering", "", drawn=True) == UNUSED and status_of("lowering-gap", "", drawn=True) == FOUND
    assert status_of("simulator", "blocks, for which there is no room", drawn=False) == UNUSED and plain("simulator") == FOUND
    assert status_of("driver", "CL_OUT_OF_RESOURCES", drawn=True) == UNUSED
    assert all(plain(kind) == FOUND for kind in ("incorrect", "defect", "compile", "crash", "timeout", "race", "driver"))


def test_a_shrunk_failure_may_move_to_the_plain_stage_and_not_elsewhere():
    steep, plain = (TargetOutcome("cpp:cpu", FOUND, "incorrect", stage=s) for s in ("steep", "values"))
    assert plain.like(steep) and steep.like(steep) and not steep.like(plain)
    assert not TargetOutcome("hip:gfx942", FOUND, "incorrect", stage="steep").like(steep)
    assert not TargetOutcome("cpp:cpu", OK).like(steep)


# ---- findings


def _finding(cause: str, *signatures: str) -> FuzzFinding:
    return FuzzFinding(f"name_{cause}", "incorrect", "", ("cpp:cpu",), signatures, cause)


def test_an_error_is_recognised_and_a_wrong_value_only_after_it_was_looked_at():
    findings = Findings()
    crash = TargetOutcome("cpp:cpu", FOUND, "crash", "compiling SIGSEGV")
    wrong = TargetOutcome("cpp:cpu", FOUND, "incorrect", stage="values", families=("rows",))
    findings.add(_finding("a", crash.signature))
    findings.add(_finding("b", wrong.signature))
    assert findings.recognised(crash) == "name_a" and not findings.recognised(wrong)
    for _ in range(DULL):
        assert findings.same_cause(wrong, "b") == "name_b"
    assert findings.recognised(wrong) == "name_b" and not findings.same_cause(wrong, "c")


def test_two_languages_with_one_wrong_value_make_lowering_or_the_judge_suspect(tmp_path: Path):
    program = PROGRAM.operator(tmp_path).program({"M": 3, "N": 5})
    def outcome(target: str, value: float) -> TargetOutcome:
        return TargetOutcome(target, FOUND, "incorrect", wrong={("values", "out"): np.full((3, 5), value, np.float32)})

    assert suspicion([outcome("cpp:cpu", 1.0), outcome("numba:cpu", 1.0)], program) == "shared"
    assert not suspicion([outcome("cpp:cpu", 1.0), outcome("numba:cpu", 2.0)], program)
    assert not suspicion([outcome("hip:gfx942", 1.0), outcome("hip:gfx1201", 1.0)], program)


# ---- coverage and steering


def test_functions_that_run_are_reached(tmp_path: Path):
    found: set[str] = set()
    before = sys.gettrace()
    with reaching(found, ("portakern.lower.",)):
        simplify.simplify(PROGRAM.operator(tmp_path).program())
    assert "portakern.lower.simplify:simplify" in found and all(x.startswith("portakern.lower.") for x in found)
    known = frozenset().union(*(functions_of(name.split(":")[0]) for name in found))
    assert found <= known and sys.gettrace() is before


def test_coverage_counts_to_a_limit_and_lists_what_was_not_reached():
    coverage = Coverage()
    name = "portakern.lower.simplify:squeezed"
    reached = frozenset({name, "portakern.lower.simplify:Gone.__init__"})
    outcome = TargetOutcome("cpp:cpu", OK, families=("rows",), reached=reached)
    assert coverage.add(["sum"], outcome) == {name: 1}
    for _ in range(2 * COUNTED):
        coverage.add(["max"], outcome)
    assert coverage.counts == {name: COUNTED} and coverage.first[name] == ("sum",)
    assert "portakern.lower.simplify:full" in coverage.unreached()["lower"] and name not in coverage.unreached()["lower"]
    assert "lower" in coverage.table() and "rows" in coverage.table()


@pytest.mark.parametrize(("module", "part"), [
    ("portakern.lower.rows", "lower"), ("portakern.emit.clike.plan", "emit.clike"), ("portakern.emit.softmax", "emit.softmax"),
    ("portakern.backends.cpu.numba.loops", "backends.cpu.numba"), ("portakern.backends.cuda.printer", "backends.cuda"),
])  # fmt: skip
def test_parts(module: str, part: str):
    assert part_of(module) == part


def test_features_that_reach_what_is_rare_weigh_more():
    steering = Steering(("a", "b", "c"))
    assert steering.next_batch() == {"a": 1.0, "b": 1.0, "c": 1.0}
    steering.saw(["a", "b"])
    steering.credit(["a"], {"f": 1, "g": 2})
    assert steering.next_batch() == {"a": MOST, "b": 1.0, "c": UNSEEN}


# ---- the state


def test_a_line_that_a_kill_cut_off_is_left_out_and_the_next_one_is_whole(tmp_path: Path):
    state = RunFolder(tmp_path / "run")
    state.append("batches", {"batch": 0})
    state.append("found", {"n": 1})
    state.close()
    with (tmp_path / "run" / "found.jsonl").open("a") as stream:
        stream.write('{"n": 2, "te')
    again = RunFolder(tmp_path / "run", resume=True)
    again.append("found", {"n": 3})
    assert [line["n"] for line in again.lines("found")] == [1, 3]


def test_a_fresh_run_does_not_take_over_another(tmp_path: Path):
    RunFolder(tmp_path).append("batches", {})
    with pytest.raises(UsageError, match="--resume"):
        RunFolder(tmp_path)
    with pytest.raises(UsageError, match="no run"):
        RunFolder(tmp_path / "elsewhere", resume=True)
