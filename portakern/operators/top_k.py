"""The largest elements of rows."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(M=8, N=128),
        "ragged": dict(M=7, N=101, k=5),
        "tiny": dict(M=3, N=5),
        "one": dict(M=2, N=1, k=1),
        "zero": dict(M=0, N=16),
        "long": dict(M=1, N=4100, k=2),
        "unaligned": dict(M=13, N=33, k=33),
        "equal": dict(M=4, N=20, inputs={"x": pk.Integers(0, 4)}),
    },
    torch="torch.topk(x, k)",
)
def top_k(x: pk.Tensor["M", "N"], k: int = 4):
    """The ``k`` largest elements of every row, largest first, and their i32 indices: of equals the lowest, NaN before all."""
    values, indices = pk.topk(x, k)
    return {"values": values, "indices": indices}
