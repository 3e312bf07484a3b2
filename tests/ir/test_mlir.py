"""Export to MLIR, read by mlir-opt where that is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from portakern.ir.mlir import program_to_mlir, to_mlir
from portakern.spec.load import library, load_operator
from tests import samples

pytestmark = pytest.mark.quick


def mlir_opt() -> str | None:
    names = ("mlir-opt", *(f"mlir-opt-{n}" for n in range(25, 15, -1)))
    return next(filter(None, map(shutil.which, names)), None)


def everything() -> str:
    parts = [program_to_mlir(p) for p in samples.all_samples().values()]
    for operator in library():
        params = {"causal": True} if operator.name == "attention" else {}
        parts.append(to_mlir(operator.trace(params, "bf16", dict.fromkeys(operator.stars, 1))))
    return "// -----\n".join(parts)


def test_the_form_of_a_tensor_program() -> None:
    text = to_mlir(load_operator("row_sum").trace({}, "bf16"), locations=False)
    assert text == (
        '"pk.tensor_program"() ({\n'
        "^bb0(%0: tensor<?x?xbf16>):\n"
        '  %1 = "pk.convert"(%0) {dtype = "f32"} : (tensor<?x?xbf16>) -> tensor<?x?xf32>\n'
        '  %2 = "pk.fold"(%1) {fn = "sum", axes = [1 : i64]} : (tensor<?x?xf32>) -> tensor<?xf32>\n'
        '  %3 = "pk.convert"(%2) {dtype = "bf16"} : (tensor<?xf32>) -> tensor<?xbf16>\n'
        '  "pk.give"(%3) {operandSegmentSizes = array<i32: 1>} : (tensor<?xbf16>) -> ()\n'
        '}) {sym_name = "row_sum", outputs = ["out"], scalars = [], ranges = []} : () -> ()\n'
    )


def test_locations_are_exported() -> None:
    assert 'loc("portakern/operators/row_sum.py":' in to_mlir(load_operator("row_sum").trace({}, "f32"))


@pytest.mark.skipif(mlir_opt() is None, reason="mlir-opt is not installed (Debian: mlir-19-tools)")
def test_mlir_opt_reads_every_sample_and_operator(tmp_path: Path) -> None:
    file = tmp_path / "all.mlir"
    file.write_text(everything())
    tool = mlir_opt()
    assert tool is not None
    command = [tool, "--allow-unregistered-dialect", "--split-input-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[:2000]
    assert done.stdout.count("pk.kernel") == everything().count('"pk.kernel"')
