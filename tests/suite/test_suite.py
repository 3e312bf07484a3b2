"""A suite runs to its end whatever its tasks do, keeps rows, resumes, and says the cause of each failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from portakern.cli import main  # noqa: E402
from portakern.errors import UsageError  # noqa: E402
from portakern.suite import adapter, audit, peer, report, results  # noqa: E402
from portakern.suite.kernelbench import KernelBench  # noqa: E402

GOOD = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.randn(4, 6)]
def get_init_inputs():
    return []
"""
TASKS = {
    "1_good": GOOD,
    "2_dies": GOOD.replace("    return []", "    import os; os.abort()"),
    "3_missing": GOOD.replace("torch.relu(x) * 2", "torch.nonzero(x) * 2"),
    "4_raises": GOOD.replace("return []", "raise ValueError('no')"),
    "5_constant": GOOD.replace("torch.relu(x) * 2", "(x - x.mean(1, keepdim=True)).mean(1)"),
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "level1").mkdir()
    for name, text in TASKS.items():
        (tmp_path / "level1" / f"{name}.py").write_text(text)
    return tmp_path


def row(task: str, **more: object) -> results.TaskRow:
    return results.TaskRow(**{"suite": "s", "task": task, "level": "l", "target": "t", "size": "reduced", **more})  # type: ignore[arg-type]


def test_tasks_are_found_in_their_order(checkout: Path) -> None:
    found = KernelBench().tasks(checkout)
    assert [t.name for t in found] == [f"level1/{n}" for n in TASKS] and isinstance(KernelBench(), adapter.Suite)
    assert [t.name for t in adapter.selected(found, None, ["level1/3"], 1)] == ["level1/3_missing"]
    assert len(adapter.selected(found, "level1", [], 2)) == 3
    with pytest.raises(UsageError, match="no task is selected"):
        adapter.selected(found, "level9", [], 1)
    with pytest.raises(UsageError, match="holds no tasks"):
        KernelBench().tasks(checkout / "level1")


def test_rows_are_kept_and_read_back_without_what_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    keep = results.Keeper(file, resume=False)
    keep(row("a", correct=True, imported=True))
    with file.open("a") as out:
        out.write('{"suite": "s", "ta')
    assert results.read(file) == [row("a", correct=True, imported=True)]
    assert results.Keeper(file, resume=True).done() == {("a", "t", "reduced")}
    with pytest.raises(UsageError, match="holds results already"):
        results.Keeper(file, resume=False)


def test_a_task_is_correct_where_all_its_samples_are() -> None:
    rows = [row("a", imported=True, correct=True), row("a", sample=1, imported=True, correct=False,
            error={"kind": "incorrect", "message": "off by 7.5e-3", "hint": ""}),
            row("b", imported=True, correct=True)]  # fmt: skip
    figures = report.summary(rows)["targets"]["t"]
    assert (figures["tasks"], figures["imported"], figures["correct"]) == (2, 2, 1)
    text = report.text(rows)
    assert "1 of 2 tasks correct" in text and "off by #" in text and "a" in text.splitlines()[-1]


def test_what_a_rule_refuses_is_counted_apart_from_what_failed() -> None:
    refused = {"kind": "unsupported-dtype", "message": "no f64", "hint": ""}
    rows = [row("a", imported=True, correct=True), row("a", sample=1, imported=True, error=refused),
            row("b", imported=True, error={"kind": "timeout", "message": "it took 60 s", "hint": ""}),
            row("c", imported=True, correct=True)]  # fmt: skip
    assert "samples: 2 right, 1 refused, 1 other; 2 tasks of which none is refused" in report.text(rows)
    assert "samples:" not in report.text(rows[-1:])


def test_launches_stand_beside_those_of_torch_compile() -> None:
    text = report.text([row("a", imported=True, correct=True, launches=2, peer_launches=5),
                        row("a", imported=True, correct=True, launches=3, peer_launches=5, target="u"),
                        row("b", imported=True, correct=True, launches=4, peer_launches=1),
                        row("c", imported=True, correct=True, launches=4)])  # fmt: skip
    assert "7 launches against 6 kernels and library calls, at most as many in 1 of 2 tasks (50%)" in text
    assert "  a: t 2, u 3, torch.compile 5\n  b: 4, torch.compile 1" in text and "  c:" not in text


def test_launches_are_kernels_and_library_calls() -> None:
    code = """
        cpp_fused_convolution_0(arg2_1, buf0)
        buf2 = extern_kernels.convolution(buf0, stride=(1, 1))
        triton_poi_fused_add_0.run(buf2, 16, stream=stream0)
        # extern_kernels.mm(
        buf3, buf4 = torch.ops.aten.sort.stable(buf2)
        assert_size_stride(buf2, (2, 8), (8, 1), 'torch.ops.aten.convolution.default')
        del buf0
"""
    assert len(peer.LAUNCH.findall(code)) == 4


@pytest.mark.slow
def test_launches_of_torch_compile_are_counted() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1))
    assert peer.launches(layers, (torch.randn(4, 8),), {}) == 2
    assert peer.launches(lambda x: x.nothing(), (torch.randn(4, 8),), {}) is None


def test_bad_usage_says_what_to_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments, said in ((["run", "kernelbench"], "--path"), (["run"], "needs the name"),
                            (["run", "kernelbanch"], "did you mean"),
                            (["report", "kernelbench", "--out", str(tmp_path / "none")], "no rows")):  # fmt: skip
        assert main(["suite", *arguments]) == 2
        assert said in capsys.readouterr().err
    assert main(["suite", "list"]) == 0 and "kernelbench" in capsys.readouterr().out


def test_audit_finds_outputs_that_judge_nothing() -> None:
    x = torch.randn(4, 6)
    said = {k: list(audit._suspicions(a, b)) for k, (a, b) in {
        "fine": (x, x * 0.9), "same": (x, x), "flat": (torch.ones(3), torch.ones(3) * 5),
        "tiny": (x * 1e-3, x * 5)}.items()}  # fmt: skip
    assert said["fine"] == [] and said["same"] == ["does not depend on the inputs"]
    assert said["flat"] == ["is 1 throughout"] and "of zero" in said["tiny"][0]


@pytest.mark.slow
def test_a_run_survives_its_tasks_and_resumes(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = checkout / "rows.jsonl"
    asked = ["suite", "run", "kernelbench", "--path", str(checkout), "--targets", "numba:cpu", "--out", str(file)]
    assert main([*asked, "--task", "level1/1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["evidence"] == "executed"
    assert main([*asked, "--resume"]) == 1
    rows = {r.task[7:]: r for r in results.read(file)}
    assert set(rows) == set(TASKS) and len(results.read(file)) == len(TASKS)
    stages = {n: r.stage for n, r in rows.items()}
    assert stages == {"1_good": "done", "2_dies": "task", "3_missing": "import", "4_raises": "task", "5_constant": "done"}
    assert "aten.nonzero" in (rows["3_missing"].error or {})["message"]
    capsys.readouterr()
    assert main(["suite", "audit", "kernelbench", "--path", str(checkout)]) == 0
    assert "level1/5_constant: the output" in capsys.readouterr().out
