"""every target: "a reshape that splits or joins dims of a computed value inside a kernel": keys of pages were an output as well."""
# case: {"dims": {"M": 12, "N": 33, "K": 128, "B": 7}, "dtype": "bf16", "open": ["M"], "stages": ["integers", "steep"]}
# case: {"dims": {"M": 3, "N": 8, "K": 5, "B": 2}, "dtype": "f32"}

import portakern as pk


@pk.operator(inputs={"length": pk.Integers(0, "4*B"), "table": pk.Integers(0, "K")})
def op(q: pk.Tensor["M", 2, "N"], k: pk.Tensor["4*K", "N"], v: pk.Tensor["4*K", "N"], table: pk.Tensor["M", "B", pk.i32], length: pk.Tensor["M", pk.i32]):
    rows = (table[:, :, None] * 4 + pk.arange(4, table.dtype)).reshape(table.shape[0], 4 * table.shape[1])
    a, b = pk.take(k, rows), pk.take(v, rows)
    s = pk.einsum("brd,bjd->brj", q, a, dtype=pk.f32) * 0.125
    p = pk.softmax(pk.where(pk.iota(s.shape, -1) <= length[:, None, None], s, -float("inf")))
    return b, pk.einsum("brj,bjd->brd", pk.cast(p, b.dtype), b)
