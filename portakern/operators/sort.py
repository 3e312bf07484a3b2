"""Rows in order."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "i32"),
    cases={
        "typical": dict(M=8, N=128),
        "ragged": dict(M=7, N=101, descending=True),
        "tiny": dict(M=3, N=5),
        "one": dict(M=2, N=1),
        "zero": dict(M=0, N=16),
        "long": dict(M=1, N=2100),
        "unaligned": dict(M=13, N=33),
        "equal": dict(M=4, N=70, inputs={"x": pk.Integers(0, 4)}),
    },
    torch="torch.sort(x, descending=descending, stable=True)",
)
def sort(x: pk.Tensor["M", "N"], descending: bool = False):
    """Every row in order, and the i32 indices that its elements had: equal ones keep theirs, NaN is the largest."""
    return {"values": pk.sort(x, descending=descending), "indices": pk.argsort(x, descending=descending)}
