"""Sums of neighbouring rows that belong together."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(P=4096, D=128, N=256),
        "ragged": dict(P=37, D=19, N=5),
        "tiny": dict(P=3, D=2, N=2),
        "one": dict(P=1, D=1, N=1),
        "zero": dict(P=0, D=8, N=3),
        "none": dict(P=17, D=8, N=0),
        "long": dict(P=3001, D=3, N=7),
        "line": dict(P=997, D=1, N=31),
        "unaligned": dict(P=65, D=33, N=13),
    },
    inputs={"offsets": pk.Offsets("P")},
    torch="torch.segment_reduce(x.float(), 'sum', offsets=offsets.long(), initial=0.0).to(x.dtype)",
)
def segment_sum(x: pk.Tensor["P", "D"], offsets: pk.Tensor["N+1", pk.i32]):
    """Row i is the sum, in f32, of rows offsets[i] to below offsets[i + 1] of x; zeros where there are none."""
    return pk.segment_sum(x, offsets)
