"""Random bits of a dim of one element that goes where dims are joined: its coordinate is 0."""
# case: {"dims": {"M": 1, "N": 1, "K": 17, "B": 28, "D": 63}, "dtype": "bf16", "stages": ["integers", "small"]}

import portakern as pk


@pk.operator(inputs={"table": pk.Integers(0, "B")})
def op(q: pk.Tensor["M", "N", 2, "K"], k: pk.Tensor["B", "N", 16, "K"], v: pk.Tensor["B", "N", 16, "K"], table: pk.Tensor["M", "D", pk.i64], seed: pk.Scalar[pk.i64]):
    a = pk.swapaxes(k, 1, 2)
    b = pk.swapaxes(v, 1, 2)
    c = pk.reshape(a[table], (table.shape[0], table.shape[1] * a.shape[1], a.shape[2], a.shape[3]))
    d = pk.reshape(pk.take(b, table.reshape(-1)), (table.shape[0], table.shape[1] * b.shape[1], b.shape[2], b.shape[3]))
    s = pk.einsum("bhrd,bjhd->bhrj", q, c, dtype=pk.f32) * 0.125
    e = pk.dropout(d, seed, 0.5)
    return s, e

