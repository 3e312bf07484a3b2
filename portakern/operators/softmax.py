"""Softmax over rows."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=1024, N=1024),
        "ragged": dict(M=37, N=1001),
        "tiny": dict(M=3, N=5),
        "one": dict(M=4, N=1),
        "zero": dict(M=0, N=128),
        "long": dict(M=2, N=70000),
        "unaligned": dict(M=130, N=257),
    },
    torch="F.softmax(x, -1)",
)
def softmax(x: pk.Tensor["M", "N"]):
    """exp(x) over its sum, per row, in f32."""
    return pk.cast(pk.softmax(pk.cast(x, pk.f32), axis=-1), x.dtype)
