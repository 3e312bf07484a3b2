"""benchmarks/nvidia_estimate.py without a GPU: its cases, going on where it stopped, the split, a fit."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from portakern.backends.cuda.cost.estimator import Constants, predicted
from portakern.backends.cuda.cost.features import Features
from portakern.backends.cuda.sass.disassembler import disassembler
from portakern.backends.cuda.toolchain import CudaToolchain
from portakern.registry import registry

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def features(seed: int) -> Features:
    draw = random.Random(seed)
    names = ("issue", "alu", "tensor", "shared", "access", "l2", "memory", "latency")
    times = {name: 10 ** draw.uniform(-1, 3) for name in names}
    counts = dict.fromkeys(("flops", "tensor_flops", "global_bytes", "memory_bytes", "instructions"), 0.0)
    return Features("k", 100, 256, 32, 1.0, "threads", 1, **times, **counts)


def test_the_fit_finds_constants_that_predict_what_it_did_not_see() -> None:
    import nvidia_estimate as bench

    hidden = bench.HIDDEN
    points = [bench.Point(f"p{n // 2}", "op", (f := (features(n),)), sum(predicted(x, hidden) for x in f)) for n in range(80)]
    known, held = bench.split(points)
    assert {p.problem for p in known}.isdisjoint({p.problem for p in held}) and len(known) == len(held) == 40
    found = bench.fitted(known, Constants())
    assert bench.error_of(held, found) < 0.06 < bench.error_of(held, Constants())
    assert bench.spearman(held, found) > 0.99 and abs(bench.spearman(held[:1], found)) != 1


def test_there_are_enough_cases_each_once() -> None:
    import nvidia_estimate as bench

    found = list(bench.cases("cuda:h100-sxm", bench.SCHEDULES))
    assert len(found) >= 200 and len({c.name for c in found}) == len(found)
    assert {c.operator for c in found} == set(bench.SIZES)


@pytest.mark.slow
@pytest.mark.skipif(
    disassembler() is None or not CudaToolchain().available(registry().target("cuda:sm_90a")), reason="no tools for CUDA"
)
def test_a_dry_run_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import nvidia_estimate as bench

    asked = ["cuda:h100-sxm", "--dry", "--only", "row_sum", "--out", str(tmp_path / "dry.jsonl"), "--most", "3"]
    assert bench.main(asked) == 1 and "too few to fit" in capsys.readouterr().out
    with (tmp_path / "dry.jsonl").open("a") as file:
        file.write('{"case": "cut o')
    (tmp_path / "dry.jsonl").write_text((tmp_path / "dry.jsonl").read_text() + "\n")
    assert bench.main(asked) == 0
    said = capsys.readouterr()
    assert "3 cases in" in said.err and "6 kernels and schedules with a time, 0 without" in said.out
    entries = [json.loads(x) for x in (tmp_path / "dry.jsonl").read_text().splitlines() if not x.startswith('{"case": "cut')]
    assert len({e["case"] for e in entries}) == 6 and all(e["us"] > 0 for e in entries)
    assert bench.main(["--report", str(tmp_path / "dry.jsonl")]) == 0
