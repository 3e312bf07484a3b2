"""Matrix transpose."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=1024, N=1024),
        "ragged": dict(M=1001, N=67),
        "tiny": dict(M=2, N=3),
        "one": dict(M=1, N=17),
        "zero": dict(M=0, N=8),
        "long": dict(M=3, N=50000),
        "unaligned": dict(M=129, N=255),
    },
    torch="x.T.contiguous()",
)
def transpose(x: pk.Tensor["M", "N"]):
    """Rows become columns."""
    return x.T
