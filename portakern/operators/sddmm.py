"""Products of two dense matrices, at the places of a sparse one."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=1024, N=1024, K=128, P=16384),
        "ragged": dict(M=37, N=29, K=19, P=211),
        "tiny": dict(M=2, N=3, K=2, P=3),
        "one": dict(M=1, N=1, K=1, P=1),
        "zero": dict(M=3, N=5, K=8, P=0),
        "long": dict(M=3, N=2, K=4099, P=5),
        "unaligned": dict(M=17, N=13, K=67, P=131),
    },
    inputs={"rows": pk.Integers(0, "M"), "columns": pk.Integers(0, "N")},
    torch="(a[rows.long()] * b[columns.long()]).sum(-1)",
)
def sddmm(a: pk.Tensor["M", "K"], b: pk.Tensor["N", "K"], rows: pk.Tensor["P", pk.i32], columns: pk.Tensor["P", pk.i32]):
    """Element p is the product of row rows[p] of a and row columns[p] of b, summed in f32."""
    left, right = (pk.cast(pk.take(x, at, axis=0), pk.f32) for x, at in ((a, rows), (b, columns)))
    return pk.cast(pk.sum(left * right, axis=-1), a.dtype)
