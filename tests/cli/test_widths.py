"""What commands print for people fits terminals of several widths; whoever adds a command that prints a table adds it here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from portakern.cli import COMMANDS, main
from portakern.study.row import Row
from portakern.study.store import ResultStore
from portakern.study.study import Study
from tests.study.storing import timed

WIDTHS = [120, 80, 60, 40]

pytestmark = pytest.mark.quick


def terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("LINES", raising=False)


def hold(text: str, width: int) -> None:
    """No line is wider, but those that are one word, such as a path."""
    for line in text.splitlines():
        assert len(line) <= width or not re.search(r"\S\s+\S", line), f"{len(line)} columns: {line}"


def rows() -> list[Row]:
    """Of all sorts: timed beside peers, estimated, wrong, ended by an error."""
    wordy = "the compiler refused the source, and here is everything that it had to say of the matter, in one long line"
    resources = {"registers": 41, "agprs": 0, "scratch_bytes": 0, "shared_bytes": 1024, "code_bytes": 2300, "occupancy": 1.0,
                 "limiter": "waves"}  # fmt: skip
    estimate = {"us": 6.6, "limiter": "memory", "model": "amd", "version": "1", "confidence": "low"}
    case = {"shape": {"M": 1024, "N": 1024}, "dtype": "bf16", "params": {"eps": 1e-6, "causal": True}}
    more = [Row("attention_varlen", "hip:gfx1201", evidence="simulated", correct=True, max_error_ratio=0.988,
                resources=resources, estimate=estimate, **case),
            Row("rms_norm", "sycl:pvc", evidence="compiled", resources=resources, method="a method", **case,
                error={"kind": "compile", "message": wordy, "hint": wordy})]  # fmt: skip
    first = timed("matmul_bias_gelu", 1)
    roofline = {"share_of_measured_copy": 0.9, "measured_copy_gbs": 21.8}
    return [first.but(time={**(first.time or {}), "roofline": roofline}), *more]


@pytest.fixture
def store(tmp_path: Path) -> str:
    file = tmp_path / "mine.sqlite"
    kept = ResultStore(file)
    kept.add(rows())
    return str(file)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(Study(tuple(rows()), {}).to_dict()))
    return str(file)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(width: int, *words: str) -> str:
        terminal(monkeypatch, width)
        main(list(words))
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("words", [("ops",), ("targets",), ("targets", "hip:*,numba:cpu"), ("cache", "size")], ids=" ".join)
def test_listings(printed: Callable[..., str], width: int, words: tuple[str, ...]):
    text = printed(width, *words)
    assert len(text.splitlines()) > 2
    hold(text, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_an_operator_is_shown_with_its_source_as_it_is(printed: Callable[..., str], width: int):
    text = printed(width, "ops", "attention")
    source = text[text.index("@pk.operator") : text.rindex("\n\n")]
    assert "def attention(" in source
    hold(text.replace(source, ""), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_results_and_gates(printed: Callable[..., str], width: int, store: str, saved: str):
    text = printed(width, "results", "--store", store)
    assert "matmul_bias_gelu" in text and "FASTER" in text
    hold(text, width)
    gated = printed(width, "results", "--gate", saved, "--import", saved, "--store", store)
    assert "cases against" in gated
    hold(gated, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_and_times(monkeypatch: pytest.MonkeyPatch, width: int):
    from portakern.study.layout import fit
    from portakern.study.table import text_table
    from portakern.study.times import times_text

    terminal(monkeypatch, width)
    for text in (text_table(rows()), text_table(rows(), ["a machine", "another one", "h200.json"]), times_text(rows())):
        assert "matmul_bias_gelu" in text and "in one long" in " ".join(text.split())
        hold(fit(text), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_a_search_and_an_inspection_tell(monkeypatch: pytest.MonkeyPatch, width: int):
    from portakern.cli.inspect import report
    from portakern.study.inspecting import Inspection
    from portakern.study.layout import fit

    terminal(monkeypatch, width)
    used = {"kernel": "scaled_dot_product_attention", "registers": 64, "spills": 87, "shared_bytes": 4 << 20, "occupancy": 0.5,
            "limiter": "registers"}  # fmt: skip
    found = Inspection("pallas:v5e", "TPU v5e", kernels=(used,), notes=("what was not done, and why, at some length " * 3,))
    hold(fit(report([found])), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_doctor(monkeypatch: pytest.MonkeyPatch, width: int):
    from portakern.cli import doctor
    from portakern.native import DriverProbe
    from portakern.study.layout import fit
    from portakern.tools.environment import Ability, CacheState, Extra, Host, OutsideTool, Package

    terminal(monkeypatch, width)
    why = "no TPU v4 is here (the PCI bus shows no TPU), and that is all that there is to say"
    abilities = tuple(Ability("pallas", part, "v4", part == "toolchain", why) for part in ("toolchain", "runtime"))
    told = doctor.Report(
        Host("0.1.0", "3.11.7", "/usr/bin/python3", "Linux", "x86_64", "AMD EPYC 9755 128-Core Processor", 2),
        CacheState("/home/user/.cache/portakern", 67 << 30, "", ""),
        (Extra("tpu", (Package("jax", ">=0.10", None, False), Package("libtpu", "", "0.0.51", True))),),
        {"tpu": ("Pallas (JAX): compile, run, simulate, estimate for v4, v5e, v5p, v6e, tpu7x",)},
        (OutsideTool("ocloc", "machine code for Intel GPUs", ""),),
        (DriverProbe("cuda", "NVIDIA CUDA driver (libcuda)", False, "", "", 0, "libcuda.so.1: cannot open the shared object"),),
        (doctor.LanguageReport("pallas", "Pallas", "tpu", "tpu", ("v4", "v5e", "v5p", "v6e", "tpu7x"), abilities),),
        {"zz": "ModuleNotFoundError: No module named 'something_that_is_not_there'"},
        doctor.JailState(("ipc", "mount", "net"), ("user",), {"user": "not needed by root, who becomes another user"}),
    )  # fmt: skip
    hold(fit(doctor.text(told)), width)


def test_commands_print_through_what_fits_the_terminal():
    """A module of a command that calls ``print`` on standard output does so for what is not for people, or is named here."""
    free = {"__init__", "completion", "emit", "options", "serve", "mcp", "fleet", "fuzz", "dataset", "suite", "faults", "plan",
            "doctor", "results", "compare", "ops"}  # fmt: skip
    folder = Path(__import__("portakern.cli", fromlist=["x"]).__file__).parent
    for file in folder.glob("*.py"):
        calls = [x for x in re.findall(r"^.*\bprint\(.*$", file.read_text(), re.M) if "stderr" not in x]
        assert file.stem in free or not calls, f"{file.name}: {calls}: options.show fits lines to the terminal"
    assert COMMANDS
