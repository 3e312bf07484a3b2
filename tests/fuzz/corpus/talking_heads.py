"""No language had a rule for a product of tiles of three dims: scores mixed over heads were taken for those of an attention, though
rows and keys come of one operand."""
# case: {"dims": {"B": 2, "H": 3, "I": 9, "K": 8, "J": 13, "D": 10}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["B", "H", "I", "K"], k: pk.Tensor["B", "H", "J", "K"], v: pk.Tensor["B", "H", "J", "D"], w: pk.Tensor["H", "H"]):
    s = pk.einsum("bhik,bhjk->bhij", q, k, dtype=pk.f32) * 0.2
    p = pk.softmax(pk.einsum("bhij,hg->bgij", s, w))
    return pk.einsum("bhij,bhjd->bihd", p, v)
