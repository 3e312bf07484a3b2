"""Parts of a merged axis with a dim of one element between them: the second part was multiplied into that dim."""
# case: {"dims": {"M": 1, "N": 5, "K": 1, "B": 4}, "dtype": "f32"}
# case: {"dims": {"M": 1, "N": 16, "K": 1, "B": 8}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K", "2*B"], w: pk.Tensor["N", "2*B", "B"]):
    return pk.einsum("bhsd,hde->bse", x, w)
