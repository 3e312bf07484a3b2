"""Products of 8-bit integers, summed in 32 bits, with a scale for each row of a and of b (torch._int_mm)."""

import portakern as pk


@pk.operator(
    dtypes=("i8",),
    cases={
        "typical": dict(M=256, N=256, K=256),
        "ragged": dict(M=77, N=49, K=205),
        "tiny": dict(M=2, N=3, K=4),
        "one": dict(M=1, N=1, K=1),
        "zero": dict(M=0, N=16, K=16),
        "long": dict(M=3, N=16, K=5000),
        "unaligned": dict(M=65, N=130, K=63),
    },
    inputs={"scale_a": pk.Uniform(0.01, 1.0), "scale_b": pk.Uniform(0.01, 1.0)},
    torch="(torch._int_mm(a, b.T) * scale_a[:, None] * scale_b).bfloat16()",
)
def rows(a: pk.Tensor["M", "K"], b: pk.Tensor["N", "K"], scale_a: pk.Tensor["M", pk.f32], scale_b: pk.Tensor["N", pk.f32]):
    """a @ b.T in 32 bits, exactly; then scaled."""
    sums = pk.matmul(a, pk.transpose(b), pk.i32)
    return pk.cast(pk.cast(sums, pk.f32) * scale_a[:, None] * scale_b, pk.bf16)


@pk.operator(
    dtypes=("i8",),
    cases={"typical": dict(M=256, N=256, G=4), "ragged": dict(M=77, N=49, G=3), "one": dict(M=1, N=1, G=1),
           "zero": dict(M=0, N=16, G=1), "small": dict(M=33, N=40, G=5, group=32)},
    inputs={"scale_a": pk.Uniform(0.01, 1.0), "scale_b": pk.Uniform(0.01, 1.0)},
    shapes=lambda group: {"a": ("M", f"{group}*G"), "b": ("N", f"{group}*G")},
)  # fmt: skip
def groups(a: pk.Tensor["M", "K"], b: pk.Tensor["N", "K"], scale_a: pk.Tensor["M", "G", pk.f32],
           scale_b: pk.Tensor["N", "G", pk.f32], group: int = 64):
    """a @ b.T with a scale for each group of neighbours along k: the sum of each is exact, scaled and added."""
    m, g = scale_a.shape
    n = scale_b.shape[0]
    sums = pk.einsum("mgk,ngk->gmn", pk.reshape(a, (m, g, group)), pk.reshape(b, (n, g, group)), dtype=pk.i32)
    scaled = pk.cast(sums, pk.f32) * pk.transpose(scale_a)[:, :, None] * pk.transpose(scale_b)[:, None, :]
    return pk.cast(pk.sum(scaled, axis=0), pk.bf16)
