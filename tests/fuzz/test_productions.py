"""Productions for what models are made of: each is drawn alone, lowered, run as tile programs, and held against the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portakern.fuzz.case import ENTRY, FuzzCase
from portakern.fuzz.drawing import choices_from
from portakern.fuzz.grammar import FEATURES, cases
from portakern.fuzz.grammar import program as programs
from portakern.fuzz.grammar.gathers import MANY
from portakern.fuzz.grammar.table import TABLE
from portakern.ir.oracle import evaluate
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.size import evaluate as evaluated
from portakern.ir.tensor import Scatter, TensorProgram, tensor_type
from portakern.lower import lower
from portakern.spec.inputs import at_sizes, make_inputs
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run
from portakern.tuning.space import WHOLE

pytestmark = pytest.mark.quick

GATES = ("gated", "gated_halves", "gated_parts_of_weights", "products_by_one_matrix", "feed_forward", "nearly_gated")
ROTATIONS = ("rotated", "rotated_neighbours", "rotated_projection", "rotated_part", "rotated_attention")
HEADS = ("heads", "heads_of_one_product", "grouped_heads", "heads_of_latents")
PAGES = ("keys_in_pages", "keys_by_slot", "pages_of_one_cache", "pages_by_offsets")
FEW_BITS = ("weights_of_few_bits", "scales_of_blocks", "gated_of_few_bits", "quantised_rows")
DECODINGS = ("decoding", "decoding_biased", "decoding_after_appending", "decoding_of_few_bits")
PARTS = (*GATES, *ROTATIONS, *HEADS, *PAGES, *FEW_BITS, *DECODINGS)
PUT = ("scatter", "rows_put")

SHARE = 0.2
"""Of all that is drawn parts of models are so much at most, before anything is steered."""

TILES = {"m": 16, "n": 32, "k": 32, "reduced": 64, "scanned": 64}
ONES = {"contraction": ("reduced",)}
"""Roles of axes by family that are never tiled."""


def drawn(name: str, seed: int) -> FuzzCase:
    """A program of one production, drawn once, in f32."""
    weights = dict.fromkeys(FEATURES, 0.0) | {name: 1.0, "f32": 1.0}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(programs, "MOST_STATEMENTS", 1)
        return choices_from(seed).draw(cases(weights))


def operator_of(case: FuzzCase, folder: Path) -> Operator:
    file = folder / f"made_{abs(hash(case.text))}.py"
    file.write_text(case.text)
    return load_operator(f"{file}:{ENTRY}")


def choose(nest: Nest) -> Schedule:
    """Tiles of some tens of elements, and the whole of what a family needs whole."""
    def tile(axis) -> int:  # type: ignore[no-untyped-def]
        if axis.role in WHOLE.get(nest.family, ()):
            return 1 << max(int(axis.extent) - 1, 0).bit_length()
        last = axis.role == "parallel" and axis in nest.axes[-2:]
        if axis.role in ONES.get(nest.family, ()):
            return 1
        return TILES.get(axis.role, 64 if last else 1)

    return Schedule(tuple((a.name, tile(a)) for a in nest.axes))


@pytest.mark.parametrize("name", (*PARTS, *PUT, "rows_sent", "attention_of_bytes", "joined_in_any_grouping"))
def test_what_is_drawn_is_right(name: str, tmp_path: Path) -> None:
    case = drawn(name, seed=1)
    operator = operator_of(case, tmp_path)
    program = operator.program(case.dims, case.params, case.dtype)
    inputs = make_inputs(program, at_sizes(operator.families, case.dims))
    wanted, got = evaluate(program, inputs), run(lower(program, choose), inputs, {})
    for output, value in wanted.items():
        made, wide = got[output].astype(np.float64), value.astype(np.float64)
        slack = 1e-4 * max(np.abs(wide[np.isfinite(wide)]).max(initial=0.0), 1.0)
        np.testing.assert_allclose(made, wide, rtol=1e-3, atol=slack, err_msg=case.text)


def test_scatters_often_have_more_updates_and_elements_than_are_compared_one_by_one(tmp_path: Path) -> None:
    """And are right: these are sorted."""
    made = [drawn(name, seed) for name in PUT for seed in range(8)]
    programs = [operator_of(c, tmp_path).program(c.dims, c.params, c.dtype) for c in made if not c.open_dims]
    assert sum(map(_sorts, programs)) >= len(made) / 4


def _sorts(program: TensorProgram) -> bool:
    puts = [op for op in program.body.ops if isinstance(op, Scatter)]
    return any(all(evaluated(tensor_type(x).shape[op.axis], {}) >= MANY for x in (op.x, op.indices)) for op in puts)


def test_they_do_not_starve_the_others() -> None:
    assert sum(TABLE[name].weight for name in PARTS) <= SHARE * sum(p.weight for p in TABLE.values())
