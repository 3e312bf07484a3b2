"""The products of a mixture of experts: tokens that are sorted by expert, each times its expert's matrix."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(P=512, K=256, N=256, G=8),
        "ragged": dict(P=77, K=40, N=37, G=5),
        "tiny": dict(P=3, K=2, N=3, G=2),
        "one": dict(P=1, K=8, N=8, G=1),
        "zero": dict(P=0, K=16, N=16, G=4),
        "long": dict(P=5, K=3001, N=8, G=3),
        "many": dict(P=19, K=16, N=24, G=61),
        "unaligned": dict(P=131, K=65, N=33, G=3),
    },
    inputs={"offsets": pk.Offsets("P")},
    torch="torch.cat([x[:offsets[0]] @ w[0] * 0, *(x[a:b] @ m for a, b, m in zip(offsets[:-1], offsets[1:], w))])",
)
def moe_grouped_matmul(x: pk.Tensor["P", "K"], w: pk.Tensor["G", "K", "N"], offsets: pk.Tensor["G+1", pk.i32]):
    """Rows offsets[g] to below offsets[g + 1] of x times w[g], summed in f32; zeros for rows of no expert."""
    return pk.grouped_matmul(x, w, offsets)
