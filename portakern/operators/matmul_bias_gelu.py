"""The first half of a transformer's feed-forward layer."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(M=512, N=512, K=256),
        "ragged": dict(M=129, N=65, K=77),
        "tiny": dict(M=2, N=3, K=4),
        "one": dict(M=1, N=1, K=1),
        "zero": dict(M=0, N=16, K=16),
        "no_sum": dict(M=3, N=5, K=0),
        "long": dict(M=4, N=32, K=10000),
        "unaligned": dict(M=100, N=250, K=33),
    },
    inputs={"w": pk.Normal(scale=0.05)},
    torch="F.gelu(torch.addmm(bias.to(x.dtype), x, w), approximate='tanh')",
)
def matmul_bias_gelu(x: pk.Tensor["M", "K"], w: pk.Tensor["K", "N"], bias: pk.Tensor["N", pk.f32]):
    """gelu(x @ w + bias) with the tanh form of gelu; nothing is rounded before the end."""
    return pk.cast(pk.gelu(pk.matmul(x, w, dtype=pk.f32) + bias, approximate="tanh"), x.dtype)
