"""The gate of a SwiGLU layer."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=1024, N=1024),
        "ragged": dict(M=77, N=1003),
        "tiny": dict(M=2, N=3),
        "one": dict(M=1, N=1),
        "zero": dict(M=5, N=0),
        "long": dict(M=3, N=70000),
        "unaligned": dict(M=129, N=255),
    },
    torch="F.silu(gate) * up",
)
def silu_mul(gate: pk.Tensor["M", "N"], up: pk.Tensor["M", "N"]):
    """gate * sigmoid(gate) * up."""
    g = pk.cast(gate, pk.f32)
    return pk.cast(g * pk.sigmoid(g) * up, gate.dtype)
