"""A model cut into pieces is the model: each kernel is in one, and run one after the other they compute the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import portakern as pk
from portakern.dtypes import numpy_dtype
from portakern.ir import oracle
from portakern.ir.program import Program, turns, verify_program
from portakern.model_study.naming import any_layer, common, places, words
from portakern.model_study.pieces import Piece, pieces_of
from portakern.registry import registry
from portakern.testing.tile_interpreter import JUNK, _Run
from tests.lowering import lowered_for
from tests.model_study import small_models

MODELS = ("blocks", "recurrent", "convolved", "attentive")
TARGETS = ("cpp:cpu", "cuda:sm_90a", "pallas:v6e")

imported: dict[str, Any] = {}


def operator(name: str) -> Any:
    if name not in imported:
        module, inputs = getattr(small_models, name)()
        imported[name] = pk.from_torch(module, inputs)
    return imported[name]


def program_of(name: str, target: str) -> Program:
    return lowered_for(registry().target(target), operator(name).program())


def run_pieces(pieces: list[Piece], inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every array that a piece was given or has written.  An array that no piece before has made is a KeyError."""
    arrays = {n: np.array(x) for n, x in inputs.items()}
    for piece in pieces:
        program, mine = piece.program, {}
        for a in program.arrays:
            if a.role in ("output", "temporary"):
                fresh = np.full(program.shape(a.name, {}), JUNK).astype(numpy_dtype(a.dtype))
                mine[a.name] = arrays.get(a.name, fresh) if a.role == "output" else fresh
                if a.init is not None:
                    mine[a.name][...] = a.init
            else:
                mine[a.name] = arrays[a.name]
        with np.errstate(all="ignore"):
            for turn in turns(len(program.kernels), program.repeats, {}):
                _Run(program.kernels[turn.number], {n: mine[turn.array(n)] for n in mine}, turn.sizes).all()
        arrays |= {a.name: mine[a.name] for a in program.by_role("output")}
    return arrays


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_pieces_are_the_model(name: str, target: str):
    op, program = operator(name), program_of(name, target)
    pieces = pieces_of(program)
    assert sorted(n for p in pieces for n in p.numbers) == list(range(len(program.kernels)))
    for piece in pieces:
        verify_program(piece.program)
    have = run_pieces(pieces, op.example_arrays())
    for output, want in oracle.evaluate(op.program(), op.example_arrays()).items():
        np.testing.assert_allclose(have[output].reshape(want.shape), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_computed_covers_every_kernel_once(name: str):
    program = program_of(name, "cpp:cpu")
    covered = [n for c in program.computed for n in range(c.first, c.last)]
    assert covered == list(range(len(program.kernels)))
    for c in program.computed:
        made = {a.name for k in program.kernels[c.first : c.last] for a in k.args if a in k.written}
        assert made, c


@pytest.mark.quick
def test_equal_layers_are_one_piece_that_is_used_again():
    pieces = pieces_of(program_of("blocks", "cpp:cpu"))
    named = [(common([place.path for p, place in zip(pieces, places(pieces), strict=True) if p.key == key]), count)
             for key, count in Counter(p.key for p in pieces).items()]  # fmt: skip
    assert named == [("blocks.{0-2}.up", 3), ("blocks.{0-2}.down", 3), ("head", 1)]


@pytest.mark.quick
def test_layers_that_differ_are_told_apart():
    wide, same = pieces_of(program_of("blocks", "cpp:cpu")), pieces_of(program_of("blocks", "cuda:sm_90a"))
    assert not {p.key for p in wide} & {p.key for p in same}  # other schedules
    keys = {p.key for p in pieces_of(program_of("attentive", "cpp:cpu"))}
    assert len(keys) == len(pieces_of(program_of("attentive", "cpp:cpu")))


@pytest.mark.quick
def test_a_loop_is_one_piece_with_all_its_turns():
    pieces = pieces_of(program_of("recurrent", "cuda:sm_90a"))
    loops = [p for p in pieces if p.program.repeats]
    assert loops and all(words(p) == "loop" for p in loops)
    assert all(r.count == 5 for p in loops for r in p.program.repeats)
    # What is done for all steps at once stays apart from the steps.
    assert any("rnn_weight_ih_l0" in p.arrays and "rnn_weight_hh_l0" not in p.arrays for p in pieces)


@pytest.mark.quick
def test_copies_have_the_place_of_what_reads_them():
    pieces = pieces_of(program_of("convolved", "cpp:cpu"))
    copies = [(p, place) for p, place in zip(pieces, places(pieces), strict=True) if words(p) == "copy"]
    assert copies
    assert all(place.path in ("conv1", "conv2", "skip", "") and place.line.startswith("tests/") for _, place in copies)


@pytest.mark.quick
@pytest.mark.parametrize(("paths", "text"), [
    (["a.0.x", "a.1.x", "a.2.x", "a.5.x"], "a.{0-2,5}.x"),
    (["a.0.x"], "a.0.x"),
    (["a.0.x", "a.0.y"], "a.0.{x,y}"),
    (["a.0.x", "a.1.y"], "a.0.x +1"),  # a.{0-1}.{x,y} would be four
    (["a", "a.b"], "a +1"),
    (["", ""], ""),
])  # fmt: skip
def test_one_name_for_equal_layers(paths: list[str], text: str):
    assert common(paths) == text


@pytest.mark.quick
def test_numbers_of_layers_are_left_out_of_places():
    assert any_layer("layer1.0.conv1") == "layer1.*.conv1"
    assert any_layer("12") == "*"
