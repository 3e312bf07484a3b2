"""Attention whose values are shared by all batches: these are rows of the product with them, which have keys of their own, and no
language had a rule for the tile."""
# case: {"dims": {"N": 4, "M": 24, "K": 33, "D": 17, "S": 1}, "dtype": "f32", "stages": ["large", "integers"]}
# case: {"dims": {"N": 4, "M": 24, "K": 33, "D": 17, "S": 5}, "dtype": "bf16", "stages": ["large", "integers"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["N", "S", "M"], k: pk.Tensor["N", "K", "M"], u: pk.Tensor["K", "D"]):
    s = pk.matmul(q, pk.swapaxes(k, 1, 2), dtype=pk.f32)
    alone = pk.softmax(pk.einsum("nm,nkm->nk", q[:, 0], k)) @ u
    return pk.cast(pk.softmax(s), u.dtype) @ u, alone
