"""Sums of rows."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=1024, N=1024),
        "ragged": dict(M=65, N=1001),
        "tiny": dict(M=3, N=2),
        "one": dict(M=1, N=1),
        "zero": dict(M=7, N=0),
        "long": dict(M=4, N=70000),
        "unaligned": dict(M=255, N=129),
    },
    torch="x.sum(-1)",
)
def row_sum(x: pk.Tensor["M", "N"]):
    """The sum of each row, accumulated in f32."""
    return pk.cast(pk.sum(pk.cast(x, pk.f32), axis=-1), x.dtype)
