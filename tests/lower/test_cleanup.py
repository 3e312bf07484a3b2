"""Tile kernels before and after they are tidied."""

from __future__ import annotations

from portakern.ir import tile as t
from portakern.ir.program import parse_kernels
from portakern.lower.cleanup import clean

MASKED = """# portakern ir 1
@kernel(family='rows', axes=('m=grid(B, 16)', 'k=whole(2, 2)'), schedule='m=16,k=2,stages=1,warps=1')
def op(x: buffer[2, B, i32], out: buffer[B, i32]):
    v0: tile[k:2, m:16, i32] = load(x, ('k', 'm'), ('k:2', 'm:16'), None, ())
    v1: tile[m:16, i32] = coord('m', ('m:16',), 'i32')
    v2: tile[k:2, i32] = coord('k', ('k:2',), 'i32')
    v3: tile[m:16, k:2, i32] = broadcast(v1, ('m:16', 'k:2'))
    v4: tile[m:16, k:2, i32] = broadcast(v2, ('m:16', 'k:2'))
    v5: tile[m:16, k:2, i32] = binary('add', v3, v4)
    v6: tile[k:2, m:16, i32] = permute(v5, ('k', 'm'))
    v7: tile[k:2, m:16, i32] = binary('max', v0, v6)
    v8: tile[m:16, i32] = reduce('max', v7, 'k')
    store(v8, out, ('m',), 'set')
"""


def cleaned(text: str) -> str:
    (kernel,) = parse_kernels(text)
    assert isinstance(kernel, t.Kernel)
    return str(clean(kernel))


def test_vectors_meet_in_the_order_that_is_wanted():
    text = cleaned(MASKED)
    assert "permute" in MASKED and "permute" not in text
    assert text.count("broadcast(") == 2 and text.count("('k:2', 'm:16',)") == 3  # of the load, too


def test_a_tile_from_memory_is_still_transposed():
    held = MASKED.replace("v5: tile[m:16, k:2, i32] = binary('add', v3, v4)",
                          "v9: tile[m:16, k:2, i32] = load(x, ('k', 'm'), ('m:16', 'k:2'), None, ())\n"
                          "    v5: tile[m:16, k:2, i32] = binary('add', v3, v9)")  # fmt: skip
    assert "permute(" in cleaned(held)


TAIL = """# portakern ir 1
@kernel(family='elementwise', axes=('m=grid(10, 16)',), schedule='m=16,stages=1,warps=1')
def op(x: buffer[20, bf16], out: buffer[10, bf16]):
    v0: tile[m:16, bf16] = load(x, ('m + 3',), ('m:16',), 0.0, ())
    v1: tile[m:16, f32] = cast(v0, 'f32')
    v2: tile[m:16, f32] = mask(v1, 'm', 0.0)
    v3: tile[m:16, bf16] = cast(v2, 'bf16')
    store(v3, out, ('m',), 'set')
"""


def test_what_was_widened_to_be_masked_is_masked_as_it_was():
    text = cleaned(TAIL)
    assert "cast(" not in text and "mask(" in text
    kept = cleaned(TAIL.replace("mask(v1, 'm', 0.0)", "mask(v1, 'm', 0.1)"))
    assert kept.count("cast(") == 2, "bf16 has no 0.1"
