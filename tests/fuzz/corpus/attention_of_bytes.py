"""HIP and CUDA C++ refused or did not compile queries and keys of bytes: instructions take 32 or 64 of them in a line, queries
that stay in registers are written into words, and the heads of most schedules were rounded up to 16."""
# case: {"dims": {"H": 2, "S": 17, "T": 33, "D": 16, "E": 16}, "dtype": "bf16", "stages": ["nonfinite"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["H", "S", "D", pk.i8], k: pk.Tensor["H", "T", "D", pk.i8], v: pk.Tensor["H", "T", "E"]):
    scores = pk.cast(pk.einsum("hsd,htd->hst", q, k, dtype=pk.i32), pk.f32) * 1e-3
    return pk.einsum("hst,hte->hse", pk.cast(pk.softmax(scores), v.dtype), v)
