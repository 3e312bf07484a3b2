"""Products on Hopper read their left operand from registers until they are waited for: none of these may be written before.

ptxas says nothing of it (its notes are of accumulators alone), and results are wrong only now and then.  So the machine code is
read here: between a product and the wait for it nothing writes the registers that it multiplies.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from portakern.backend import Source
from portakern.backends.triton import triton_language
from portakern.backends.triton.schedule.families import OPTIONS, schedules
from portakern.ir.schedule import Nest, Schedule, Value, override
from portakern.lower import lower
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.tools.workers import WorkerPool

pytest.importorskip("triton")
pytest.importorskip("torch")

TARGET = registry().target("triton:sm_90")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s+(.*?);")


def disassembler() -> Path:
    spec = find_spec("triton")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"


@pytest.fixture(scope="module")
def compiler() -> Iterator[WorkerPool]:
    if not disassembler().is_file():
        pytest.skip("this Triton brings no nvdisasm")
    with WorkerPool(1, env=dict(triton_language.environment), preload=("torch", "triton")) as pool:
        yield pool


def emitted(features: int, causal: bool, **asked: Value) -> Source:
    def choose(nest: Nest) -> Schedule:
        return override(schedules(nest, TARGET.device)[0], nest, asked, OPTIONS)

    dims = {"B": 2, "H": 2, "G": 1, "SQ": 1024, "SK": 1024, "D": features}
    program = load_operator("attention").program(dims, {"causal": causal}, "bf16")
    return triton_language.emitter.emit(lower(program, choose), TARGET)


def overwritten(pool: WorkerPool, source: Source, folder: Path) -> list[str]:
    """The instructions in loops that write what a product in flight multiplies."""
    path = folder / "kernel.cubin"
    path.write_bytes(pool.call("tests.triton.support:compiled", "triton", source).data)
    lines = subprocess.run([disassembler(), "-c", path], capture_output=True, text=True, check=True).stdout.splitlines()
    labels = {m[1]: n for n, line in enumerate(lines) if (m := re.match(r"(\.L_x_\d+):", line))}
    back = [(labels[m[1]], n) for n, line in enumerate(lines)
            if (m := re.search(r"BRA[^`]*`\((\.L_x_\d+)\)", line)) and labels.get(m[1], n) < n]  # fmt: skip
    bodies = [lines[a : b + 1] for a, b in back if not any("EXIT" in x for x in lines[a:b])]
    bodies = [body for body in bodies if any("HGMMA" in x for x in body)]
    assert bodies, "no loop multiplies"
    return [x for body in bodies for x in _overwritten(body)]


def _overwritten(body: list[str]) -> list[str]:
    held: set[int] = set()
    found = []
    for line in [*body, *body]:  # what one step leaves in flight the next one may overwrite
        if (m := INSTRUCTION.search(line)) is None:
            continue
        name, operands = m[1], m[2].split(",")
        if name.startswith("HGMMA"):
            if left := re.match(r"\s*R(\d+)", operands[1]):
                held |= set(range(int(left[1]), int(left[1]) + 4))
        elif "DEPBAR" in name and "gsb0" in m[2]:
            held.clear()
        elif not name.startswith(("ST", "SYNCS", "UT", "BAR")) and (written := re.match(r"(?:P\d, )?R(\d+)", m[2])):
            wide = "WIDE" in name or ".64" in name or name.startswith("CS2R")
            found += [line.strip()] if held & set(range(int(written[1]), int(written[1]) + 1 + wide)) else []
    return found


HEADS = ((64, True), (128, False), (256, True))
"""Numbers of features, and whether attention is causal."""
MORE = ((64, False), (128, True), (256, False))


@pytest.mark.parametrize(("features", "causal"), [*HEADS, *(pytest.param(*x, marks=pytest.mark.slow) for x in MORE)])
def test_nothing_overwrites_what_is_multiplied(compiler: WorkerPool, tmp_path: Path, features: int, causal: bool) -> None:
    for asked in ({}, {"ahead": 2, "m": 64})[: 2 if (features, causal) != HEADS[1] else 1]:
        assert overwritten(compiler, emitted(features, causal, **asked), tmp_path) == []


@pytest.mark.quick
@pytest.mark.parametrize(("line", "wrong"), [(0, True), (2, True), (3, False), (4, True), (5, True)])
def test_what_is_overwritten_is_found(line: int, wrong: bool) -> None:
    """As in the code of a text that gave wrong results on an H200: weights rounded before the wait for the product before."""
    step = ["HGMMA.64x64x16.F32.BF16 R120, gdesc[UR28], RZ, !UPT, gsb0", "FADD R8, R153, R8", "WARPGROUP.DEPBAR.LE gsb0, 0x0",
            "HGMMA.64x64x16.F32.BF16 R56, R152, gdesc[UR16].tnspB, R56, gsb0", "MOV R9, R154"]  # fmt: skip
    step.insert(line, "F2FP.BF16.F32.PACK_AB R153, R22, R23")
    assert bool(_overwritten([f"        /*{16 * n:04x}*/                   {x} ;" for n, x in enumerate(step)])) == wrong
