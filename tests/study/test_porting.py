"""Notes on moving a kernel: what is said, from which figures, and what is not said where nothing differs."""

from __future__ import annotations

import json

import pytest

from portakern.registry import registry
from portakern.study.porting import COPIES, WORDS, notes_text, porting_notes
from portakern.study.row import Row
from portakern.study.study import Study

pytestmark = pytest.mark.quick


def row(target: str, **resources: object) -> Row:
    return Row("matmul", target, dtype="bf16", schedule=f"of {target}", resources={"source": "the binary", **resources})


CUDA = row("cuda:sm_90a", shared_bytes=200 << 10, registers=168, occupancy=0.25, limiter="registers")
CDNA3 = row("hip:gfx942", shared_bytes=64 << 10, registers=256, agprs=128, occupancy=0.25, limiter="LDS")
CDNA4 = row("hip:gfx950", shared_bytes=128 << 10, registers=256, agprs=0, occupancy=0.25, limiter="LDS")


def said(rows: list[Row]) -> dict[tuple[str, str], str]:
    return {(n.target, n.topic): n.text for n in porting_notes(rows)}


def test_what_matters_from_hopper_to_cdna():
    notes = said([CUDA, CDNA3, CDNA4])
    three = {topic: text for (target, topic), text in notes.items() if target == "hip:gfx942"}
    assert three["lanes"].startswith("64 lanes go together instead of 32") and "1 step more" in three["lanes"]
    assert "the 200 KB that the kernel uses on sm_90a would not fit, the one here uses 64.0 KB" in three["shared memory"]
    assert "256 and 168 (128 of them accumulation registers)" in three["registers"]
    assert "v_mfma_f32_16x16x16_bf16 instead of mma.sync.m16n8k16, wgmma" in three["matrix instructions"]
    assert "FNUZ" in three["8-bit floats"] and "4 bytes a lane straight into LDS" in three["asynchronous copies"]
    four = {topic: text for (target, topic), text in notes.items() if target == "hip:gfx950"}
    assert "8-bit floats" not in four or "FNUZ" not in four["8-bit floats"]
    assert "16 bytes a lane" in four["asynchronous copies"] and "64 banks instead of 32" in four["banks"]


def test_every_note_names_its_sources():
    for note in porting_notes([CUDA, CDNA3, CDNA4]):
        assert note.sources and all(len(s) > 5 for s in note.sources), note


def test_between_two_generations_only_what_differs():
    notes = said([CDNA3, CDNA4])
    topics = {topic for _, topic in notes}
    assert {"shared memory", "banks", "asynchronous copies", "matrix instructions"} <= topics
    assert not {"lanes", "registers"} & topics


def test_one_target_or_rows_from_an_unknown_one_give_none():
    assert porting_notes([CDNA3]) == () == porting_notes([CDNA3, row("abacus:wood"), row("numba:cpu")])


def test_they_are_in_the_text_the_json_and_the_page():
    rows = (CUDA, CDNA3)
    study = Study(rows, porting=porting_notes(rows))
    assert "from cuda:sm_90a to hip:gfx942:" in str(study) and "asynchronous copies: loads put" in str(study)
    (first, *_) = json.loads(study.to_json())["porting"]
    assert first["origin"] == "cuda:sm_90a" and first["sources"]
    assert "<h3>cuda:sm_90a to hip:gfx942</h3>" in study.to_html()
    assert "porting" not in json.loads(Study(rows).to_json())
    assert notes_text(()) == ""


@pytest.mark.parametrize("isa", ["gfx90a", "gfx942", "gfx950", "gfx1201"])
def test_what_the_hardware_has_does_not_depend_on_the_language(isa: str):
    """Of what notes are written about; the formats of 8-bit floats differ, for Triton converts them."""
    hip, triton = (registry().target(f"{language}:{isa}").device for language in ("hip", "triton"))
    told = [f for f in (*COPIES, *WORDS) if f != "fp8_fnuz"]
    assert [f for f in told if hip.has(f)] == [f for f in told if triton.has(f)]


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        ("cuda:sm_90a", "triton:sm_90"),
        ("triton:h200", "cuda:h200"),
        ("cuda:sm_90a", "triton:h100-sxm"),
        ("hip:gfx942", "triton:gfx942"),
    ],
)
def test_a_chip_is_not_told_apart_from_itself(origin: str, target: str):
    """The languages are: no feature is lacked, nothing is balanced, no instruction differs."""
    topics = [n.topic for n in porting_notes([row(origin), row(target)])]
    of_hardware = {"balance", "other features", "asynchronous copies", "matrix instructions", "lanes"}
    assert "chip" in topics and not of_hardware & set(topics)


@pytest.mark.parametrize(("a", "b"), [("cuda:h100-sxm", "cuda:h200"), ("triton:h200", "cuda:h100-pcie")])
def test_two_products_of_one_instruction_set_differ_by_their_figures(a: str, b: str):
    for pair in ((a, b), (b, a)):
        notes = said([row(t) for t in pair])
        assert {topic for _, topic in notes} <= {"chip", "balance", "schedule", "dtypes"}
        assert "TB/s of memory bandwidth instead of" in notes[pair[1], "chip"] and "FLOP a byte" in notes[pair[1], "balance"]


@pytest.mark.parametrize("gpu", ["cuda:sm_90a", "hip:gfx942", "triton:gfx950", "sycl:pvc"])
def test_between_gpus_and_tpus_in_both_directions(gpu: str):
    there, back = said([row(gpu), row("pallas:v6e")]), said([row("pallas:v6e"), row(gpu)])
    assert "there are no threads" in there["pallas:v6e", "execution"]
    assert "128 MB of fast memory" in there["pallas:v6e", "execution"]
    assert "at once and in no order" in back[gpu, "execution"] and "instead of 128 MB" in back[gpu, "execution"]
    assert not {"other features", "asynchronous copies"} & {topic for _, topic in (*there, *back)}


def test_every_target_but_the_first_has_notes_and_the_way_back_says_the_opposite():
    targets = ["cuda:sm_90a", "triton:gfx942", "hip:gfx942", "pallas:v5e", "cuda:sm_80", "cuda:h100-sxm"]
    notes = porting_notes([row(t) for t in targets])
    assert {n.target for n in notes} >= set(targets[1:-1]) and {n.origin for n in notes} == {"cuda:sm_90a"}
    (lacks,) = [n.text for n in porting_notes([row("cuda:sm_90a"), row("cuda:sm_80")]) if "clusters" in n.text]
    (has,) = [n.text for n in porting_notes([row("cuda:sm_80"), row("triton:sm_90")]) if "clusters" in n.text]
    assert lacks.startswith("it lacks") and has.startswith("it has")
