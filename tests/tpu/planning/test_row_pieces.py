"""Steps of attention cut into pieces of rows, and walks cut in two: what is written, and that it is right."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from portakern.backend import Source
from portakern.ir.program import Program
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.work import Problem, works
from tests.tpu.helpers import buffers, error, inputs64, language, reference, target

os.environ.setdefault("JAX_PLATFORMS", "cpu")
pytest.importorskip("jax")


def attention(queries: int, keys: int, causal: bool, **schedule: int) -> tuple[Source, Program]:
    op = load_operator("attention")
    sizes = {"B": 1, "H": 1, "G": 1, "SQ": queries, "SK": keys, "D": 64}
    (work,) = works(Problem(op, sizes, {"causal": causal}), [target()], ["bf16"], schedule)
    return steps.emit(work)


def wanted(a: Any, causal: bool) -> np.ndarray:
    """Query i sees the keys 0 to i where ``causal``; the reference aligns the last query with the last key instead."""
    if not causal:
        return reference("attention_full")(a)
    seen = [{"q": a["q"][..., i : i + 1, :], "k": a["k"][..., : i + 1, :], "v": a["v"][..., : i + 1, :]}
            for i in range(a["q"].shape[-2])]  # fmt: skip
    return np.concatenate([reference("attention_full")(x) for x in seen], axis=-2)


@pytest.mark.parametrize(("queries", "keys", "causal", "tile"), [
    (512, 512, True, 256),  # blocks on the diagonal, which stop at a piece's end, and blocks below it
    (256, 256, True, 256),  # a single block
    (300, 500, True, 256),  # ragged rows, and keys that no row sees
    (512, 300, False, 256),  # ragged keys, no mask but theirs
])  # fmt: skip
def test_pieces_compute_what_a_whole_block_does(queries: int, keys: int, causal: bool, tile: int) -> None:
    source, program = attention(queries, keys, causal, sq=tile, sk=tile, piece=128, split=1)
    assert f"for at in range(0, {'BSQ' if queries > tile else tile}, 128):" in source.text
    found = buffers(program, {})
    language().simulator.load(source, None).run(found, {})
    assert error(found["out"].array, wanted(inputs64(program, found), causal)) < 1e-2


def test_only_blocks_on_the_diagonal_are_masked(golden: Any) -> None:
    source, _ = attention(1024, 1024, True, sq=512, sk=512, piece=256, split=1)
    golden("attention_pieces.py", source.text)
    inside, edge = source.text.split("def inside():")[1].split("def edge():")
    assert "jnp.where(rows >= cols" in edge and "rows" not in inside
    assert "k_ref[:seen]" in edge and "k_ref[...]" in inside


@pytest.mark.parametrize(("tile", "piece"), [(128, 128), (256, 96), (384, 256)])
def test_blocks_that_pieces_do_not_divide_stay_whole(tile: int, piece: int) -> None:
    source, _ = attention(1536, 1536, True, sq=tile, sk=128, piece=piece, split=1)
    assert "for at in" not in source.text
